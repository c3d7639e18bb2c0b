/** What the console of the demo can break: the damage is real, and healed only when the tables are as the service is. */
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { breakagesOf, type DemoConsoleOptions } from '../../../src/commands/demo/breaking.ts'
import { DEMO_FAULTS } from '../../../src/commands/demo/service.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>
/** The city of each patient at the service. */
const cities = new Map<string, string>()
let faults: string[] = []
/** The faults at the time of each change. */
let changes: { readonly id: string; readonly city: string; readonly faults: string }[] = []
let ended: object = { status: 'succeeded', teams: [] }
let loads: string[] = []

const control = {
  world: () => ({
    patients: {
      slice: (at: number) => [{ id: `p${at}` }],
      get: (id: string) => ({ id, city: cities.get(id) ?? 'Ulm' }),
    },
  }),
  updatePatient: (id: string, { city }: { city: string }) => {
    cities.set(id, city)
    changes.push({ id, city, faults: faults.at(-1) ?? DEMO_FAULTS })
  },
  setFaults: (spec: string) => void faults.push(spec),
}

let pauses: number[] = []

beforeAll(async () => {
  warehouse = await openWarehouse()
  vi.spyOn(systemClock, 'sleep').mockImplementation(async (milliseconds) => {
    pauses.push(milliseconds, loads.length)
  })
  await query(
    warehouse.url,
    `insert into intake.teams (name) values ('demo');
     insert into intake.patients (team_id, id, city, _version, _origin)
       select 1, 'p' || n, 'Ulm', now(), 'x' from generate_series(0, 2499) n`,
  )
})
afterAll(async () => {
  vi.restoreAllMocks()
  await warehouse?.drop()
})
beforeEach(() => {
  faults = []
  changes = []
  loads = []
  pauses = []
})

const load = async () => {
  loads.push(faults.at(-1) ?? DEMO_FAULTS)
  await query(
    warehouse.url,
    'update intake.patients set city = each.value from json_each_text($1) each where id = each.key',
    [JSON.stringify(Object.fromEntries(cities))],
  )
  return ended as never
}
const breakages = () =>
  breakagesOf({ url: warehouse.url, service: { control }, load } as unknown as DemoConsoleOptions)
const named = (name: string) => breakages().find((each) => each.name === name)!

it('dropped webhooks: twenty patients change without an event, and a backfill brings them', async () => {
  const { run } = named('webhooks')
  const { isHealed, heal } = await run()
  expect(new Set(changes.map(({ id }) => id)).size).toBe(20)
  expect(new Set(changes.map((each) => each.faults))).toEqual(new Set([`${DEMO_FAULTS},webhook-drop=1`]))
  expect(faults).toEqual([`${DEMO_FAULTS},webhook-drop=1`, DEMO_FAULTS])
  expect(await isHealed()).toBe(false)
  const [last] = changes.slice(-1)
  await query(warehouse.url, `update intake.patients set city = $1 where id <> $2`, [last!.city, last!.id])
  // One that is missing is not healed.
  expect(await isHealed()).toBe(false)
  await heal()
  expect([await isHealed(), loads]).toEqual([true, [DEMO_FAULTS]])
  // The damage is to be seen before the backfill begins.
  expect(pauses).toEqual([3_000, 0])
  // Others each time.
  const before = changes.map(({ id }) => id)
  changes = []
  await run()
  expect(changes.map(({ id }) => id)).not.toEqual(before)
})

it('a storm is over when a backfill that was throttled has succeeded', async () => {
  const report = (throttled: number) => ({ streams: [{ report: { throttled } }] })
  for (const [status, teams, healed] of [
    ['succeeded', [report(0), report(2)], true],
    ['succeeded', [report(0)], false],
    ['failed', [report(2)], false],
  ] as const) {
    ended = { status, teams }
    const { heal, isHealed } = await named('storm').run()
    expect(await isHealed()).toBe(false)
    await heal()
    expect(await isHealed()).toBe(healed)
  }
  expect(new Set(loads)).toEqual(new Set([`${DEMO_FAULTS},throttle=0.1:1`]))
  expect(faults.at(-1)).toBe(DEMO_FAULTS)
})

it('what can be broken is listed with what heals it, and each says what it did', async () => {
  cities.clear()
  const texts = []
  for (const { name, title, heals, run } of breakages()) {
    const { text } = name === 'postgres' ? { text: '' } : await run()
    texts.push([name, title, heals, text])
  }
  expect(texts).toEqual([
    ['webhooks', 'Drop webhooks', 'the next backfill', '20 patients changed, and no event said so'],
    [
      ...['storm', 'Start a storm of 429', 'waiting, and a lower rate'],
      'a backfill runs, and one of ten requests is answered with 429',
    ],
    [
      ...['order', 'Reorder events', 'the order of versions, and a fetch by id'],
      'one patient changed 20 times; the events arrive twice and in the wrong order',
    ],
    ['postgres', 'Kill Postgres', 'retries of the service, and reconnecting', ''],
    [
      ...['row', 'Corrupt a row', 'a verification with repair: start it on Verify'],
      'a row says something that the service never said',
    ],
  ])
  expect(DEMO_FAULTS).toBe('slow=30')
  expect(faults).toEqual([
    ...['slow=30,webhook-drop=1', 'slow=30'],
    ...['slow=30,webhook-reorder=0.5,webhook-duplicate=0.3,webhook-delay=1:1500', 'slow=30'],
  ])
  // Only dropped webhooks and the storm need a backfill of the demo.
  for (const name of ['order', 'row']) await (await named(name).run()).heal()
  expect([loads, pauses]).toEqual([[], []])
})

it('Postgres loses a process of its own, twenty patients change meanwhile, and all must be shown', async () => {
  cities.clear()
  const { run } = named('postgres')
  const seen: unknown[] = []
  const kill = vi.spyOn(process, 'kill').mockImplementation((pid, signal) => {
    seen.push([signal, typeof pid, changes.length])
    return true
  })
  try {
    const { text, heal, isHealed } = await run()
    expect(seen).toEqual([['SIGKILL', 'number', 0]])
    expect(text).toBe('Postgres lost a process and restarts; meanwhile 20 patients change')
    expect(new Set(changes.map(({ id }) => id)).size).toBe(20)
    expect(new Set(changes.map((each) => each.faults))).toEqual(new Set([DEMO_FAULTS]))
    await heal()
    expect([loads, await isHealed()]).toEqual([[], false])
    await load()
    expect(await isHealed()).toBe(true)
    kill.mockImplementation(() => {
      throw new Error('EPERM')
    })
    await expect(run()).rejects.toMatchObject({
      ...{ message: 'the processes of Postgres belong to another user', code: 'embedded_unavailable' },
      verdict: 'stop',
    })
    expect(changes.length).toBe(20)
  } finally {
    kill.mockRestore()
  }
})

it('events in the wrong order are healed when the last of twenty changes is shown, and no other', async () => {
  const { isHealed } = await named('order').run()
  expect([changes.length, new Set(changes.map(({ id }) => id)).size]).toEqual([20, 1])
  for (const each of ['webhook-reorder', 'webhook-duplicate', 'webhook-delay'])
    expect(changes[0]!.faults).toContain(each)
  const show = (at: number) =>
    query(warehouse.url, 'update intake.patients set city = $2 where id = $1', [
      changes[at]!.id,
      changes[at]!.city,
    ])
  await show(18)
  expect(await isHealed()).toBe(false)
  await show(19)
  expect(await isHealed()).toBe(true)
})

it('a corrupt row is one row that the service never sent, and is healed when it is as at the service', async () => {
  cities.clear()
  await query(warehouse.url, `update intake.patients set city = 'Ulm'`)
  const { isHealed } = await named('row').run()
  const wrong = await query<{ id: string }>(
    warehouse.url,
    `select id from intake.patients where city <> 'Ulm'`,
  )
  expect([wrong.length, await isHealed()]).toEqual([1, false])
  await query(warehouse.url, `update intake.patients set city = 'Ulm'`)
  expect(await isHealed()).toBe(true)
})
