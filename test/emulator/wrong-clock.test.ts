/** A service whose clock is wrong by two hours: its stamps are, but nothing comes sooner or later. */
import { afterEach, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose } from './caller.ts'
import { formOf, lines, postUpload } from './http/resources/uploading.ts'
import { answering, startReceiver } from './receiver.ts'
import { stillClock } from './still-clock.ts'

const SKEWS = [7_200, -7_200]
/** What the clock shows at the start. */
const shownAt = (skew: number) => stillClock.now() / 1_000 + skew * 1_000

let emulator: Emulator
let caller: Caller
const start = async (skew: number) => {
  emulator = await startEmulator({
    ...{ port: 0, patients: 5, responses: 60, clock: stillClock, faults: `clock-skew=${skew}` },
  })
  caller = callerOf(emulator)
}
afterEach(() => emulator.close())

it.each(SKEWS)(
  'by %d s: an upload takes as long as usual, and its patients are of the wrong time',
  async (skew) => {
    await start(skew)
    const { id } = (await postUpload(caller, formOf(lines(201)))).body
    const progress = async () => (await caller.get(`/v2/patients/batch-upload/${id}`)).body
    emulator.control.advance(99)
    expect(await progress()).toMatchObject({ status: 'processing', processed_rows: 200 })
    emulator.control.advance(1)
    expect(await progress()).toMatchObject({ status: 'completed', processed_rows: 201 })
    const { created_at } = emulator.control.world().patients.slice(0, 1, true)[0]!
    expect(Date.parse(created_at)).toBe(shownAt(skew) + 100)
  },
)

it.each(SKEWS)(
  'by %d s: a failed event is retried after five seconds, and says when by the same clock',
  async (skew) => {
    await start(skew)
    await using receiver = await startReceiver()
    receiver.answer = answering(500)
    const { body: config } = await caller.send('POST', '/v2/webhooks', { target_url: receiver.url })
    emulator.control.createPatient({ first_name: 'A', last_name: 'B' })
    await emulator.control.webhooks().idle()
    const [failed] = await caller.rows('/v2/webhooks/events')
    const shown = shownAt(skew)
    expect([failed.created_at, failed.next_retry_at].map(Date.parse)).toEqual([shown, shown + 5_000])
    expect(Date.parse(receiver.deliveries[0]!.event.timestamp)).toBe(shown)
    emulator.control.advance(5_000)
    await expect.poll(() => receiver.deliveries.length).toBe(2)
    await emulator.control.webhooks().idle()
    // The test of a configuration is of the same clock.
    await caller.send('POST', '/v2/webhooks/events/test', { id: config.id })
    expect(Date.parse(receiver.deliveries.at(-1)!.event.timestamp)).toBe(shown + 5_000)
  },
)

it.each(SKEWS)(
  'by %d s: a message is sent at once, and addresses of files expire by the clock that is shown',
  async (skew) => {
    await start(skew)
    const world = emulator.control.world()
    const [patient, form] = [world.patients.at(0)!.id, world.forms.at(0)!.id]
    const { id } = emulator.control.staff().send({ patient, form, target_email: 'a@example.com' })
    emulator.control.advance(199)
    expect((await caller.get(`/v2/messages/${id}`)).body.status).toBe('pending')
    emulator.control.advance(1)
    const { body: message } = await caller.get(`/v2/messages/${id}`)
    expect([message.status, Date.parse(message.sent_at)]).toEqual(['sent', shownAt(skew) + 200])
    const files = (await caller.rows('/v2/responses')).flatMap((response: Loose) => response.files)
    const hour = Math.floor((shownAt(skew) + 200) / 3_600_000)
    expect(files.length).toBeGreaterThan(0)
    for (const { url } of files)
      expect(new URL(url).searchParams.get('expires')).toBe(String((hour + 2) * 3_600))
  },
)
