/** The service's time, whatever its speed, its error and how far it was moved, in everything that shows it or waits for it. */
import { expect, it } from 'vitest'
import { stamp } from '../../src/emulator/clock.ts'
import { startEmulator } from '../../src/emulator/server.ts'
import { callerOf, type Loose } from './caller.ts'
import { makeTime } from './passing-clock.ts'

const START = Date.parse('2026-02-28T23:59:58.25Z') * 1000
const DAY = 86_400_000

it.each([
  [1, 0, 0],
  [1, 3600, DAY],
  [50, -90.5, DAY],
  [50, 3600, 0],
  [0.5, -90.5, 0],
  [0.5, 3600, DAY],
])('at the speed %d, %d s wrong and %d ms ahead, all stamps and waits agree', async (scale, skew, moved) => {
  const time = makeTime(START)
  const sizes = { patients: 3, forms: 2, packets: 1, documents: 1, responses: 20 }
  const faults = `clock-skew=${skew}`
  await using emulator = await startEmulator({
    port: 0,
    clock: time.clock,
    timeScale: scale,
    faults,
    ...sizes,
  })
  const { control } = emulator
  const { send, get, baseUrl, credentials } = callerOf(emulator)
  const world = control.world()
  let advanced = 0
  /** Without the error of the clock: schedules use it. */
  const planned = (milliseconds = 0) =>
    START + Math.round((time.milliseconds() * scale + advanced + milliseconds) * 1000)
  const shown = (milliseconds = 0) => stamp(planned(milliseconds) + skew * 1_000_000)
  /** Real time in which so much passes for the service. */
  const pass = (milliseconds: number) => time.pass(milliseconds / scale)

  advanced += moved
  const { body } = await send('POST', '/_control/clock', { advance_seconds: moved / 1000 }, {})
  expect(body).toEqual({ now: shown() })
  await pass(1500)
  const hook = { target_url: 'http://127.0.0.1:1/', sources: ['patient'] }
  const { body: configured } = await send('POST', '/v2/webhooks', hook)
  expect(configured).toMatchObject({ created_at: shown(), updated_at: shown() })
  const { body: patient, headers } = await send('POST', '/v2/patients', {
    first_name: 'A',
    last_name: 'B',
    email: 'a@b.de',
  })
  expect(patient).toMatchObject({ created_at: shown(), updated_at: shown() })
  expect(headers.get('date')).toBe(new Date(Date.parse(shown())).toUTCString())
  await control.webhooks().idle()
  const first = { attempts: 1, created_at: shown(), next_retry_at: shown(5000) }

  const about = { patient: patient.id, form: world.forms.at(0)!.id, preferred_delivery_method: 'email' }
  const [at, soon] = [planned(10_000), planned(0)]
  const { body: later } = await send('POST', '/v2/messages', { ...about, scheduled_at: stamp(at) })
  const { body: now } = await send('POST', '/v2/messages', { ...about, scheduled_at: stamp(soon) })
  expect([later, now]).toMatchObject([
    { status: 'scheduled', scheduled_at: stamp(at), created_at: shown() },
    { status: 'pending', scheduled_at: stamp(soon) },
  ])
  const statuses = () => [later, now].map(({ id }: Loose) => world.messages.get(id)!.status)
  await pass(199)
  expect(statuses()).toEqual(['scheduled', 'pending'])
  const [due, came] = [shown(1), world.responses.size]
  await pass(1)
  expect(world.messages.get(now.id)).toMatchObject({ status: 'sent', sent_at: due, updated_at: due })
  expect(world.responses.slice(came, 9)).toMatchObject([
    { created_at: due, updated_at: due, submitted_at: null },
  ])

  const { id } = world.responses.slice(came, 1)[0]!
  await pass(100)
  control.staff().answer(id)
  expect(control.staff().submit(id)).toMatchObject({ submitted_at: shown(), updated_at: shown() })
  const day = shown().slice(0, 10)
  expect((await get(`/v2/responses?submitted_on=${day}`)).body.results.map((one: Loose) => one.id)).toContain(
    id,
  )

  const form = new FormData()
  form.append('file', new Blob([`first_name,last_name\n${'C,D\n'.repeat(250)}`]), 'a.csv')
  const uploaded = await fetch(`${baseUrl}/v2/patients/batch-upload`, {
    method: 'POST',
    headers: credentials,
    body: form,
  })
  const { id: upload } = (await uploaded.json()) as Loose
  await send('PATCH', `/v2/webhooks/${configured.id}`, { sources: [] })
  const processed = async () => (await get(`/v2/patients/batch-upload/${upload}`)).body.processed_rows
  const rows: unknown[] = [await processed()]
  for (const wait of [49, 1, 49, 1]) {
    await pass(wait)
    rows.push(await processed())
  }
  expect(rows).toEqual([0, 0, 200, 200, 250])
  expect(world.patients.slice(0, 1, true)[0]!.created_at).toBe(shown())

  // The retry is due 5 s after the first attempt, the message 10 s after it was sent.
  await pass(4599)
  expect(control.webhooks()).toMatchObject({ pending: 0, retrying: 1 })
  await pass(1)
  await control.webhooks().idle()
  const attempts = (await get('/v2/webhooks/events')).body.results
  expect(attempts).toMatchObject([first, { attempts: 2, created_at: shown(), next_retry_at: shown(30_000) }])
  await pass(4999)
  expect(statuses()).toEqual(['scheduled', 'sent'])
  await pass(1)
  expect(world.messages.get(later.id)).toMatchObject({ status: 'sent', sent_at: shown() })

  control.setRateLimit({ requests: 1, seconds: 2 })
  await time.pass(2000)
  control.resetCounters()
  const limited = async () => (await get('/v2/forms')).headers.get('retry-after')
  expect([await limited(), await limited()]).toEqual([null, '2'])
  // Refusals end with real time alone.
  control.advance(2000)
  expect(await limited()).toBe('2')
  await time.pass(900)
  expect(await limited()).toBe('2')
  await time.pass(100)
  expect(await limited()).toBe('1')
  await time.pass(1000)
  expect(await limited()).toBe(null)
  expect(control.requests().map(({ at: came }) => came - START - time.milliseconds() * 1000)).toEqual([
    ...[-2_000_000, -2_000_000, -2_000_000, -1_100_000, -1_000_000, 0],
  ])
})
