import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { awayFromTheHour } from '../../../support/hour.ts'
import { type Caller, callerOf, type Loose } from '../../caller.ts'

let emulator: Emulator
let caller: Caller
let all: Loose[]

beforeAll(async () => {
  // The addresses of files are others every hour.
  await awayFromTheHour()
  emulator = await startEmulator({ port: 0, patients: 20, responses: 150 })
  caller = callerOf(emulator)
  all = await caller.rows('/v2/responses?page_size=1000')
})
afterAll(() => emulator.close())

const day = (text: string) => text.slice(0, 10)

describe('the list of responses', () => {
  it('shows each once, with the same content as by id', async () => {
    expect(new Set(all.map(({ id }) => id)).size).toBe(150)
    for (const one of all.filter((_, at) => at % 10 === 0)) {
      expect((await caller.get(`/v2/responses/${one.id}`)).body).toEqual(one)
    }
  })

  it.each([
    ['patient', (one: Loose) => one.patient.id],
    ['form', (one: Loose) => one.form_id],
    ['packet', (one: Loose) => one.packet?.id],
  ] as const)('is filtered by %s', async (name, idOf) => {
    const wanted = all.map(idOf).find((id) => id !== undefined && id !== null)
    const rows = await caller.rows(`/v2/responses?${name}=${wanted}&page_size=2`)
    expect(rows).toEqual(all.filter((one) => idOf(one) === wanted))
    expect(rows.length).toBeGreaterThan(2)
  })

  it.each([
    ['submitted_on', (one: string, given: string) => one === given],
    ['submitted_after', (one: string, given: string) => one >= given],
    ['submitted_before', (one: string, given: string) => one <= given],
  ] as const)(
    'is filtered by %s: whole days in UTC, the day itself included, open ones left out',
    async (name, keeps) => {
      const days = all.flatMap((one) => (one.submitted_at === null ? [] : [day(one.submitted_at)])).sort()
      const given = days[Math.floor(days.length / 2)]!
      const rows = await caller.rows(`/v2/responses?${name}=${given}`)
      const expected = all.filter(
        ({ submitted_at }) => submitted_at !== null && keeps(day(submitted_at), given),
      )
      expect(rows).toEqual(expected)
      expect(expected.length).toBeGreaterThan(0)
      expect(expected.length).toBeLessThan(all.length)
    },
  )

  it('combines filters', async () => {
    const one = all.find(({ is_submitted, form_id }) => is_submitted && form_id !== null)
    const query = `patient=${one.patient.id}&form=${one.form_id}&submitted_after=${day(one.submitted_at)}`
    const rows = await caller.rows(`/v2/responses?${query}`)
    expect(rows.map(({ id }) => id)).toContain(one.id)
    for (const row of rows) {
      expect(row).toMatchObject({ form_id: one.form_id, patient: { id: one.patient.id } })
    }
  })

  it('is narrowed by each day that is given, by the day of a time, and by an id in capitals', async () => {
    const days = all.flatMap((one) => (one.submitted_at === null ? [] : [day(one.submitted_at)])).sort()
    const [early, late] = [days[Math.floor(days.length / 3)]!, days[Math.floor(days.length / 2)]!]
    const on = (given: string) =>
      all.filter(({ submitted_at }) => submitted_at !== null && day(submitted_at) === given)
    const rows = (query: string) => caller.rows(`/v2/responses?${query}`)
    expect(early < late).toBe(true)
    expect(await rows(`submitted_on=${late}&submitted_after=${early}`)).toEqual(on(late))
    expect(await rows(`submitted_on=${early}&submitted_before=${late}`)).toEqual(on(early))
    expect(await rows(`submitted_on=${early}&submitted_after=${late}`)).toEqual([])
    expect(await rows(`submitted_on=${late}T23:59:59.5Z`)).toEqual(on(late))
    const { id } = all[0]!.patient
    expect(await rows(`patient=${id.toUpperCase()}`)).toEqual(all.filter(({ patient }) => patient.id === id))
  })

  it('is empty for an unknown id, and 400 for a day that does not exist', async () => {
    expect((await caller.get('/v2/responses?form=nothing')).body).toMatchObject({ count: 0, results: [] })
    const days = [
      '2026-02-30',
      'soon',
      '',
      '2026-01-010',
      '2026-01-01%20(foo)',
      '2026-01-01%20GMT',
      '0000-01-01',
    ]
    for (const query of days.map((text) => `submitted_after=${text}`)) {
      const { status, body } = await caller.get(`/v2/responses?${query}`)
      expect({ status, body }).toEqual({ status: 400, body: { detail: 'Validation error.' } })
    }
  })

  it('finds changed responses and no deleted ones when a filter is repeated', async () => {
    const emulated = await startEmulator({ port: 0, patients: 5, responses: 40 })
    try {
      const own = callerOf(emulated)
      const staff = emulated.control.staff()
      const [first] = await own.rows('/v2/responses')
      const query = `/v2/responses?form=${first.form_id}`
      const before = (await own.rows(query)).map(({ id }) => id)
      staff.remove(before[0]!)
      const { id: patient } = emulated.control.world().patients.at(0)!
      staff.send({ patient, form: first.form_id })
      emulated.control.advance(1000)
      await expect.poll(async () => (await own.rows(query)).length).toBe(before.length)
      const after = (await own.rows(query)).map(({ id }) => id)
      expect(after.slice(0, -1)).toEqual(before.slice(1))
      const submittedOn = (day: string) => own.rows(`/v2/responses?submitted_on=${day}`)
      expect(await submittedOn(emulated.control.world().now().slice(0, 10))).toEqual([])
      staff.answer(after.at(-1)!)
      staff.submit(after.at(-1)!)
      const { submitted_at } = emulated.control.world().responses.get(after.at(-1)!)!
      expect((await submittedOn(submitted_at!.slice(0, 10))).map(({ id }) => id)).toEqual([after.at(-1)])
    } finally {
      await emulated.close()
    }
  })
})

describe.each([5, 22, 23, 150])('a world of %i responses holds', (responses) => {
  let rows: Loose[]

  beforeAll(async () => {
    await using small = await startEmulator({ port: 0, patients: 4, responses })
    rows = await callerOf(small).rows('/v2/responses?page_size=1000')
  })

  it('as many as were requested', () => expect(rows).toHaveLength(responses))

  it.each<[string, (one: Loose) => boolean]>([
    ['one that is submitted', (one) => one.is_submitted && one.submitted_at !== null],
    ['one with microseconds', (one) => /\.\d{6}Z$/.test(one.submitted_at ?? '')],
    ['one that is archived', (one) => one.is_archived],
    ['a file', (one) => one.files.length > 0],
    ['a signature', (one) => one.e_signatures.length > 0],
    ['a table of several rows', (one) => new Set(one.matrix_cells.map(({ row }: Loose) => row.id)).size > 1],
    [
      'a block answered several times',
      (one) => {
        const asked = one.answers.map(({ question }: Loose) => question?.id)
        return new Set(asked).size < asked.length
      },
    ],
    [
      'a checkbox that is checked',
      (one) => one.answers.some(({ answer_text }: Loose) => answer_text === 'true'),
    ],
    [
      'a checkbox that is blank',
      (one) => one.answers.some(({ answer_text }: Loose) => answer_text === 'false'),
    ],
    [
      'a question with several choices',
      (one) => one.answers.some(({ answer_choices }: Loose) => answer_choices?.length > 1),
    ],
    [
      'one that was skipped in a packet, stamped submitted and without answers',
      (one) => one.is_skipped && one.is_submitted && one.packet !== null && one.answers.length === 0,
    ],
  ])('%s', (_title, is) => expect(rows.some(is)).toBe(true))

  it('two of one client to one form, on different days', () => {
    const keys = new Map<string, string>()
    const pair = rows.find(({ patient, form_id, submitted_at }) => {
      const key = `${patient.id}/${form_id}`
      const found = form_id !== null && keys.has(key) && keys.get(key) !== day(submitted_at ?? '')
      if (!keys.has(key)) keys.set(key, day(submitted_at ?? ''))
      return found
    })
    expect(pair).toBeDefined()
  })
})

describe('the wording of a response', () => {
  it('stays when the question is reworded, and when the form is deleted', async () => {
    await using emulated = await startEmulator({ port: 0, patients: 5, responses: 30 })
    const own = callerOf(emulated)
    const [one] = (await own.rows('/v2/responses')).filter(({ answers }) => answers.length > 0)
    const question = one.answers[0].question
    emulated.control.renameQuestion(one.form_id, question.id, 'Reworded')
    emulated.control.renameForm(one.form_id, 'Renamed')
    expect((await own.get(`/v2/responses/${one.id}`)).body).toEqual(one)
    emulated.control.deleteForm(one.form_id)
    expect((await own.get(`/v2/responses/${one.id}`)).body).toEqual(one)
    expect((await own.rows(`/v2/responses?form=${one.form_id}`)).map(({ id }) => id)).toContain(one.id)
  })

  it('is found by the packet that it belongs to, also when that is deleted', async () => {
    await using emulated = await startEmulator({ port: 0, patients: 5, responses: 60 })
    const own = callerOf(emulated)
    const { packet } = (await own.rows('/v2/responses')).find((one) => one.packet !== null)
    const found = async () => (await own.rows(`/v2/responses?packet=${packet.id}`)).map(({ id }) => id)
    const before = await found()
    emulated.control.world().packets.remove(packet.id)
    expect(before.length).toBeGreaterThan(1)
    expect(await found()).toEqual(before)
  })

  it('shows the client’s current state, and null for a deleted client', async () => {
    await using emulated = await startEmulator({ port: 0, patients: 5, responses: 30 })
    const own = callerOf(emulated)
    const [one] = await own.rows('/v2/responses')
    emulated.control.updatePatient(one.patient.id, { last_name: 'Married' })
    const renamed = (await own.get(`/v2/responses/${one.id}`)).body
    expect(renamed).toEqual({ ...one, patient: { ...one.patient, last_name: 'Married' } })
    emulated.control.deletePatient(one.patient.id)
    expect((await own.get(`/v2/responses/${one.id}`)).body).toEqual({ ...one, patient: null })
    expect((await own.get(`/v2/responses?patient=${one.patient.id}`)).body.count).toBe(0)
  })
})

it('the same seed gives the same responses, messages and packet responses; another seed gives others', async () => {
  const read = async (seed: number) => {
    await using emulated = await startEmulator({ port: 0, patients: 9, responses: 70, seed })
    const own = callerOf(emulated)
    const { packetResponses } = emulated.control.world()
    const responses = await own.rows('/v2/responses')
    // The addresses of files expire, and are others every hour.
    const plain = JSON.stringify(responses).replaceAll(/\?expires=[^"]*/g, '')
    return [plain, await own.rows('/v2/messages'), packetResponses.slice(0, 100)]
  }
  const [first, second, other] = [await read(1), await read(1), await read(2)]
  expect(second).toEqual(first)
  expect(other[0]).not.toEqual(first![0])
})

it('a million responses take no memory, and any page of them is available at once', async () => {
  await using great = await startEmulator({ port: 0, patients: 100_000, responses: 1_000_000, pageSize: 500 })
  const own = callerOf(great)
  const last = (await own.get('/v2/responses?page=last')).body
  expect(last).toMatchObject({ count: 1_000_000, next: null })
  expect(last.results).toHaveLength(500)
  const { id } = last.results[499]
  expect((await own.get(`/v2/responses/${id}`)).body).toEqual(last.results[499])
  const world = great.control.world()
  expect(world.responses.touched().size).toBe(0)
})
