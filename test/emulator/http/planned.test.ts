/** Faults planned for the next requests, and requests of no path: each request gets its own, and no other one. */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { Bursts, fire, parseFaults } from '../../../src/emulator/faults.ts'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { type Caller, callerOf } from '../caller.ts'

let emulator: Emulator
let caller: Caller

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 2 })
  caller = callerOf(emulator)
})
beforeEach(() => {
  emulator.control.setFaults('')
  emulator.control.setRateLimit(null)
})
afterAll(() => emulator.close())

const statuses = async (...paths: string[]) => {
  const found: number[] = []
  for (const path of paths) found.push((await caller.get(path)).status)
  return found
}

it('faults that are planned for several paths wait for a request of their own path, in the order of each', async () => {
  const { control } = emulator
  control.failNext('/v2/forms', 'http-500')
  control.failNext('/v2/patients', 'html-502')
  control.failNext('/v2/forms', 'http-503')
  control.failNext('/v2/packets', 'throttle', 0)
  const [forms, patients] = ['/v2/forms', '/v2/patients']
  expect(await statuses('/v2/packets', patients, patients, forms, patients, forms, forms)).toEqual([
    ...[200, 502, 200, 500, 200, 503, 200],
  ])
  expect(() => control.failNext(forms, '')).toThrow('no fault is named')
  expect(() => control.failNext(forms, 'lightning')).toThrow('no fault is named "lightning"')
  expect(await statuses(forms)).toEqual([200])
})

it.each(['GET', 'PUT', 'PATCH', 'DELETE', 'POST'])(
  '%s of a record without an id finds no path',
  async (method) => {
    for (const path of ['/v2/patients/', '/v2/webhooks/', '/v2/messages/'])
      expect(await caller.send(method, path, method === 'GET' ? undefined : {})).toMatchObject({
        status: 404,
        body: { detail: 'Not found.' },
      })
  },
)

it('faults are ended from another process by an empty specification, which may be the whole body', async () => {
  const set = async (body: unknown) => (await caller.send('POST', '/_control/faults', body, {})).body
  for (const none of [{ faults: '' }, '""', { faults: 'none' }]) {
    expect(await set('"http-500@forms"')).toEqual({ faults: ['http-500@forms=1'] })
    expect(await statuses('/v2/forms')).toEqual([500])
    expect(await set(none)).toEqual({ faults: [] })
    expect(await statuses('/v2/forms')).toEqual([200])
  }
})

it('an invalid rate limit is refused, and the previous one stays', async () => {
  const { control } = emulator
  control.setRateLimit({ requests: 1, seconds: 3600 })
  for (const limit of [0, -1, Number.NaN, { requests: 0, seconds: 1 }, { requests: 1, seconds: 0 }])
    expect(() => control.setRateLimit(limit)).toThrow('--rate-limit: must be')
  expect(await statuses('/v2/forms', '/v2/forms')).toEqual([200, 429])
})

it('two rules for one fault are drawn independently, and match whole resource names only', () => {
  const rules = parseFaults('slow=0.5:1,slow=0.5:2')
  const drawn = Array.from({ length: 200 }, (_, nth) => fire(rules, '1', nth, '/v2/forms').get('slow'))
  expect(new Set(drawn)).toEqual(new Set([undefined, '1', '2']))
  const covered = (resource: string) =>
    [
      '/v2/patients',
      '/v2/patients/x',
      '/v2/patients/batch-upload',
      '/v2/pat',
      '/v2/patients2',
      '/patients',
    ].map((path) => fire(parseFaults(`hang@${resource}`), '1', 1, path).size)
  expect(covered('patients')).toEqual([1, 1, 1, 0, 0, 0])
  expect(covered('pat')).toEqual([0, 0, 0, 1, 0, 0])
  expect(covered('patients/batch-upload')).toEqual([0, 0, 1, 0, 0, 0])
})

it('of two bursts, the one in progress refuses a request; if both are, the first one', () => {
  const rules = parseFaults('throttle-burst@forms=0.5:2,throttle-burst=0.5:3')
  const bursts = new Bursts()
  const none = new Map()
  const starts = (path: string) => bursts.goOn(rules, new Map([['throttle-burst', null]]), path)
  const goesOn = (path: string) => bursts.goOn(rules, none, path).get('throttle-burst')
  expect(starts('/v2/patients').get('throttle-burst')).toBe('3')
  expect([goesOn('/v2/forms'), goesOn('/v2/patients'), goesOn('/v2/patients')]).toEqual(['3', '3', undefined])
  expect(starts('/v2/forms').get('throttle-burst')).toBe('2')
  expect([goesOn('/v2/patients'), goesOn('/v2/forms'), goesOn('/v2/forms')]).toEqual([
    undefined,
    '2',
    undefined,
  ])
  expect([starts('/v2/forms'), starts('/v2/patients')].map((one) => one.get('throttle-burst'))).toEqual([
    '2',
    '3',
  ])
  expect([goesOn('/v2/forms'), goesOn('/v2/forms'), goesOn('/v2/forms'), goesOn('/v2/forms')]).toEqual([
    ...['2', '3', '3', undefined],
  ])
  // Other faults of the request stay.
  expect([
    ...bursts.goOn(
      rules,
      new Map([
        ['throttle-burst', '2'],
        ['slow', '5'],
      ]),
      '/v2/forms',
    ),
  ]).toEqual([
    ['throttle-burst', '2'],
    ['slow', '5'],
  ])
})
