/** Refetches in the hands of a refetcher: which are due, who has claimed them, and what settles them. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { StreamName } from '../../../src/core/envelope.ts'
import type { Instant } from '../../../src/core/time.ts'
import {
  type DueRow,
  originOf,
  pauseBefore,
  postpone,
  renewLease,
  settleRows,
  takeDue,
  teamsDue,
} from '../../../src/extract/conflicts/due-rows.ts'
import { requestRefetches } from '../../../src/load/refetches.ts'
import { openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
})
afterEach(() => rig[Symbol.asyncDispose]())

/** Fixes the time of the warehouse until the end of the test. */
const stopTime = () => rig.session.client.query('begin')

const db = () => rig.session.db
interface Wanted {
  readonly teamId?: number
  readonly stream?: StreamName
  readonly since?: string
}
async function ask(ids: readonly string[], { teamId = rig.teamId, stream = 'patients', since }: Wanted = {}) {
  const rest = { teamId, stream, reason: 'partial', origin: 'event:e' } as const
  await requestRefetches(
    db(),
    ids.map((id) => ({ ...rest, id, since: (since ?? null) as Instant | null })),
  )
}
/** Milliseconds from now until each is due, by id. */
const dueIn = (id: string, milliseconds: number) =>
  rig.rows(`update intake_ops.refetches set due_at = now() + $2 * interval '1 millisecond' where id = $1`, [
    id,
    milliseconds,
  ])
const take = (most = 50, streams: readonly StreamName[] = ['patients']) =>
  takeDue(db(), rig.teamId, streams, most)
const idsOf = (rows: readonly DueRow[]) => rows.map(({ id }) => id).sort()
const left = () =>
  rig.rows(
    `select team_id as team, stream, id, attempts, failures, asked::int,
       round(extract(epoch from due_at - now()))::int as seconds
     from intake_ops.refetches order by team_id, stream, id`,
  )

describe('teams with something due', () => {
  test('are those with a row of the listed streams, due now or within the given time', async () => {
    await stopTime()
    await ask(['p'])
    await ask(['p'], { teamId: rig.otherId })
    await ask(['r'], { stream: 'responses' })
    await dueIn('p', 60_000)
    await dueIn('r', 60_000)
    const of = (teamId: number, ...streams: readonly StreamName[]) => ({ teamId, streams })
    const both = [of(rig.teamId, 'patients', 'responses'), of(rig.otherId, 'patients')]
    expect(await teamsDue(db(), both)).toEqual([])
    expect(await teamsDue(db(), both, 59_000)).toEqual([])
    expect([...(await teamsDue(db(), both, 60_000))].sort()).toEqual([rig.teamId, rig.otherId])
    await dueIn('r', 0)
    expect(await teamsDue(db(), both)).toEqual([rig.teamId])
    // For the other team, another stream is due.
    expect(await teamsDue(db(), [of(rig.teamId, 'patients'), of(rig.otherId, 'responses')])).toEqual([])
    // Each team is asked about its own streams: those of the first may have stopped.
    const stopped = [of(rig.teamId), of(rig.otherId, 'forms', 'patients')]
    expect(await teamsDue(db(), stopped, 60_000)).toEqual([rig.otherId])
    expect(await teamsDue(db(), [of(rig.teamId, 'patients'), of(rig.otherId)], 60_000)).toEqual([rig.teamId])
    expect(await teamsDue(db(), [])).toEqual([])
  })
})

describe('claiming', () => {
  test('returns due refetches of the team and its streams, the longest due first, up to a limit', async () => {
    await ask(['a', 'b', 'c', 'later'])
    await ask(['a'], { teamId: rig.otherId })
    await ask(['a'], { stream: 'forms' })
    for (const [id, ms] of [
      ['a', -1_000],
      ['b', -3_000],
      ['c', -2_000],
      ['later', 600_000],
    ] as const)
      await dueIn(id, ms)
    expect(idsOf(await take(2))).toEqual(['b', 'c'])
    expect(idsOf(await take())).toEqual(['a'])
    expect(await take()).toEqual([])
    expect(idsOf(await take(9, ['forms', 'packets']))).toEqual(['a'])
    expect(idsOf(await takeDue(db(), rig.otherId, ['patients'], 9))).toEqual(['a'])
  })

  test('leases a row for four seconds, so that a killed process delays it no longer, and counts no attempt', async () => {
    await stopTime()
    await ask(['p'])
    await ask(['p'])
    const [row] = await take()
    expect(row).toEqual({
      ...{ teamId: rig.teamId, stream: 'patients', id: 'p', reason: 'partial', origin: 'event:e' },
      ...{ requests: '2', attempts: 0, failures: 0, takenAt: row!.takenAt },
    })
    const [{ now }] = (await rig.rows<{ now: string }>('select now()::text as now')) as [{ now: string }]
    expect(row!.takenAt).toBe(now)
    expect(await left()).toMatchObject([{ seconds: 4, attempts: 0, asked: 2 }])
  })

  test('skips rows that another refetcher has claimed', async () => {
    await ask(['a', 'b'])
    await rig.loaders.run(async (other) => {
      await other.client.query('begin')
      await takeDue(other.db, rig.teamId, ['patients'], 1)
      expect(await take()).toHaveLength(1)
      await other.client.query('commit')
    })
    expect(await take()).toEqual([])
  })

  test('is renewed for claimed rows, not for rows that are due again or being settled', async () => {
    await ask(['claimed', 'anew', 'settled', 'other'])
    const taken = (await take()).filter(({ id }) => id !== 'other')
    for (const { id } of [...taken, { id: 'other' }]) await dueIn(id, 3_600_000)
    await dueIn('anew', -3_600_000)
    await rig.loaders.run(async (other) => {
      await other.client.query('begin')
      await settleRows(
        other.db,
        taken.filter(({ id }) => id === 'settled'),
      )
      // It waits for no lock.
      await renewLease(db(), taken)
      await other.client.query('rollback')
    })
    const hours = await rig.rows(
      `select id, round(extract(epoch from due_at - now()) / 3600)::int as hours from intake_ops.refetches order by id`,
    )
    expect(hours).toEqual([
      { id: 'anew', hours: -1 },
      { id: 'claimed', hours: 0 },
      { id: 'other', hours: 1 },
      { id: 'settled', hours: 1 },
    ])
  })

  test('settles a member that was stored as submitted since it changed, and no other', async () => {
    const at = (hour: number) => `2026-01-01T${String(hour).padStart(2, '0')}:00:00.000000Z` as Instant
    const response = (id: string, is_submitted: boolean) => ({ id, is_submitted, answers: [] })
    const asked: readonly [string, object | null, number][] = [
      ['known', response('known', true), 12],
      ['known-later', response('known-later', true), 13],
      ['before', response('before', true), 11],
      ['open', response('open', false), 13],
      ['unknown', null, 12],
      ['not-due', response('not-due', true), 13],
    ]
    // Requested before the page was read, as when its packet's event arrives earlier.
    await ask(
      asked.map(([id]) => id),
      { stream: 'responses', since: at(12) },
    )
    await ask(['no-member'], { stream: 'responses' })
    await ask(['known'], { stream: 'responses', since: at(12), teamId: rig.otherId })
    for (const [, record, hour] of asked) if (record !== null) await rig.hold('responses', [record], at(hour))
    await rig.hold('responses', [response('no-member', true)], at(13))
    await rig.hold('responses', [response('unknown', true)], at(13), rig.otherId)
    for (const [id] of [...asked, ['no-member']]) await dueIn(id as string, id === 'not-due' ? 600_000 : -1)
    // It waits for no row that is being requested.
    await rig.loaders.run(async (other) => {
      await other.client.query('begin')
      await other.client.query(`select from intake_ops.refetches for update`)
      expect(await take(50, ['responses'])).toEqual([])
      await other.client.query('rollback')
    })
    expect(await left()).toHaveLength(8)
    expect(idsOf(await take(50, ['responses']))).toEqual(['before', 'no-member', 'open', 'unknown'])
    const kept = (await left()).map(({ team, id }) => `${team === rig.teamId ? '' : 'other '}${id}`)
    expect(kept.sort()).toEqual(['before', 'no-member', 'not-due', 'open', 'other known', 'unknown'])
  })
})

describe('settling', () => {
  test('removes a row, of its own team and stream, unless it was requested again: that one is due again', async () => {
    await stopTime()
    await ask(['a', 'b', 'c'])
    await ask(['a'], { teamId: rig.otherId })
    await ask(['a'], { stream: 'forms' })
    await rig.rows('update intake_ops.refetches set attempts = 3, failures = 2')
    const rows = (await take()).filter(({ id }) => id !== 'c')
    await ask(['b'])
    await settleRows(db(), rows)
    expect(await left()).toEqual([
      { team: rig.teamId, stream: 'forms', id: 'a', attempts: 3, failures: 2, asked: 1, seconds: 0 },
      { team: rig.teamId, stream: 'patients', id: 'b', attempts: 0, failures: 0, asked: 2, seconds: 0 },
      { team: rig.teamId, stream: 'patients', id: 'c', attempts: 3, failures: 2, asked: 1, seconds: 4 },
      { team: rig.otherId, stream: 'patients', id: 'a', attempts: 3, failures: 2, asked: 1, seconds: 0 },
    ])
    expect(idsOf(await take())).toEqual(['b'])
  })

  test('does nothing without rows', async () => {
    await ask(['a'])
    await settleRows(db(), [])
    await postpone(db(), [], () => 0)
    expect(await left()).toHaveLength(1)
  })
})

describe('delaying', () => {
  test('sets the time of each row and counts the attempt, of its own team and stream', async () => {
    await stopTime()
    await ask(['a', 'b', 'c'])
    await ask(['a'], { teamId: rig.otherId })
    await ask(['a'], { stream: 'forms' })
    const rows = (await take()).filter(({ id }) => id !== 'c')
    await postpone(db(), rows, ({ id }) => (id === 'a' ? 5_000 : 7_000))
    expect(await left()).toMatchObject([
      { stream: 'forms', id: 'a', attempts: 0, seconds: 0 },
      { id: 'a', attempts: 1, seconds: 5 },
      { id: 'b', attempts: 1, seconds: 7 },
      { id: 'c', attempts: 0, seconds: 4 },
      { team: rig.otherId, id: 'a', attempts: 0 },
    ])
  })

  test.each([
    ['attempt', 1, 0],
    ['failure', 0, 1],
    ['nothing', 0, 0],
  ] as const)('counts the result of the request: %s', async (counted, attempts, failures) => {
    await stopTime()
    await ask(['a'])
    await postpone(db(), await take(), () => 0, counted)
    expect(await left()).toMatchObject([{ attempts, failures, seconds: 0 }])
  })

  test.each([
    [0, 0, 1_000],
    [1, 0, 2_000],
    [0, 1, 2_000],
    [2, 3, 32_000],
    [9, 0, 512_000],
    [0, 10, 600_000],
    [1_000_000, 0, 600_000],
  ])('after %i attempts and %i failures it waits %i ms', (attempts, failures, pause) => {
    expect(pauseBefore({ attempts, failures } as DueRow)).toBe(pause)
  })
})

test('the origin of a fetched record names the event that requested it', () => {
  expect(originOf({ origin: 'event:e1' } as DueRow)).toBe('event:e1 refetch')
})
