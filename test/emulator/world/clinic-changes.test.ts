/** Activity writes to each patient at an address that the patient has, and plans by the time that passes, not by a wrong clock. */
import { setImmediate as turn } from 'node:timers/promises'
import { beforeEach, expect, it } from 'vitest'
import { ServiceClock, stamp, Timeline } from '../../../src/emulator/clock.ts'
import { NO_FIELDS } from '../../../src/emulator/http/resources/patient-body.ts'
import { CHANGES, type Change } from '../../../src/emulator/world/clinic-changes.ts'
import { changeMessage, createMessage } from '../../../src/emulator/world/clinic-messages.ts'
import { staffOf } from '../../../src/emulator/world/clinic-staff.ts'
import { Draw, keyOf } from '../../../src/emulator/world/draw.ts'
import type { Message } from '../../../src/emulator/world/records.ts'
import { contentOf } from '../../../src/emulator/world/seeded/make-response.ts'
import { World } from '../../../src/emulator/world/world.ts'
import { stillAt } from '../still-clock.ts'

const NOON = Date.parse('2026-03-01T12:00:00Z') * 1000
/** How wrong the clock of the service is. */
const HOUR = 3_600_000_000

const ADDRESSES: readonly (readonly [name: string, email: string | null, phone: string | null])[] = [
  ['both', 'both@example.com', '5550101'],
  ['mail', 'mail@example.com', null],
  ['mail, no phone', 'other@example.com', ''],
  ['phone', null, '5550104'],
  ['phone, no mail', '', '5550105'],
  ['none', null, null],
  ['neither', '', ''],
  ['nothing', null, ''],
]

let world: World
let service: ServiceClock

beforeEach(() => {
  const clock = stillAt(NOON)
  service = new ServiceClock(clock, 1)
  service.skew = HOUR
  const patients = ADDRESSES.map(([first_name, email, phone_number]) => ({
    ...{ ...NO_FIELDS, first_name, last_name: 'L', email, phone_number },
  }))
  const sizes = { patients: 0, forms: 2, packets: 2, documents: 2, responses: 0 }
  const imported = { patients, forms: [], surveys: [] }
  world = new World(['changes'], sizes, imported, service, new Timeline(service, clock))
})

/** Messages besides the seeded ones. */
const messages = () => world.messages.slice(world.seed.visits.messages, 1000)
const named = (name: string): Change => CHANGES.find(([, change]) => change.name === name)![1]
const nameOf = ({ patient }: Message) => world.patients.get(patient)!.first_name

it('messages go to an e-mail address, else to a phone, and to nobody who has neither', () => {
  const send = named('sendMessage')
  for (let nth = 0; nth < 400; nth += 1) {
    const before = world.messages.size
    expect(send(world, new Draw(keyOf('changes'), nth))).toBe(world.messages.size === before + 1)
  }
  const found = new Map(
    messages().map((one) => [
      nameOf(one),
      [one.preferred_delivery_method, one.target_email, one.target_phone_number],
    ]),
  )
  expect(Object.fromEntries(found)).toEqual({
    both: ['email', 'both@example.com', null],
    mail: ['email', 'mail@example.com', null],
    'mail, no phone': ['email', 'other@example.com', null],
    phone: ['sms', null, '5550104'],
    'phone, no mail': ['sms', null, '5550105'],
  })
  // Each asks for a form or a packet; one in five is for later, within half a minute.
  for (const { form, packet, document, scheduled_at, status, created_at } of messages()) {
    expect([form === null, document]).toEqual([packet !== null, null])
    expect([created_at, status]).toEqual([
      ...[
        stamp(NOON + HOUR),
        scheduled_at === null ? 'pending' : expect.stringMatching(/^(?:scheduled|pending)$/),
      ],
    ])
    if (scheduled_at !== null)
      expect(Math.abs(Date.parse(scheduled_at) - NOON / 1000 - 15_000)).toBeLessThan(15_001)
  }
  expect(new Set(messages().map(({ status }) => status))).toEqual(new Set(['pending', 'scheduled']))
})

const sent = () => messages().map(({ status, sent_at }) => [status, sent_at])
const pass = async (microseconds: number) => {
  service.advance(microseconds)
  for (let turns = 0; turns < 5; turns += 1) await turn()
}

it('a message is sent a fifth of a second later, or at its time, however wrong the clock of the service is', async () => {
  const [patient, form] = [world.patients.at(0)!.id, world.forms.at(0)!.id]
  const other = world.forms.at(1)!
  const fields = {
    ...{ patient, form, packet: null, document: null, message_type: 'form_response_request' },
    ...{
      preferred_delivery_method: 'email' as const,
      target_email: 'a@example.com',
      target_phone_number: null,
    },
  }
  createMessage(world, { ...fields, scheduled_at: null })
  const later = createMessage(world, { ...fields, scheduled_at: stamp(NOON + 50_000_000) })
  // A time that is not in the future means at once.
  createMessage(world, { ...fields, scheduled_at: stamp(NOON) })
  const moved = createMessage(world, { ...fields, scheduled_at: stamp(NOON + 60_000_000) })
  expect(sent().map(([status]) => status)).toEqual(['pending', 'scheduled', 'pending', 'scheduled'])
  changeMessage(world, moved.id, { scheduled_at: stamp(NOON + 100_000) })
  changeMessage(world, moved.id, { scheduled_at: null })
  const scheduled_at = stamp(NOON + 60_000_000)
  changeMessage(world, later.id, { scheduled_at })
  changeMessage(world, later.id, { target_email: 'b@example.com', form: other.id })
  expect(world.messages.get(later.id)).toMatchObject({
    ...{ target_email: 'b@example.com', status: 'scheduled', scheduled_at, form: other.id },
    content: contentOf(other.name),
  })
  expect(world.messages.get(moved.id)).toMatchObject({ status: 'pending', scheduled_at: null })
  await pass(199_999)
  expect(sent().map(([status]) => status)).toEqual(['pending', 'scheduled', 'pending', 'pending'])
  await pass(1)
  const first = stamp(NOON + HOUR + 200_000)
  expect(sent()).toEqual([
    ['sent', first],
    ['scheduled', null],
    ['sent', first],
    ['sent', first],
  ])
  await pass(59_799_999)
  expect(sent()[1]).toEqual(['scheduled', null])
  await pass(1)
  expect(sent()).toEqual([
    ...[
      ['sent', first],
      ['sent', stamp(NOON + HOUR + 60_000_000)],
      ['sent', first],
      ['sent', first],
    ],
  ])
  expect(world.responses.slice(0, 10).map(({ message, created_at }) => [message, created_at])).toEqual([
    ...[0, 2, 3].map((at) => [messages()[at]!.id, first]),
    [later.id, stamp(NOON + HOUR + 60_000_000)],
  ])
})

it('a message to an address that bounces, or to a patient who is gone, has failed, and requests nothing', async () => {
  const form = world.forms.at(0)!.id
  const [gone, there] = [world.patients.at(1)!.id, world.patients.at(0)!.id]
  const staff = staffOf(world)
  for (const target_email of ['a@x.invalid', 'a@X.INVALID', 'invalid@example.com', null])
    staff.send({ patient: there, form, target_email })
  // An address bounces only if the message is delivered to it.
  const sms = { preferred_delivery_method: 'sms' as const, target_phone_number: '5550100' }
  staff.send({ patient: there, form, ...sms, target_email: 'a@x.invalid' })
  staff.send({ patient: gone, form })
  world.patients.remove(gone)
  await pass(200_000)
  expect(messages().map(({ status }) => status)).toEqual([
    ...['failed', 'failed', 'sent', 'sent', 'sent', 'failed'],
  ])
  const now = stamp(NOON + HOUR + 200_000)
  for (const { status, sent_at, updated_at } of messages())
    expect([updated_at, sent_at]).toEqual([now, status === 'sent' ? now : null])
  expect(world.responses.slice(0, 10).map(({ message }) => message)).toEqual(
    messages()
      .filter(({ status }) => status === 'sent')
      .map(({ id }) => id),
  )
})

it('a message that asks for a form and a document opens both', async () => {
  const [form, document] = [world.forms.at(0)!, world.documents.at(0)!]
  staffOf(world).send({ patient: world.patients.at(0)!.id, form: form.id, document: document.id })
  await pass(200_000)
  expect(world.responses.slice(0, 10).map((one) => [one.form, one.form_name, one.document])).toEqual([
    [form.id, form.name, null],
    [null, null, document.id],
  ])
})

it('signatures have the time of the clock of the service', async () => {
  const staff = staffOf(world)
  staff.send({ patient: world.patients.at(0)!.id, form: world.forms.at(0)!.id })
  await pass(200_000)
  const { id } = world.responses.at(0)!
  const { e_signatures } = staff.answer(id)
  expect(e_signatures.map(({ signed_at }) => signed_at)).toEqual([stamp(NOON + HOUR + 200_000)])
  const [question] = world.forms
    .at(0)!
    .questions.filter(({ question_type }) => question_type.question_type === 'signature')
  const given = staff.answer(id, { [question!.id]: 'Z' })
  expect(given.e_signatures).toMatchObject([{ signed_at: stamp(NOON + HOUR + 200_000), signer_name: 'Z' }])
})
