/**
 * Compares what clients and staff do to a packet and to a response, in many orders, with test/emulator/recorded. After an
 * intended change, `npx vitest run test/emulator/world/clinic-plays.test.ts -u` updates the recording; read the difference
 * before you commit it.
 */
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { ServiceClock, Timeline } from '../../../src/emulator/clock.ts'
import { openResponse, setUpPacket } from '../../../src/emulator/world/clinic-responses.ts'
import { staffOf } from '../../../src/emulator/world/clinic-staff.ts'
import type { Response } from '../../../src/emulator/world/records.ts'
import { placeQuestions } from '../../../src/emulator/world/seeded/make-form.ts'
import { World } from '../../../src/emulator/world/world.ts'

const RECORDED = join(import.meta.dirname, '..', 'recorded', 'clinic.txt')
const NOON = Date.parse('2026-03-01T12:00:00Z') * 1000

/**
 * Of a packet of three forms: `advance`, `submit` (without the members that are named), `archive` it, or do something to
 * its members by their number, from 1; member 4 is a response to the first form alone, 5 one to a document. `give` answers by hand.
 */
const PLAYS = `
advance | advance | advance | advance | submit | archive
submit | advance | submit | archive | archive
advance | submit 1 | answer 1 | archive 1
advance | submit 2 3 | answer 2 | answer 1
advance | advance | submit 2 2
submit 1 2 3
submit 0
submit 4
answer 2 | advance | advance | submit
answer 1 | answer 1 | advance | submit
give 1 | give 2 | submit 2
give 2 | advance | submit 3 | give 2 | give 3
finish 1 | archive 1 | archive 1 | submit
remove 2 | advance | advance | advance | submit | archive
remove 1 | remove 1 | answer 1 | finish 1 | archive 1 | advance
remove 3 | submit 3 | submit
form 1 | advance | submit | answer 1 | give 1
form 2 | advance | advance | submit 2
reword 1 | advance | reword 1 | answer 2 | submit
patient | advance | submit
archive | advance | submit | archive
answer 4 | finish 4 | finish 4 | answer 4 | give 4 | archive 4 | archive 4 | remove 4
finish 4 | archive 4 | answer 4
archive 4 | finish 4 | answer 4
give 4 | reword 1 | give 4 | finish 4 | form 1 | answer 4 | give 4
remove 4 | finish 4 | archive 4 | answer 4 | give 4
patient | answer 4 | finish 4
answer 5 | finish 5 | give 5 | archive 5
document | answer 5 | finish 5
`

function play(script: string): string[] {
  let step = 0
  const clock = { now: () => NOON + step * 1_000_000, sleep: () => new Promise<void>(() => {}) }
  const service = new ServiceClock(clock, 1)
  const sizes = { patients: 2, forms: 0, packets: 0, documents: 1, responses: 0 }
  const nobody = { patients: [], forms: [], surveys: [] }
  const world = new World(['plays'], sizes, nobody, service, new Timeline(service, clock))
  const staff = staffOf(world)
  const times = () => ({ created_at: world.now(), updated_at: world.now() })
  const forms = ['First', 'Second', 'Third'].map((name) =>
    world.forms.create((id, index) => {
      const questions = [
        { type: 'short_text', text: `${name}?` },
        { type: 'signature', text: 'Signed' },
      ] as const
      const placed = placeQuestions({ questions }, world.key, index)
      return { id, name, text: '', enabled: true, ...times(), questions: placed }
    }),
  )
  const formIds = forms.map(({ id }) => id)
  const packet = world.packets.create((id) => ({ id, name: 'All', text: '', forms: formIds, ...times() }))
  const patient = world.patients.at(1)!.id
  const [asked, document] = [{ patient, document: null, message: null }, world.documents.at(0)!.id]
  const set = setUpPacket(world, { ...asked, packet: packet.id })
  const alone = { ...asked, form: null, packet: null, packet_response: null }
  const members = [
    ...set.responses,
    openResponse(world, { ...alone, form: formIds[0]! }).id,
    openResponse(world, { ...alone, document }).id,
  ]
  const events: string[] = []
  const place = (id: string) => (id === set.id ? 'packet' : String(members.indexOf(id) + 1))
  world.subscribe(({ type, id, at }) => void events.push(`${place(id)} ${type} ${(at - NOON) / 1_000_000}`))
  const second = (stamp: string | null) => (stamp === null ? '-' : (Date.parse(stamp) - NOON / 1000) / 1000)
  const textOf = ({ answers, e_signatures }: Response) => {
    const said = answers.map(
      ({ question, answer_text }) => `${question?.text}${answer_text === null ? '' : ' answered'}`,
    )
    const signed = e_signatures.map(
      ({ signer_name, signed_at }) => `${signer_name === '' ? 'nobody' : 'signed'} ${second(signed_at)}`,
    )
    return [...said, ...signed].join(', ')
  }
  const shown = (one: Response | undefined, at: number) => {
    if (one === undefined) return `${at + 1} gone`
    const flags = [
      one.is_submitted && 'submitted',
      one.is_skipped && 'skipped',
      one.is_archived && 'archived',
    ]
    const stamps = `${second(one.submitted_at)}/${second(one.updated_at)}`
    return [at + 1, ...flags.filter(Boolean), stamps, textOf(one)].join(' ').trim()
  }
  function act(verb: string, numbers: readonly number[]): unknown {
    const [first = 0] = numbers
    const id = members[first - 1]!
    const [question] =
      world.responses.get(id)?.form === undefined
        ? []
        : (world.forms.get(world.responses.get(id)!.form ?? '')?.questions ?? [])
    if (verb === 'advance') return staff.advancePacket(set.id)
    if (verb === 'submit') return staff.submitPacket(set.id, numbers)
    if (verb === 'archive') return first === 0 ? staff.archivePacket(set.id) : staff.archive(id)
    if (verb === 'answer') return staff.answer(id)
    if (verb === 'give') return staff.answer(id, { [question?.id ?? 'none']: 'by hand' })
    if (verb === 'finish') return staff.submit(id)
    if (verb === 'remove') return staff.remove(id)
    if (verb === 'patient') return world.patients.remove(patient)
    if (verb === 'document') return world.documents.remove(document)
    if (verb === 'form') return world.forms.remove(formIds[first - 1]!)
    const reworded = ({ questions, ...form }: (typeof forms)[number]) => ({
      ...{ ...form, updated_at: world.now() },
      questions: questions.map((one) => ({ ...one, text: `${one.text} (${step})` })),
    })
    return world.forms.update(formIds[first - 1]!, reworded)
  }
  const lines = [`# ${script}`]
  const state = () => {
    const { is_submitted, submitted_at, form_index, is_archived, is_queued, updated_at } =
      world.packetResponses.get(set.id)!
    const flags = [is_submitted && 'submitted', is_archived && 'archived', is_queued && 'queued'].filter(
      Boolean,
    )
    const own = ['packet', ...flags, form_index, `${second(submitted_at)}/${second(updated_at)}`].join(' ')
    return [own, ...members.map((id, at) => shown(world.responses.get(id), at))]
  }
  let before = state()
  for (const text of script.split(' | ')) {
    step += 1
    const [verb = '', ...numbers] = text.split(' ')
    let refused = ''
    try {
      act(verb, numbers.map(Number))
    } catch (error) {
      expect(error).toBeInstanceOf(RangeError)
      refused = `: ${(error as Error).message}`
    }
    const now = state()
    lines.push(
      `${text}${refused}`,
      ...now.filter((line, at) => line !== before[at]).map((line) => `  ${line}`),
    )
    if (events.length > 0) lines.push(`  [${events.splice(0).join(', ')}]`)
    before = now
  }
  return [...lines, '']
}

it('each order of steps has the effects and events that it had', async () => {
  const lines = PLAYS.trim().split('\n').flatMap(play)
  await expect(lines.join('\n')).toMatchFileSnapshot(RECORDED)
})
