/** Equal dead letters of several teams, streams and runs: counting, waiting, resolving and removing are separate. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { countWaiting, resolveUnmet, storeDeadLetters, waitingIds } from '../../src/load/dead-letters.ts'
import { removeSettledBodies } from '../../src/load/erased-dead-letters.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import type { DeadLetter } from '../../src/normalize/read-record.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { rowsOf } from './loading.ts'

let database: TestDatabase
let session: Session
let teamId: number
let otherId: number

beforeEach(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'dead letters' })
  teamId = await teamIdOf(session.db, 'one')
  otherId = await teamIdOf(session.db, 'other')
})

afterEach(async () => {
  await session.close()
  await database.drop()
})

const deadLetter = (over: Partial<DeadLetter> = {}): DeadLetter => ({
  ...{ recordId: 'p', origin: 'run:1 page:1', reason: 'r', body: '{"id":"p"}' },
  ...over,
})
const place = (over: { teamId?: number; stream?: 'patients' | 'forms'; runId?: string } = {}) => ({
  ...{ teamId, stream: 'patients' as const, runId: '1' },
  ...over,
})
const put = (deadLetters: readonly DeadLetter[], over = {}) =>
  storeDeadLetters(session.db, place(over), deadLetters)
const all = () =>
  rowsOf<{
    id: string
    team: number
    stream: string
    record_id: string
    status: string
    seen: number
    run: string
  }>(
    session,
    `select id::text, team_id as team, stream, record_id, status, seen::int, last_run_id::text as run
     from intake_ops.dead_letters order by id`,
  )
const bodies = () =>
  rowsOf<{ body: Buffer }>(session, 'select body from intake_raw.set_aside order by dead_letter_id')
const mark = (status: string, where = 'true') =>
  rowsOf(
    session,
    `update intake_ops.dead_letters set status = $1,
       settled_at = case when $1 = 'waiting' then null else now() end where ${where}`,
    [status],
  )

describe('storing dead letters', () => {
  test('counts a repeated one; a different record, reason, body, team or stream makes another', async () => {
    expect(await put([deadLetter(), deadLetter()])).toBe(2)
    expect(await all()).toMatchObject([
      { team: teamId, stream: 'patients', seen: 2, run: '1', status: 'waiting' },
    ])
    expect(await bodies()).toHaveLength(1)
    await put([deadLetter({ origin: 'run:2 page:9' })], { runId: '2' })
    expect(await all()).toMatchObject([{ seen: 3, run: '2' }])
    const others = [{ recordId: 'q' }, { recordId: null }, { reason: 's' }, { body: '{"id":"q"}' }]
    for (const over of others) await put([deadLetter(over)])
    await put([deadLetter()], { teamId: otherId })
    await put([deadLetter()], { stream: 'forms' })
    expect((await all()).map(({ seen }) => seen)).toEqual([3, 1, 1, 1, 1, 1, 1])
    expect(await bodies()).toHaveLength(7)
  })

  test('keeps the body byte for byte; text and bytes are the same body', async () => {
    const bytes = Buffer.from([0, 255, 10, 92, 195, 40])
    await put([
      deadLetter({ body: bytes }),
      deadLetter({ body: 'é\\n' }),
      deadLetter({ body: Buffer.from('é\\n') }),
    ])
    expect((await bodies()).map(({ body }) => body)).toEqual([bytes, Buffer.from('é\\n')])
    expect((await all()).map(({ seen }) => seen)).toEqual([1, 2])
  })

  test('counts a discarded one without waiting again; of another team or stream it waits', async () => {
    await put([deadLetter()])
    await mark('discarded')
    expect(await put([deadLetter(), deadLetter({ recordId: 'after' })], { runId: '5' })).toBe(1)
    expect(await all()).toMatchObject([
      { status: 'discarded', seen: 2, run: '5' },
      { status: 'waiting', record_id: 'after' },
    ])
    expect(await put([deadLetter()], { teamId: otherId })).toBe(1)
    expect(await put([deadLetter()], { stream: 'forms' })).toBe(1)
    expect((await all()).map(({ status }) => status)).toEqual(['discarded', 'waiting', 'waiting', 'waiting'])
  })

  test('a repeated one was seen last now, and first when it came, also a discarded one', async () => {
    await put([deadLetter(), deadLetter({ recordId: 'q' }), deadLetter({ recordId: 'other' })])
    await mark('discarded', `record_id = 'q'`)
    await rowsOf(
      session,
      `update intake_ops.dead_letters set created_at = '2020-01-01', last_seen_at = '2020-01-01'`,
    )
    await put([deadLetter(), deadLetter({ recordId: 'q' })])
    expect(
      await rowsOf(
        session,
        `select record_id as id, created_at < '2020-01-03' as early, last_seen_at > now() - interval '1 hour' as late
         from intake_ops.dead_letters order by id`,
      ),
    ).toEqual([
      { id: 'other', early: true, late: false },
      { id: 'p', early: true, late: true },
      { id: 'q', early: true, late: true },
    ])
  })

  test('each column says what happened: met again by another run, discarded, met again, resolved', async () => {
    const inbox = { teamId, stream: 'inbox', runId: null } as const
    await storeDeadLetters(session.db, inbox, [
      deadLetter({ recordId: null, origin: 'event:e', reason: 'e' }),
    ])
    await put([deadLetter(), deadLetter({ recordId: 'q' })])
    /** The rows after the step; each time is `old`, or `now` where the step has set it. */
    const rowsAfter = async (step: () => Promise<unknown>) => {
      await rowsOf(
        session,
        `update intake_ops.dead_letters set created_at = '2020-01-01', last_seen_at = '2020-01-01',
           settled_at = case when settled_at is not null then '2020-01-01'::timestamptz end`,
      )
      await step()
      const age = (column: string) =>
        `case when ${column} > '2020-01-01' then 'now' when ${column} is not null then 'old' end as ${column}`
      return await rowsOf(
        session,
        `select team_id, stream, record_id, origin, reason, status, seen::int, last_run_id::int, ${age('created_at')},
           ${age('last_seen_at')}, ${age('settled_at')}, length(fingerprint) as fingerprint,
           (select count(*)::int from intake_raw.set_aside where dead_letter_id = id) as bodies
         from intake_ops.dead_letters order by id`,
      )
    }
    const times = { created_at: 'old', last_seen_at: 'old', settled_at: null as string | null }
    const same = { team_id: teamId, ...times, seen: 1, status: 'waiting', fingerprint: 64, bodies: 1 }
    const event = {
      ...same,
      stream: 'inbox',
      record_id: null,
      origin: 'event:e',
      reason: 'e',
      last_run_id: null,
    }
    const made = { ...same, stream: 'patients', origin: 'run:1 page:1', reason: 'r', last_run_id: 1 }
    const [p, q] = [
      { ...made, record_id: 'p' },
      { ...made, record_id: 'q' },
    ]
    const again = (runId: string) => put([deadLetter({ origin: `run:${runId} page:7` })], { runId })
    const second = { ...p, seen: 2, last_run_id: 2 }
    expect(await rowsAfter(() => again('2'))).toEqual([event, { ...second, last_seen_at: 'now' }, q])
    await mark('discarded', `record_id = 'p'`)
    const discarded = { ...second, status: 'discarded', settled_at: 'old' }
    expect(await rowsAfter(() => again('3'))).toEqual([
      event,
      { ...discarded, seen: 3, last_run_id: 3, last_seen_at: 'now' },
      q,
    ])
    const place = { teamId, stream: 'patients', runId: '4' } as const
    expect(await rowsAfter(() => resolveUnmet(session.db, place))).toEqual([
      event,
      { ...discarded, seen: 3, last_run_id: 3 },
      { ...q, status: 'resolved', settled_at: 'now' },
    ])
    const anew = { ...q, created_at: 'now', last_seen_at: 'now', last_run_id: 5, origin: 'run:5 page:1' }
    const returned = [deadLetter({ recordId: 'q', origin: 'run:5 page:1' })]
    expect((await rowsAfter(() => put(returned, { runId: '5' }))).slice(2)).toEqual([
      { ...q, status: 'resolved', settled_at: 'old' },
      anew,
    ])
  })

  test('one that was discarded before an upgrade is the same after it', async () => {
    const bytes = Buffer.from([0, 255])
    await put([deadLetter(), deadLetter({ recordId: null, body: bytes })])
    const stored = await rowsOf(session, 'select fingerprint from intake_ops.dead_letters order by id')
    expect(stored).toEqual([
      { fingerprint: '75eb4f791a02d2f1653a38bff55c702db772605787185cd8428dc6380a5d2d79' },
      { fingerprint: '6358d50e2f31a31df0d8f62c8c982329273fed7c06753727508c25492aae7712' },
    ])
  })

  test('a resolved one that returns is a new one that waits', async () => {
    await put([deadLetter()])
    await mark('resolved')
    expect(await put([deadLetter()])).toBe(1)
    expect((await all()).map(({ status, seen }) => [status, seen])).toEqual([
      ['resolved', 1],
      ['waiting', 1],
    ])
  })
})

describe('waiting dead letters', () => {
  /** One of each kind; the first two are from an earlier run. */
  async function mixture() {
    await put([deadLetter({ recordId: 'a' }), deadLetter({ recordId: 'b' })])
    await put([deadLetter({ recordId: 'b', reason: 'another' })])
    await put([deadLetter({ recordId: 'now' })], { runId: '2' })
    await put([deadLetter({ recordId: null })])
    await put([deadLetter({ recordId: 'event', origin: 'event:e1' })])
    await put([deadLetter({ recordId: 'discarded' })])
    await mark('discarded', `record_id = 'discarded'`)
    await put([deadLetter({ recordId: 'other' })], { teamId: otherId })
    await put([deadLetter({ recordId: 'form' })], { stream: 'forms' })
  }

  test('of earlier runs are listed by the ids of records from pages and fetches, each once, up to a limit', async () => {
    await mixture()
    const now = { teamId, stream: 'patients', runId: '2' } as const
    expect([...(await waitingIds(session.db, now, 10))].sort()).toEqual(['a', 'b'])
    expect(await waitingIds(session.db, now, 1)).toHaveLength(1)
    expect(await waitingIds(session.db, { ...now, runId: '1' }, 10)).toEqual(['now'])
    await rowsOf(session, `update intake_ops.dead_letters set last_run_id = null where record_id = 'a'`)
    expect(await waitingIds(session.db, { ...now, runId: '1' }, 10)).toContain('a')
  })

  test('are resolved after a scan that did not see them, except those of events, other teams and streams', async () => {
    await mixture()
    await resolveUnmet(session.db, { teamId, stream: 'patients', runId: '2' })
    const waiting = (await all()).filter(({ status }) => status === 'waiting').map((each) => each.record_id)
    expect(waiting).toEqual(['now', 'event', 'other', 'form'])
    const settled = await rowsOf(
      session,
      `select status, settled_at is not null as dated from intake_ops.dead_letters where status <> 'waiting'`,
    )
    expect(settled.filter(({ status }) => status === 'resolved')).toHaveLength(4)
    expect(settled.every(({ dated }) => dated)).toBe(true)
  })

  test('are resolved only for the ids that were read; without ids, none is', async () => {
    await mixture()
    const now = { teamId, stream: 'patients', runId: '2' } as const
    await resolveUnmet(session.db, now, { ids: [] })
    await resolveUnmet(session.db, now, { ids: ['b', 'now', 'event', 'other', 'form'] })
    const resolved = (await all()).filter(({ status }) => status === 'resolved').map((each) => each.record_id)
    expect(resolved).toEqual(['b', 'b'])
  })

  test('are resolved except those that could not be read; those without an id or a run are resolved', async () => {
    await mixture()
    await rowsOf(session, `update intake_ops.dead_letters set last_run_id = null where record_id = 'a'`)
    await resolveUnmet(session.db, { teamId, stream: 'patients', runId: '2' }, { except: ['b'] })
    const resolved = (await all()).filter(({ status }) => status === 'resolved').map((each) => each.record_id)
    expect(resolved).toEqual(['a', null])
  })

  test('are counted for these streams of this team', async () => {
    await mixture()
    expect(await countWaiting(session.db, teamId, ['patients'])).toBe(6)
    expect(await countWaiting(session.db, teamId, ['patients', 'forms'])).toBe(7)
    // A run may end before any stream of a team has a report.
    expect(await countWaiting(session.db, teamId, [])).toBe(0)
    expect(await countWaiting(session.db, otherId, ['patients', 'forms'])).toBe(1)
    expect(await countWaiting(session.db, teamId, ['packets'])).toBe(0)
  })
})

describe('bodies of dead letters', () => {
  const now = new Date('2026-03-31T00:00:00Z')
  const remove = (days = 30) => removeSettledBodies(session.db, { days, now })
  const settle = (id: string, status: string, at: string) =>
    rowsOf(session, `update intake_ops.dead_letters set status = $2, settled_at = $3 where record_id = $1`, [
      id,
      status,
      at,
    ])

  test('are removed some days after settling; the dead letters stay, and so do bodies of waiting ones', async () => {
    const ids = ['old', 'older', 'young', 'waiting']
    await put(ids.map((recordId) => deadLetter({ recordId, body: recordId })))
    await settle('old', 'resolved', '2026-02-28T23:59:59Z')
    await settle('older', 'discarded', '2026-01-01T00:00:00Z')
    await settle('young', 'resolved', '2026-03-01T00:00:00Z')
    // Settled once, and waiting again.
    await settle('waiting', 'waiting', '2026-01-01T00:00:00Z')
    expect(await remove()).toBe(2)
    expect((await bodies()).map(({ body }) => body.toString()).sort()).toEqual(['waiting', 'young'])
    expect(await all()).toHaveLength(4)
    expect(await remove()).toBe(0)
    expect(await remove(1)).toBe(1)
  })

  test('that are locked are left to the next time, and the others are removed without a wait', async () => {
    await put(['locked', 'free'].map((recordId) => deadLetter({ recordId, body: recordId })))
    for (const id of ['locked', 'free']) await settle(id, 'resolved', '2026-01-01T00:00:00Z')
    await using other = await openSession({ url: database.url, purpose: 'test' })
    await other.client.query('begin')
    await other.client.query(`
      select from intake_raw.set_aside body join intake_ops.dead_letters dead on dead.id = body.dead_letter_id
      where record_id = 'locked' for update of body`)
    expect(await remove()).toBe(1)
    await other.client.query('rollback')
    expect(await remove()).toBe(1)
    expect(await bodies()).toEqual([])
  })

  test('are all removed, also when one statement cannot remove them all', async () => {
    await rowsOf(
      session,
      `with inserted as (
         insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason, status, settled_at)
         select $1, 'patients', 'p' || n, 'f' || n, 'run:1', 'r', 'resolved', '2026-01-01' from generate_series(1, 2500) n
         returning id)
       insert into intake_raw.set_aside (dead_letter_id, body) select id, 'x' from inserted`,
      [teamId],
    )
    expect(await remove()).toBe(2_500)
    expect(await bodies()).toEqual([])
  })
})
