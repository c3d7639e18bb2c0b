/** What clients and staff do beyond the API, in the process and over `/_control`. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import type { WorldEvent } from '../../../src/emulator/world/world.ts'
import { type Caller, callerOf, type Loose } from '../caller.ts'

let emulator: Emulator
let caller: Caller
let events: string[]

beforeEach(async () => {
  emulator = await startEmulator({ port: 0, patients: 10, responses: 40 })
  caller = callerOf(emulator)
  events = []
})
afterEach(() => emulator.close())

const watch = () =>
  emulator.control.world().subscribe(({ source, type }: WorldEvent) => void events.push(`${source} ${type}`))
const read = async (id: string) => (await caller.get(`/v2/responses/${id}`)).body
const act = (path: string, body?: unknown) => caller.send('POST', `/_control/${path}`, body, {})
const open = async () =>
  (await caller.rows('/v2/responses')).find((one) => !one.is_submitted && one.packet === null && one.form_id)

describe('a packet', () => {
  async function sent(): Promise<Loose> {
    const { id: patient } = emulator.control.world().patients.at(0)!
    const [packet] = await caller.rows('/v2/packets')
    watch()
    emulator.control.staff().send({ patient, packet: packet.id })
    emulator.control.advance(1000)
    await expect.poll(() => events).toContain('packet_response created')
    const { body } = await caller.send('GET', '/_control/packet-responses', undefined, {})
    return body.results[0]
  }

  it('is set up with open members, which exist before its event, and no progress', async () => {
    const packet = await sent()
    expect(packet).toMatchObject({ is_submitted: false, submitted_at: null, form_index: null })
    expect(packet.packet.forms[0].questions.length).toBeGreaterThan(0)
    expect(events.indexOf('response created')).toBeLessThan(events.indexOf('packet_response created'))
    for (const id of packet.responses)
      expect(await read(id)).toMatchObject({ is_submitted: false, answers: [] })
  })

  it('advances form by form; each form gets its answers, and none is submitted', async () => {
    const { id, responses } = await sent()
    for (const [at, member] of responses.entries()) {
      const { body } = await act(`packet-responses/${id}/advance`)
      expect(body).toMatchObject({ form_index: at + 1, is_submitted: false })
      const { answers, is_submitted } = await read(member)
      expect({ answered: answers.length > 0, is_submitted }).toEqual({ answered: true, is_submitted: false })
    }
    expect((await act(`packet-responses/${id}/advance`)).status).toBe(400)
  })

  it('gives every member the same time when it is submitted; skipped members have no answers', async () => {
    const { id, responses } = await sent()
    const { body } = await act(`packet-responses/${id}/submit`, { skip: [2] })
    expect(body).toMatchObject({ is_submitted: true, form_index: responses.length })
    for (const [at, member] of responses.entries()) {
      const { is_submitted, is_skipped, submitted_at, answers } = await read(member)
      expect({ is_submitted, is_skipped, submitted_at }).toEqual({
        is_submitted: true,
        is_skipped: at === 1,
        submitted_at: body.submitted_at,
      })
      expect(answers.length > 0).toBe(at !== 1)
    }
    expect((await act(`packet-responses/${id}/submit`)).status).toBe(400)
  })

  it('does not let its members be submitted alone', async () => {
    const { responses } = await sent()
    const { status, body } = await act(`responses/${responses[0]}/submit`)
    expect({ status, detail: body.detail }).toEqual({
      status: 400,
      detail: 'it is submitted, or is so with its packet only',
    })
  })
})

describe('a response', () => {
  it('gets generated answers to every question, is submitted once, archived once, and deleted', async () => {
    const { id } = await open()
    watch()
    const saved = (await act(`responses/${id}/answers`)).body
    expect(saved.answers.length).toBeGreaterThan(0)
    expect(saved.is_submitted).toBe(false)
    const submitted = (await act(`responses/${id}/submit`)).body
    expect(submitted).toEqual(await read(id))
    expect(submitted.submitted_at).toBe(submitted.updated_at)
    expect((await act(`responses/${id}/submit`)).status).toBe(400)
    expect((await act(`responses/${id}/archive`)).body.is_archived).toBe(true)
    expect((await act(`responses/${id}/archive`)).status).toBe(400)
    expect((await caller.send('DELETE', `/_control/responses/${id}`, undefined, {})).status).toBe(200)
    expect((await caller.get(`/v2/responses/${id}`)).body).toEqual({ detail: 'Response not found.' })
    expect(events).toEqual([...Array(3).fill('response updated'), 'response deleted'])
  })

  it('gets the given answers, of every kind, and keeps the current wording', async () => {
    const { control } = emulator
    const form = control.addForm({
      name: 'All kinds',
      questions: [
        { type: 'short_text', text: 'Name' },
        { type: 'number', text: 'Weight' },
        { type: 'multiple_choice', text: 'Devices', choices: ['Cane', 'Walker', 'None'] },
        { type: 'checkbox', text: 'Agreed' },
        { type: 'matrix', text: 'Doses', rows: ['Morning', 'Noon'], columns: ['Drug', 'Dose'] },
        { type: 'repeated_block', text: 'Past', members: [{ type: 'short_text', text: 'Drug' }] },
        { type: 'file', text: 'Card' },
        { type: 'signature', text: 'Signed' },
      ],
    })
    const [name, weight, devices, agreed, doses, , drug, card, signed] = form.questions.map(({ id }) => id)
    const patient = control.world().patients.at(0)!.id
    control.staff().send({ patient, form: form.id })
    control.advance(1000)
    await expect.poll(async () => (await caller.rows(`/v2/responses?form=${form.id}`)).length).toBe(1)
    const [{ id }] = await caller.rows(`/v2/responses?form=${form.id}`)
    const reply = await act(`responses/${id}/answers`, {
      answers: {
        [name!]: 'Zoë\n"Z"',
        [weight!]: 72.5,
        [devices!]: ['Cane', 'Walker'],
        [agreed!]: true,
        [doses!]: { Morning: { Drug: 'Aspirin', Dose: '81 mg' }, Noon: { Dose: '0' } },
        [drug!]: ['One', 'Two'],
        [card!]: { name: 'card.png', content_type: 'image/png', size: 123 },
        [signed!]: 'Zoë Z',
      },
    })
    expect(reply.status).toBe(200)
    control.renameQuestion(form.id, name!, 'Reworded')
    const { answers, matrix_cells, files, e_signatures } = await read(id)
    const texts = answers.map(({ question, answer_text, answer_choices }: Loose) => [
      question.text,
      answer_text,
      ...answer_choices.map(({ question_choice }: Loose) => question_choice.text_value),
    ])
    expect(texts).toEqual([
      ['Name', 'Zoë\n"Z"'],
      ['Weight', '72.5'],
      ['Devices', null, 'Cane', 'Walker'],
      ['Agreed', 'true'],
      ['Doses', null],
      ['Drug', 'One'],
      ['Drug', 'Two'],
      ['Card', null],
      ['Signed', null],
    ])
    const cells = matrix_cells.map(({ row, column, answer_text }: Loose) => [
      row.text,
      column.text,
      answer_text,
    ])
    expect(cells).toEqual([
      ['Morning', 'Drug', 'Aspirin'],
      ['Morning', 'Dose', '81 mg'],
      ['Noon', 'Dose', '0'],
    ])
    expect(files).toEqual([expect.objectContaining({ name: 'card.png', size: 123, question: { id: card } })])
    expect(e_signatures).toEqual([expect.objectContaining({ signer_name: 'Zoë Z' })])
  })

  it.each<[string, unknown]>([
    ['a question that the form does not have', { answers: { nothing: 'x' } }],
    ['answers that are a list', { answers: [] }],
    ['a body that is no object', []],
  ])('refuses %s and stays as it is', async (_title, body) => {
    const response = await open()
    expect((await act(`responses/${response.id}/answers`, body)).status).toBe(400)
    expect(await read(response.id)).toEqual(response)
  })
})

describe('another team', () => {
  it('is served by the same actions where it is named, and only there; a team that is none is refused', async () => {
    const { name } = emulator.environments[1]!.teams[1]!
    const world = emulator.control.world(name)
    const team = `?team=${encodeURIComponent(name)}`
    const open = world.responses
      .slice(0, 100)
      .filter((one) => !one.is_submitted && one.packet === null && one.form)
    const packet = world.packetResponses.slice(0, 100).find((one) => !one.is_submitted)!
    const [id, other] = [open[0]!.id, open[1]!.id]
    for (const path of [`responses/${id}/answers`, `responses/${id}/submit`, `responses/${id}/archive`]) {
      expect((await act(path)).status).toBe(400)
      expect((await act(`${path}?team=nobody`)).body).toEqual({ detail: 'no team is named "nobody"' })
      expect((await act(path + team)).body.id).toBe(id)
    }
    for (const step of ['advance', 'submit', 'archive']) {
      const path = `packet-responses/${packet.id}/${step}`
      expect([(await act(path)).status, (await act(path + team)).body.id]).toEqual([400, packet.id])
    }
    expect((await caller.send('DELETE', `/_control/responses/${other}`, undefined, {})).status).toBe(400)
    expect((await caller.send('DELETE', `/_control/responses/${other}${team}`, undefined, {})).body).toEqual(
      {},
    )
    expect(world.responses.get(other)).toBeUndefined()
    expect(world.responses.get(id)).toMatchObject({ is_submitted: true, is_archived: true })
    expect(world.packetResponses.get(packet.id)).toMatchObject({ is_submitted: true, is_archived: true })
    const { count, results } = (await caller.get(`/_control/packet-responses${team}`, {})).body
    expect([count, results.map((one: Loose) => one.id)]).toEqual([
      world.packetResponses.size,
      world.packetResponses.slice(0, 1000, true).map((one) => one.id),
    ])
  })

  it('is not submitted with anything but a list of what it skips', async () => {
    const open = emulator.control.world().packetResponses.slice(0, 100)
    const { id } = open.find((one) => !one.is_submitted)!
    for (const skip of [1, 'x', {}, null]) {
      const { status, body } = await act(`packet-responses/${id}/submit`, { skip })
      expect([status, body.detail]).toEqual([400, 'skip must be a list of positions, counted from 1'])
    }
    expect(emulator.control.world().packetResponses.get(id)!.is_submitted).toBe(false)
  })
})

describe('the clock', () => {
  it('moves for sandbox and production alike, and stamps later changes', async () => {
    const create = async () => {
      const before = Date.now()
      const { body, headers } = await caller.send('POST', '/v2/patients', { first_name: 'A', last_name: 'B' })
      const stamps = [body.created_at, headers.get('date')!].map((time) => Date.parse(time))
      return { before, after: Date.now(), stamps }
    }
    /** `Date` is in whole seconds, and the two clocks of a process differ by some microseconds. */
    const expectAhead = ({ before, after, stamps }: Awaited<ReturnType<typeof create>>) => {
      for (const stamp of stamps) {
        expect(stamp).toBeGreaterThanOrEqual(before + 86_400_000 - 2000)
        expect(stamp).toBeLessThanOrEqual(after + 86_400_000 + 1000)
      }
    }
    const { status } = await act('clock', { advance_seconds: 86_400 })
    expect(status).toBe(200)
    expectAhead(await create())
    for (const advance_seconds of [-1, 'x', null, 1e12, 1e15]) {
      expect((await act('clock', { advance_seconds })).status).toBe(400)
    }
    expectAhead(await create())
  })
})

it('activity causes all of these changes, and none that the rules forbid', async () => {
  await using busy = await startEmulator({ port: 0, patients: 60, responses: 120, activity: 1000 })
  const seen = new Set<string>()
  busy.control.world().subscribe(({ source, type }) => void seen.add(`${source} ${type}`))
  const wanted = [
    ...['created', 'updated', 'deleted'].flatMap((type) => [`patient ${type}`, `response ${type}`]),
    ...['form updated', 'packet updated', 'document updated', 'message created', 'message updated'],
    ...['packet_response created', 'packet_response updated'],
  ]
  await expect.poll(() => wanted.filter((one) => !seen.has(one))).toEqual([])
  for (const one of await callerOf(busy).rows('/v2/responses?page_size=1000')) {
    expect(one.is_submitted).toBe(one.submitted_at !== null)
    if (one.is_skipped) expect(one).toMatchObject({ is_submitted: true, answers: [] })
  }
})
