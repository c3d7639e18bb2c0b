/** Records that are asked for: one request answers all who ask, so it has to answer the one who wants most. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { takeDue } from '../../src/extract/conflicts/due-rows.ts'
import { type Ask, askAgain } from '../../src/load/refetches.ts'
import { noonPlus, openScene, patientEvent, type Scene } from '../ingest/drain/scene.ts'

let scene: Scene

beforeAll(async () => {
  scene = await openScene()
  const submitted = { id: 'held', is_submitted: true, answers: [], updated_at: noonPlus(10) }
  await scene.store([{ ...patientEvent('held', 10), source: 'response', data: submitted }])
  await scene.drain()
})

afterAll(async () => {
  await scene[Symbol.asyncDispose]()
})

beforeEach(async () => {
  await scene.rows('delete from intake_ops.refetches')
})

const member = (seconds: number | null, id = 'held'): Ask => ({
  ...{ teamId: scene.teamId, stream: 'responses', id, reason: 'member', origin: `event:${seconds}` },
  since: seconds === null ? null : noonPlus(seconds),
})
const contested = (id = 'held'): Ask => ({ ...member(null, id), reason: 'contested' })

const waiting = () =>
  scene.rows(
    `select id, reason, extract(epoch from since - '2026-01-01T12:00:00Z')::int as since, asked::int from intake_ops.refetches`,
  )

/** In one call, as of one batch of events; and one after the other. */
const WAYS: readonly (readonly [string, (asks: readonly Ask[]) => Promise<unknown>])[] = [
  ['at once', (asks) => askAgain(scene.session.db, asks)],
  [
    'one after the other',
    async (asks) => {
      for (const ask of asks) await askAgain(scene.session.db, [ask])
    },
  ],
]

describe.each(WAYS)('of two that ask %s for one record', (_, ask) => {
  it.each([
    [5, 20],
    [20, 5],
  ])('since %i and since %i, the later time has to be answered', async (first, second) => {
    await ask([member(first), member(second)])
    expect(await waiting()).toMatchObject([{ id: 'held', reason: 'member', since: 20 }])
  })

  it.each([
    [20, null],
    [null, 20],
  ])('since %s and since %s, it is asked for whatever is held', async (first, second) => {
    await ask([member(first), member(second)])
    expect(await waiting()).toMatchObject([{ id: 'held', reason: 'member', since: null }])
  })

  it.each([
    ['first', [0, 1]],
    ['last', [1, 0]],
  ] as const)('the one that doubts the record, coming %s, says why it is asked for', async (_way, order) => {
    const asks = [contested('new'), member(20, 'new')]
    await ask(order.map((at) => asks[at]!))
    expect(await waiting()).toMatchObject([{ id: 'new', reason: 'contested', since: null }])
  })

  it('two of another record leave it alone', async () => {
    await ask([member(20), member(30, 'a'), member(25, 'b'), member(15, 'a')])
    expect((await waiting()).map(({ id, since }) => `${id} ${since}`).sort()).toEqual([
      'a 30',
      'b 25',
      'held 20',
    ])
  })
})

it('nobody is asked who wants no more than what is held; the first moment beyond it is asked for', async () => {
  expect(await askAgain(scene.session.db, [member(5), member(10)])).toBe(0)
  expect(await askAgain(scene.session.db, [member(11)])).toBe(1)
})

it('what is due is not taken where it came meanwhile, and is where a later state is wanted', async () => {
  const due = async (seconds: number) => {
    await scene.rows('delete from intake_ops.refetches')
    await scene.rows(
      `insert into intake_ops.refetches (team_id, stream, id, reason, origin, since) values ($1, 'responses', 'held', 'member', 'event:x', $2)`,
      [scene.teamId, noonPlus(seconds)],
    )
    return (await takeDue(scene.session.db, scene.teamId, ['responses'], 10)).length
  }
  expect([await due(9), await due(10), await due(11)]).toEqual([0, 0, 1])
  expect(await waiting()).toHaveLength(1)
})
