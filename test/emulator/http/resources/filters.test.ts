/** Filters of lists are exact: an empty one selects what is empty, and blanks are part of a text. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { type Caller, callerOf } from '../../caller.ts'
import { stillClock } from '../../still-clock.ts'

let emulator: Emulator
let caller: Caller

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, clock: stillClock, patients: 60, responses: 60 })
  caller = callerOf(emulator)
})
afterAll(() => emulator.close())

const count = async (path: string) => (await caller.get(path)).body.count

it.each([
  ...['/v2/messages?delivery_method=', '/v2/messages?status=', '/v2/messages?message_type='],
  ...['/v2/messages?preferred_delivery_method=', '/v2/messages?patient=', '/v2/messages?form='],
  ...['/v2/responses?form=', '/v2/responses?patient=', '/v2/responses?packet=', '/v2/patients?first_name='],
  ...['/v2/webhooks/events?status=', '/v2/webhooks/events?webhook_config=', '/v2/webhooks/events?source='],
])('%s selects nothing', async (path) => {
  const { body: config } = await caller.send('POST', '/v2/webhooks', { target_url: 'http://127.0.0.1:1/' })
  await caller.send('POST', '/v2/webhooks/events/test', { id: config.id })
  expect(await count(path.replace(/\?.*/, ''))).toBeGreaterThan(0)
  expect([path, await count(path)]).toEqual([path, 0])
})

it('an empty filter finds exactly the records whose field is empty, and an empty search finds all', async () => {
  const patients = emulator.control.world().patients.slice(0, 60)
  for (const name of ['email', 'phone_number'] as const) {
    const empty = patients.filter((patient) => patient[name] === '').length
    expect([name, await count(`/v2/patients?${name}=`)]).toEqual([name, empty])
  }
  expect(patients.filter(({ phone_number }) => phone_number === '').length).toBeGreaterThan(0)
  expect(await count('/v2/patients?search=')).toBe(60)
})

it('a search is for its text with its blanks, in any case', async () => {
  const { control } = emulator
  control.createPatient({ first_name: 'Anna Zyx', last_name: 'Wvut' })
  control.createPatient({ first_name: 'AnnaZyx', last_name: 'Other' })
  const found = (search: string) => count(`/v2/patients?${new URLSearchParams({ search })}`)
  expect([await found('zyx'), await found(' ZYX'), await found('zyx '), await found('zyx w')]).toEqual([
    2, 1, 2, 1,
  ])
  expect([await found('  zyx'), await found('wvut '), await found(' ')]).toEqual([0, 0, 62])
})

it('a time filters by its day in UTC, however short it is written', async () => {
  const submitted = emulator.control
    .world()
    .responses.slice(0, 60)
    .flatMap(({ submitted_at }) => submitted_at ?? [])
  const day = submitted.toSorted()[Math.floor(submitted.length / 2)]!.slice(0, 10)
  for (const name of ['submitted_on', 'submitted_after', 'submitted_before']) {
    const whole = await count(`/v2/responses?${name}=${day}`)
    expect(whole).toBeGreaterThan(0)
    for (const time of ['T00:00', 'T23:59Z', ' 12:30', 'T10:00:00', 'T23:59:59.999999Z'])
      expect([name, time, await count(`/v2/responses?${name}=${day}${time}`)]).toEqual([name, time, whole])
  }
  const next = new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10)
  // Already the day before, in UTC.
  expect(await count(`/v2/responses?submitted_on=${next}T00:30%2B01:00`)).toBe(
    await count(`/v2/responses?submitted_on=${day}`),
  )
})
