/** Requested refetches: one fetch answers all requests for a record, so it must satisfy the strictest. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { takeDue } from '../../src/extract/conflicts/due-rows.ts'
import { type RefetchRequest, requestRefetches } from '../../src/load/refetches.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { noonPlus, openScene, patientEvent, type Scene } from '../ingest/drain/scene.ts'

let scene: Scene

beforeAll(async () => {
  scene = await openScene()
  const submitted = { id: 'stored', is_submitted: true, answers: [], updated_at: noonPlus(10) }
  await scene.store([{ ...patientEvent('stored', 10), source: 'response', data: submitted }])
  await scene.drain()
})

afterAll(async () => {
  await scene[Symbol.asyncDispose]()
})

beforeEach(async () => {
  await scene.rows('delete from intake_ops.refetches')
})

const member = (seconds: number | null, id = 'stored'): RefetchRequest => ({
  ...{ teamId: scene.teamId, stream: 'responses', id, reason: 'member', origin: `event:${seconds}` },
  since: seconds === null ? null : noonPlus(seconds),
})
const conflicting = (id = 'stored'): RefetchRequest => ({ ...member(null, id), reason: 'contested' })

const waiting = () =>
  scene.rows(
    `select id, reason, extract(epoch from since - '2026-01-01T12:00:00Z')::int as since, asked::int from intake_ops.refetches`,
  )

/** In one call, like one batch of events; and one after the other. */
const WAYS: readonly (readonly [string, (asks: readonly RefetchRequest[]) => Promise<unknown>])[] = [
  ['at once', (asks) => requestRefetches(scene.session.db, asks)],
  [
    'one after the other',
    async (asks) => {
      for (const ask of asks) await requestRefetches(scene.session.db, [ask])
    },
  ],
]

describe.each(WAYS)('two requests %s for one record', (_, ask) => {
  it.each([
    [5, 20],
    [20, 5],
  ])('since %i and since %i require the later time', async (first, second) => {
    await ask([member(first), member(second)])
    expect(await waiting()).toMatchObject([{ id: 'stored', reason: 'member', since: 20 }])
  })

  it.each([
    [20, null],
    [null, 20],
  ])('since %s and since %s require a fetch whatever is stored', async (first, second) => {
    await ask([member(first), member(second)])
    expect(await waiting()).toMatchObject([{ id: 'stored', reason: 'member', since: null }])
  })

  it.each([
    ['first', [0, 1]],
    ['last', [1, 0]],
  ] as const)('with a conflict, requested %s, has the conflict as its reason', async (_way, order) => {
    const asks = [conflicting('new'), member(20, 'new')]
    await ask(order.map((at) => asks[at]!))
    expect(await waiting()).toMatchObject([{ id: 'new', reason: 'contested', since: null }])
  })

  it('do not affect the same id of another team or stream', async () => {
    const other = await teamIdOf(scene.session.db, 'other')
    const places = [
      { teamId: scene.teamId, stream: 'responses' },
      { teamId: scene.teamId, stream: 'forms' },
      { teamId: other, stream: 'responses' },
    ] as const
    const requests = places.map((place, at) => ({ ...member(20 + at, 'new'), ...place }))
    await ask([...requests, { ...requests[0]!, since: noonPlus(30) }])
    const rows = await scene.rows(
      `select team_id as team, stream, extract(epoch from since - '2026-01-01T12:00:00Z')::int as since
       from intake_ops.refetches order by 1, 2 desc`,
    )
    expect(rows).toEqual([
      { team: scene.teamId, stream: 'responses', since: 30 },
      { team: scene.teamId, stream: 'forms', since: 21 },
      { team: other, stream: 'responses', since: 22 },
    ])
  })

  it('do not affect another record', async () => {
    await ask([member(20), member(30, 'a'), member(25, 'b'), member(15, 'a')])
    expect((await waiting()).map(({ id, since }) => `${id} ${since}`).sort()).toEqual([
      'a 30',
      'b 25',
      'stored 20',
    ])
  })
})

it('a partial record is fetched at once, others a second later: the clock of the service may be that early', async () => {
  await scene.rows('begin')
  const reasons = ['partial', 'contested', 'member'] as const
  await requestRefetches(
    scene.session.db,
    reasons.map((reason) => ({ ...conflicting(reason), reason })),
  )
  expect(
    await scene.rows(
      'select id, extract(epoch from due_at - now())::float8 as pause from intake_ops.refetches order by id desc',
    ),
  ).toEqual([
    { id: 'partial', pause: 0 },
    { id: 'member', pause: 1 },
    { id: 'contested', pause: 1 },
  ])
  await scene.rows('rollback')
})

it.each(['2020-01-02', '2100-01-02'])(
  'a further request changes what is asked for, and neither when it is due (%s) nor what was tried',
  async (due) => {
    const request = { ...member(20, 'new'), origin: 'event:first' }
    await requestRefetches(scene.session.db, [request])
    await scene.rows(
      `update intake_ops.refetches set requested_at = '2020-01-01', due_at = '${due}', attempts = 3, failures = 2`,
    )
    const row = async () => {
      const [found] = await scene.rows(
        `select *, extract(epoch from since - '2026-01-01T12:00:00Z')::int as since from intake_ops.refetches`,
      )
      return found
    }
    const before = await row()
    expect(before).toMatchObject({ origin: 'event:first', asked: '1', attempts: 3, failures: 2, since: 20 })
    for (const since of [30, 10]) await requestRefetches(scene.session.db, [{ ...member(since, 'new') }])
    expect(await row()).toEqual({ ...before, asked: '3', since: 30 })
    const partial = { ...member(40, 'new'), reason: 'partial', origin: 'event:partial' } as const
    await requestRefetches(scene.session.db, [partial])
    expect(await row()).toEqual({ ...before, asked: '4', since: 40, reason: 'partial' })
    await requestRefetches(scene.session.db, [conflicting('new'), partial])
    expect(await row()).toEqual({ ...before, asked: '5', since: null, reason: conflicting().reason })
  },
)

it('of requests in one batch, the first of the strictest reason is the origin', async () => {
  const from = (origin: string, over: Partial<RefetchRequest> = {}) => ({
    ...member(20, 'new'),
    origin,
    ...over,
  })
  const { reason } = conflicting()
  await requestRefetches(scene.session.db, [
    ...[from('event:a'), from('event:b')],
    ...[from('event:c', { reason }), from('event:d', { reason }), from('event:e')],
  ])
  expect(await scene.rows('select origin, reason, asked::int from intake_ops.refetches')).toEqual([
    { origin: 'event:c', reason, asked: 1 },
  ])
})

it('a request that the stored state satisfies is dropped; one for the next microsecond is not', async () => {
  expect(await requestRefetches(scene.session.db, [member(5), member(10)])).toBe(0)
  expect(await requestRefetches(scene.session.db, [member(11)])).toBe(1)
})

it('a request is not satisfied by the same id that another team has stored, or another stream', async () => {
  const other = await teamIdOf(scene.session.db, 'other')
  const asks = [
    { ...member(5), teamId: other },
    { ...member(5), stream: 'forms' },
  ]
  expect(await requestRefetches(scene.session.db, asks)).toBe(2)
})

it('a due refetch is not claimed if a request arrived in between, and is if a later state is wanted', async () => {
  const due = async (seconds: number) => {
    await scene.rows('delete from intake_ops.refetches')
    await scene.rows(
      `insert into intake_ops.refetches (team_id, stream, id, reason, origin, since) values ($1, 'responses', 'stored', 'member', 'event:x', $2)`,
      [scene.teamId, noonPlus(seconds)],
    )
    return (await takeDue(scene.session.db, scene.teamId, ['responses'], 10)).length
  }
  expect([await due(9), await due(10), await due(11)]).toEqual([0, 0, 1])
  expect(await waiting()).toHaveLength(1)
})
