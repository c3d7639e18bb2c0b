/** An emulator that is closed while something is under way: nothing happens any more, nothing stays, and others go on. */
import { setTimeout as later } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { type EmulatorOptions, startEmulator } from '../../src/emulator/server.ts'
import { openResponse } from '../../src/emulator/world/clinic-responses.ts'
import { callerOf } from './caller.ts'
import { startReceiver } from './receiver.ts'

const SIZES = { port: 0, patients: 5, responses: 20 }

/** Timers of this process, without those that end at once. */
const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length

it.each<[string, EmulatorOptions]>([
  ['activity', { activity: 1000 }],
  ['messages that are due', {}],
  ['messages that are due soon, by a fast clock', { timeScale: 1000 }],
  ['webhooks that are delayed', { faults: 'webhook-delay=60000' }],
  ['webhooks that wait for the next', { faults: 'webhook-reorder' }],
  ['webhooks that are sent again', { faults: 'webhook-rerender=60000' }],
  ['webhooks that are tried again', { faults: 'webhook-duplicate' }],
])('with %s nothing changes, is sent or is recorded after it was closed', async (what, options) => {
  await using receiver = await startReceiver()
  await using other = await startEmulator(SIZES)
  const emulator = await startEmulator({ ...SIZES, ...options })
  const { control } = emulator
  const { send, get } = callerOf(emulator)
  if (what.includes('again'))
    receiver.answer = (reply) => void reply.writeHead(what.includes('tried') ? 500 : 200).end()
  await send('POST', '/v2/webhooks', { target_url: receiver.url })
  const world = control.world()
  for (const one of [control, other.control]) {
    const patient = one.world().patients.at(0)!.id
    const form = one.world().forms.at(0)!.id
    one.staff().send({ patient, form, target_email: 'a@b.de' })
    one
      .staff()
      .send({ patient, form, target_email: 'a@b.de', scheduled_at: new Date(Date.now() + 150).toISOString() })
  }
  control.createPatient({ first_name: 'A', last_name: 'B' })
  if (what === 'activity') {
    const { end } = world.patients
    await expect.poll(() => world.patients.end, { interval: 1 }).toBeGreaterThan(end)
  }
  if (what.includes('again')) await expect.poll(() => receiver.deliveries.length).toBeGreaterThan(0)
  await emulator.close()
  const seen = () => [
    ...[world.patients.end, world.patients.size, world.responses.end],
    ...world.messages.slice(0, 1000).map(({ status }) => status),
    // Those of other events may have been on their way.
    ...(what.startsWith('webhooks') ? [receiver.deliveries.length] : []),
  ]
  const before = seen()
  let changes = 0
  world.subscribe(() => (changes += 1))
  const sent = () =>
    other.control
      .world()
      .messages.slice(0, 2, true)
      .map(({ status }) => status)
  await expect.poll(sent).toEqual(['sent', 'sent'])
  expect([seen(), changes]).toEqual([before, 0])
  await control.webhooks().idle()
  await expect(get('/v2/forms')).rejects.toThrow()
})

it('closing ends the pending events of every team in every environment', async () => {
  await using receiver = await startReceiver()
  const emulator = await startEmulator({ ...SIZES, faults: 'webhook-delay=600000' })
  const { control, environments } = emulator
  const names = environments.flatMap(({ teams }) => teams.map(({ name }) => name))
  for (const [at, name] of names.entries()) {
    const { send } = callerOf(emulator, Math.floor(at / 2), at % 2)
    await send('POST', '/v2/webhooks', { target_url: receiver.url })
    control.createPatient({ first_name: 'A', last_name: 'B' }, name)
  }
  const pending = () => names.map((name) => control.webhooks(name).pending)
  expect(pending()).toEqual([1, 1, 1, 1])
  await emulator.close()
  await expect.poll(pending).toEqual([0, 0, 0, 0])
  expect(receiver.deliveries).toEqual([])
})

it.each(['slow=60000', 'drip=60000', 'hang'])(
  'a caller who waits for an answer with %s loses the connection',
  async (faults) => {
    const emulator = await startEmulator({ ...SIZES, faults })
    const answer = callerOf(emulator).get('/v2/forms')
    const lost = answer.then(
      () => 'answered',
      () => 'lost',
    )
    await expect.poll(() => emulator.control.requests().length, { interval: 1 }).toBe(1)
    await later(1)
    await emulator.close()
    expect(await lost).toBe('lost')
  },
)

it('a second time, it is closed already; what it has is still there to look at', async () => {
  const before = timers()
  const emulator = await startEmulator({ ...SIZES, activity: 50, timeScale: 10 })
  const { control } = emulator
  const { patients, responses, forms } = control.world()
  openResponse(control.world(), {
    ...{ packet: null, document: null, message: null, packet_response: null },
    ...{ patient: patients.at(0)!.id, form: forms.at(0)!.id },
  })
  await emulator.close()
  await emulator.close()
  await emulator[Symbol.asyncDispose]()
  // Other files of this process may have left some that end by themselves.
  await expect.poll(timers).toBeLessThanOrEqual(before)
  expect(responses.slice(0, 1, true)).toMatchObject([{ is_submitted: false }])
  expect(control.requests()).toEqual([])
  expect(() => control.advance(3_600_000)).not.toThrow()
})
