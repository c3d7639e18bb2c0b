/** A verification of several teams and streams: what is stored, said and called equal, however each of them ends. */
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import type { TakenSlice } from '../../../src/load/slice.ts'
import type { Channels } from '../../../src/reconcile/verify/channels.ts'
import { type VerifyOptions, verify } from '../../../src/reconcile/verify/verify.ts'
import type { StreamResult, StreamVerified } from '../../../src/reconcile/verify/verify-stream.ts'
import { streamNamed } from '../../../src/streams/catalogue.ts'
import { query } from '../../e2e/support/scene.ts'
import { sourceNamed } from '../../extract/support/source-named.ts'
import { silent } from '../../ingest/drain/scene.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

const steps: string[] = []
/** Results by team and stream; what is not named is equal. */
const results = new Map<string, (() => StreamResult) | StreamResult>()
const channels = new Map<number, () => Partial<Channels>>()
let slices: TakenSlice[] = []

const sums = {
  ...{ source: 1, warehouse: 1, sourceHash: 'a', warehouseHash: 'a' },
  ...{ sourceContentHash: 'b', warehouseContentHash: 'b' },
}
const equal: StreamVerified = {
  ...{
    missing: [],
    extra: [],
    different: [],
    newer: 0,
    notDue: 0,
    payloadsOnly: 0,
    repaired: 0,
    note: null,
    sums,
  },
}

vi.mock('../../../src/reconcile/verify/verify-stream.ts', async (original) => ({
  ...(await original<typeof import('../../../src/reconcile/verify/verify-stream.ts')>()),
  openVerifySessions: async () => ({
    session: null,
    [Symbol.asyncDispose]: async () => void steps.push('close'),
  }),
  compareOne: async (
    { team }: { team: { name: string } },
    { name: stream }: { name: 'forms' | 'responses' },
    {
      take,
      store,
    }: { take: () => TakenSlice | Promise<TakenSlice>; store: (found: object) => Promise<void> },
  ): Promise<StreamResult> => {
    steps.push(`${team.name}/${stream}`)
    slices.push(await take())
    const found = results.get(`${team.name}/${stream}`) ?? { stream, status: 'succeeded', verified: equal }
    const result = typeof found === 'function' ? found() : found
    if ('verified' in result) await store(result.verified)
    return result
  },
}))
vi.mock('../../../src/reconcile/verify/expect-source.ts', () => ({
  expectSource: async ({ stream }: { stream: { name: string } }) => void steps.push(`again ${stream.name}`),
}))
vi.mock('../../../src/reconcile/expected-tables.ts', async (original) => ({
  ...(await original<typeof import('../../../src/reconcile/expected-tables.ts')>()),
  describeTables: async () => ({}),
}))
vi.mock('../../../src/reconcile/verify/channels.ts', () => ({
  compareChannels: async (_session: unknown, teamId: number) => {
    steps.push(`channels of ${teamId}`)
    const none = { rows: 1, cells: 1, cellsNotCompared: 0, columnsNotCompared: 0, differences: [] }
    return { ...none, ...channels.get(teamId)?.() }
  },
}))

let database: TestDatabase
beforeAll(async () => {
  database = await createTestDatabase()
  await query(database.url, `insert into intake.teams (name) values ('north'), ('south')`)
})
afterAll(() => database.drop())
beforeEach(async () => {
  steps.length = 0
  slices = []
  results.clear()
  channels.clear()
  await query(database.url, 'truncate intake_ops.runs cascade')
})

async function run(over: Partial<VerifyOptions> = {}) {
  const summary = await verify({
    ...{ url: database.url, teams: ['north', 'south'].map(sourceNamed), repair: null, deep: false },
    streams: ['forms', 'responses', 'exports'].map((name) => streamNamed(name)!),
    ...{ clock: systemClock, random: Math.random, logger: silent, signal: new AbortController().signal },
    ...{ onProgress: () => {}, ...over },
  })
  const [stored] = await query<{ status: string; error: string | null }>(
    database.url,
    'select status, error from intake_ops.runs',
  )
  expect(stored!.status).toBe(summary.status)
  return { ...summary, notes: stored!.error }
}
const verifications = async () =>
  (
    await query<{ what: string }>(
      database.url,
      `select concat_ws(' ', team_id, stream, jsonb_array_length(deep -> 'differences')) as what
       from intake_ops.verifications order by team_id, stream`,
    )
  ).map(({ what }) => what)
const different = (status: 'succeeded' | 'needs_attention', repaired = 0): StreamResult => ({
  ...{ stream: 'forms', status, verified: { ...equal, missing: ['a'], repaired } },
})

test('each stream of each team is compared and stored; all equal, nothing is said, and no slice is taken', async () => {
  const { equal: isEqual, status, notes, teams } = await run()
  expect([isEqual, status, notes]).toEqual([true, 'succeeded', null])
  expect(teams.map(({ name, streams, deep }) => [name, streams.map(({ stream }) => stream), deep])).toEqual([
    ['north', ['forms', 'responses', 'exports'], null],
    ['south', ['forms', 'responses', 'exports'], null],
  ])
  expect(steps.toSorted()).toEqual([
    ...['close', 'close', 'north/exports', 'north/forms', 'north/responses'],
    ...['south/exports', 'south/forms', 'south/responses'],
  ])
  expect(await verifications()).toEqual([
    ...['1 exports', '1 forms', '1 responses', '2 exports', '2 forms', '2 responses'],
  ])
  expect(await query(database.url, 'select from intake_ops.checkpoints')).toEqual([])
  expect(slices.map(({ teamId, stream }) => `${teamId} ${stream}`).toSorted()).toEqual(await verifications())
})

test('a repair takes the slice of each stream, so that nobody else writes it', async () => {
  await run({ repair: { allowMassDelete: false } })
  const taken = await query<{ what: string }>(
    database.url,
    `select team_id || ' ' || stream as what from intake_ops.checkpoints order by team_id, stream`,
  )
  expect(taken.map(({ what }) => what)).toEqual([
    ...['1 exports', '1 forms', '1 responses', '2 exports', '2 forms', '2 responses'],
  ])
})

test.each([
  [
    'one that differs',
    different('needs_attention'),
    'needs_attention',
    '1 missing, 0 extra, 0 different, 0 repaired',
  ],
  ['one that differed and is repaired', different('succeeded', 1), 'succeeded', null],
  [
    'one that could not be read',
    { stream: 'forms', status: 'failed', error: 'why' } as const,
    'failed',
    'why',
  ],
])('with %s the run is not equal, and its notes name only what is left', async (_, result, status, note) => {
  results.set('south/forms', result)
  const found = await run()
  const notes = note === null ? null : `south/forms: ${note}`
  expect([found.equal, found.status, found.notes]).toEqual([false, status, notes])
})

test('a team that cannot be compared any further fails from there on, and the others go on', async () => {
  results.set('north/responses', () => {
    throw new Error('a fault')
  })
  const { equal: isEqual, status, notes, teams } = await run({ deep: true })
  expect([isEqual, status]).toEqual([false, 'failed'])
  const [north, south] = teams.map(({ streams }) => streams.map((each) => `${each.stream} ${each.status}`))
  expect(north).toEqual(['forms succeeded', 'responses failed', 'exports failed'])
  expect(south).toEqual(['forms succeeded', 'responses succeeded', 'exports succeeded'])
  expect(notes!.split('\n').map((line) => line.split(':')[0])).toEqual(['north/responses', 'north/exports'])
  expect(steps.filter((step) => step.startsWith('channels'))).toEqual(['channels of 2'])
  expect(teams.map(({ deep }) => deep === null)).toEqual([true, false])
})

test('where a stream could not be read, its team has no comparison of the channels, and the other has', async () => {
  results.set('south/forms', { stream: 'forms', status: 'failed', error: 'why' })
  const { teams } = await run({ deep: true })
  expect(steps.filter((step) => step.startsWith('channels'))).toEqual(['channels of 1'])
  expect(teams.map(({ deep }) => deep === null)).toEqual([false, true])
})

const place = (row: number) => ({ export_id: 'e', response_id: null, row_number: row, position: null })

test('the channels are read again where they differ; only what differs both times is stored, said first and not equal', async () => {
  results.set('north/forms', different('needs_attention'))
  const looks = [
    [place(1), place(2)],
    [place(2), place(3)],
  ]
  channels.set(1, () => ({ rows: looks.length, differences: looks.shift()! }))
  const { equal: isEqual, status, notes, teams } = await run({ deep: true })
  expect([isEqual, status]).toEqual([false, 'needs_attention'])
  expect(notes!.split('\n')).toEqual([
    'north: exports and responses differ in 1 place(s)',
    'north/forms: 1 missing, 0 extra, 0 different, 0 repaired',
  ])
  expect(teams[0]!.deep).toMatchObject({ rows: 1, differences: [place(2)] })
  expect(steps.filter((step) => /again|of 1/.test(step))).toEqual([
    ...['channels of 1', 'again responses', 'again exports', 'channels of 1'],
  ])
  expect(await verifications()).toEqual([
    ...['1 exports 1', '1 forms', '1 responses', '2 exports 0', '2 forms', '2 responses'],
  ])
})

test('channels that differ make a run that is equal otherwise unequal; where they cannot be compared, the exports failed', async () => {
  channels.set(2, () => ({ differences: [place(1)] }))
  expect(await run({ deep: true })).toMatchObject({
    ...{
      equal: false,
      status: 'needs_attention',
      notes: 'south: exports and responses differ in 1 place(s)',
    },
  })
  await query(database.url, 'truncate intake_ops.runs cascade')
  channels.set(2, () => {
    throw new Error('a fault')
  })
  const { equal: isEqual, status, teams } = await run({ deep: true })
  expect([isEqual, status, teams[1]!.deep]).toEqual([false, 'failed', null])
  expect(teams[1]!.streams.map((each) => `${each.stream} ${each.status}`)).toEqual([
    ...['forms succeeded', 'responses succeeded', 'exports failed'],
  ])
})

test('one that is stopped says so of each stream that was not compared', async () => {
  const stop = new AbortController()
  results.set('south/forms', () => {
    stop.abort()
    throw new Error('a fault')
  })
  const { status, teams } = await run({ signal: stop.signal })
  expect([status, teams[1]!.streams.map((each) => each.status)]).toEqual([
    'interrupted',
    ['interrupted', 'interrupted', 'interrupted'],
  ])
})
