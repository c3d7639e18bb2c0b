/** Group commit: each event is stored once and acknowledged only when committed, whoever else stores at the same time. */
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { type IngestLimits, LIMITS } from '../../../src/ingest/http/in-flight.ts'
import { type InboxEvent, readEvent } from '../../../src/ingest/inbox/event.ts'
import { type Inbox, openInbox } from '../../../src/ingest/inbox/inbox.ts'
import { createTestDatabase } from '../../support/database.ts'
import { startOwnTime } from '../../support/own-time.ts'
import { openTestSession } from '../../support/sessions.ts'
import { eventOf, openRecorder, PATIENT, query, type Recorded } from '../support/ingest.ts'

interface Bench extends AsyncDisposable {
  readonly url: string
  readonly recorded: Recorded
  open(
    onStored?: () => void,
    limits?: Pick<IngestLimits, 'storeMs' | 'statementMs'>,
    clock?: Clock,
  ): Promise<Inbox>
}

async function openBench(): Promise<Bench> {
  const database = await createTestDatabase()
  const { recorded, watch, logger } = openRecorder()
  const opened: Inbox[] = []
  return {
    url: database.url,
    recorded,
    async open(onStored = () => {}, limits = PATIENT, clock = systemClock) {
      const { url } = database
      const inbox = await openInbox({ url, clock, logger, watch, onStored, limits })
      opened.push(inbox)
      return inbox
    },
    async [Symbol.asyncDispose]() {
      for (const inbox of opened) await inbox.close()
      await database.drop()
    },
  }
}

const event = (fields: Record<string, unknown> = {}, teamId = 1): InboxEvent =>
  readEvent(teamId, eventOf(fields))

/** Waits for the next day if this one is about to end; the warehouse's days are those of UTC. */
async function earlyInDay(): Promise<void> {
  const left = 86_400_000 - (Date.now() % 86_400_000)
  if (left < 20_000) await sleep(left + 100)
}

const countIn = async (url: string) =>
  (await query<{ count: number }>(url, 'select count(*)::int from intake_raw.inbox'))[0]!.count

describe('events', () => {
  it('that arrive together are committed together, in few statements', async () => {
    await using bench = await openBench()
    const inbox = await bench.open()
    const outcomes = await Promise.all(Array.from({ length: 3_000 }, () => inbox.store(event())))
    expect(new Set(outcomes)).toEqual(new Set(['stored']))
    expect(await countIn(bench.url)).toBe(3_000)
    expect(bench.recorded.committed.reduce((sum, events) => sum + events, 0)).toBe(3_000)
    expect(bench.recorded.committed.length).toBeLessThanOrEqual(8)
  })

  it('of all sizes are stored completely, and no statement grows without bound', async () => {
    await using bench = await openBench()
    const inbox = await bench.open()
    const sizes = [0, 1, 1_900, 2_100, 9_000, 70_000, 5_000_000, 5_000_000, 3]
    const events = sizes.map((size) => readEvent(1, Buffer.alloc(size, 0x7b)))
    const distinct = events.map((each, at) => (at === 7 ? readEvent(1, Buffer.alloc(5_000_000, 0x5b)) : each))
    await Promise.all(distinct.map((each) => inbox.store(each)))
    const rows = await query<{ right: boolean }>(
      bench.url,
      'select sha256(body) = body_hash as right from intake_raw.inbox',
    )
    expect(rows).toEqual(sizes.map(() => ({ right: true })))
    expect(bench.recorded.committed.length).toBeGreaterThanOrEqual(3)
  })

  it('are on disk before they are acknowledged, even where the database defaults to asynchronous commit', async () => {
    await using bench = await openBench()
    await query(
      bench.url,
      `do $$ begin execute format('alter database %I set synchronous_commit = off', current_database()); end $$;
       create table seen as select '' as setting, '' as statements, '' as locks where false;
       create function note() returns trigger language plpgsql as
         $$ begin
           insert into seen select current_setting('synchronous_commit'), current_setting('statement_timeout'),
             current_setting('lock_timeout');
           return null;
         end $$;
       create trigger note after insert on intake_raw.inbox execute function note()`,
    )
    const inbox = await bench.open()
    await inbox.store(event())
    expect(await query(bench.url, 'select distinct setting from seen')).toEqual([{ setting: 'on' }])
    // Postgres ends a statement, and a wait for a lock before it, earlier than its connection is given up.
    expect(await query(bench.url, 'select distinct statements, locks from seen')).toEqual([
      { statements: '59800ms', locks: '59600ms' },
    ])
    // A new session: earlier ones keep the former setting.
    const other = await openTestSession(bench.url)
    try {
      const { rows } = await other.query(`select current_setting('synchronous_commit') as setting`)
      expect(rows).toEqual([{ setting: 'off' }])
    } finally {
      await other.end()
    }
  })

  it('that arrive twice at once are stored once, and each is answered', async () => {
    await using bench = await openBench()
    const inbox = await bench.open()
    const events = Array.from({ length: 40 }, () => event())
    const outcomes = await Promise.all([...events, ...events, ...events].map((each) => inbox.store(each)))
    expect(outcomes.filter((outcome) => outcome === 'stored')).toHaveLength(40)
    expect(outcomes.slice(0, 40)).toEqual(Array(40).fill('stored'))
    expect(await countIn(bench.url)).toBe(40)
  })

  it('are each answered as new or known, if half of them are known', async () => {
    await using bench = await openBench()
    const inbox = await bench.open()
    const known = Array.from({ length: 20 }, () => event())
    await Promise.all(known.map((each) => inbox.store(each)))
    const mixed = [...known, ...Array.from({ length: 20 }, () => event())]
    const outcomes = await Promise.all(mixed.map((each) => inbox.store(each)))
    expect(outcomes).toEqual([...Array(20).fill('duplicate'), ...Array(20).fill('stored')])
  })

  it('stored yesterday are duplicates; stored the day before, they are stored again', async () => {
    await earlyInDay()
    await using bench = await openBench()
    for (const day of [-2, -1, 0]) {
      await query(
        bench.url,
        `select intake_raw.add_inbox_day((now() at time zone 'UTC')::date + $1::int, 0)`,
        [day],
      )
    }
    const inbox = await bench.open()
    const [before, yesterday] = [event(), event()]
    await Promise.all([before, yesterday].map((each) => inbox.store(each)))
    await query(
      bench.url,
      `update intake_raw.inbox set received_on = received_on - case event_id when $1 then 2 else 1 end`,
      [before.eventId],
    )
    expect(await inbox.store(yesterday)).toBe('duplicate')
    expect(await inbox.store(before)).toBe('stored')
    expect(await countIn(bench.url)).toBe(3)
  })

  it('stored yesterday for one team are new for another', async () => {
    await earlyInDay()
    await using bench = await openBench()
    await query(
      bench.url,
      `select intake_raw.add_inbox_day((now() at time zone 'UTC')::date - 1, 0),
         intake_raw.add_inbox_day((now() at time zone 'UTC')::date, 0)`,
    )
    const inbox = await bench.open()
    const bytes = eventOf()
    expect(await inbox.store(readEvent(1, bytes))).toBe('stored')
    await query(bench.url, 'update intake_raw.inbox set received_on = received_on - 1')
    expect(await inbox.store(readEvent(2, bytes))).toBe('stored')
    expect(await inbox.store(readEvent(1, bytes))).toBe('duplicate')
    expect(await query(bench.url, 'select team_id from intake_raw.inbox order by 1')).toEqual([
      { team_id: 1 },
      { team_id: 2 },
    ])
  })

  it('stored yesterday that arrive again with newer data are stored again', async () => {
    await earlyInDay()
    await using bench = await openBench()
    await query(
      bench.url,
      `select intake_raw.add_inbox_day((now() at time zone 'UTC')::date - 1, 0),
         intake_raw.add_inbox_day((now() at time zone 'UTC')::date, 0)`,
    )
    const inbox = await bench.open()
    await inbox.store(event({ id: 'same', data: { id: 'p', last_name: 'old' } }))
    await query(bench.url, 'update intake_raw.inbox set received_on = received_on - 1')
    const newer = event({ id: 'same', data: { id: 'p', last_name: 'new' } })
    expect(await inbox.store(newer)).toBe('stored')
    expect(await inbox.store(newer)).toBe('duplicate')
    expect(await countIn(bench.url)).toBe(2)
  })

  it('sent to two processes at once, in any order, are stored once without deadlocks', async () => {
    await using bench = await openBench()
    const inboxes = [await bench.open(), await bench.open()]
    const events = Array.from({ length: 1_500 }, () => event())
    const [one, other] = await Promise.all(
      inboxes.map((inbox, at) =>
        Promise.all((at === 0 ? events : events.toReversed()).map((each) => inbox.store(each))),
      ),
    )
    const stored = [...one!, ...other!].filter((outcome) => outcome === 'stored')
    expect(stored).toHaveLength(1_500)
    expect(await countIn(bench.url)).toBe(1_500)
    const [deadlocks] = await query<{ deadlocks: string }>(
      bench.url,
      'select deadlocks from pg_stat_database where datname = current_database()',
    )
    expect(deadlocks!.deadlocks).toBe('0')
  })
})

describe('an inbox', () => {
  it('wakes the drain for one new event among duplicates that are stored with it', async () => {
    await using bench = await openBench()
    let calls = 0
    const inbox = await bench.open(() => {
      calls += 1
    })
    const known = event()
    await inbox.store(known)
    expect(calls).toBe(1)
    const repeats = () => Array.from({ length: 20 }, () => inbox.store(known))
    const results = await Promise.all([...repeats(), inbox.store(event()), ...repeats()])
    expect(results.filter((result) => result === 'stored')).toHaveLength(1)
    expect(calls).toBe(2)
    await inbox.close()
  })

  it('wakes listeners in other processes, and in this one, after the commit', async () => {
    await using bench = await openBench()
    const listener = new pg.Client({ connectionString: bench.url, application_name: 'tests' })
    await listener.connect()
    try {
      await listener.query('listen intake_inbox')
      const seen: number[] = []
      const looks: Promise<unknown>[] = []
      let notices = 0
      listener.on('notification', () => {
        notices += 1
        looks.push(countIn(bench.url).then((count) => seen.push(count)))
      })
      let calls = 0
      const inbox = await bench.open(() => {
        calls += 1
      })
      await inbox.store(event())
      expect(calls).toBe(1)
      await expect.poll(() => seen).toEqual([1])
      for (let round = 0; round < 20; round += 1) await inbox.store(event())
      await expect.poll(() => Math.max(...seen)).toBe(21)
      // One notification for all commits of the same moment.
      expect(seen.length).toBeLessThanOrEqual(21)
      // By then the last notification was sent and received.
      await inbox.close()
      await listener.query('select')
      await Promise.all(looks)
      const before = notices
      const next = await bench.open()
      const again = event()
      await next.store(again)
      await expect.poll(() => notices).toBe(before + 1)
      expect(await next.store(again)).toBe('duplicate')
      await next.close()
      await listener.query('select')
      expect(notices).toBe(before + 1)
    } finally {
      await listener.end()
    }
  })

  it('survives the end of its sessions unnoticed', async () => {
    await using bench = await openBench()
    const inbox = await bench.open()
    await inbox.store(event())
    let lost = 0
    let isOver = false
    const outcomes: string[] = []
    const ending = (async () => {
      for (let round = 0; round < 10 && !isOver; round += 1) {
        const before = outcomes.length
        // Not while they connect: an attempt to connect that fails is reported.
        await query(
          bench.url,
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and application_name like 'intake-sync ingest%'
             and state in ('idle', 'active')`,
        )
        await sleep(60)
        // An event is tried ten times: it must not meet all of these ends.
        await expect.poll(() => isOver || outcomes.length > before, { interval: 5 }).toBe(true)
      }
    })()
    const sending = (async () => {
      for (let round = 0; round < 100; round += 1) {
        await Promise.all(
          Array.from({ length: 5 }, async () => {
            const outcome = await inbox.store(event()).catch(() => 'lost')
            outcomes.push(outcome)
            if (outcome === 'lost') lost += 1
          }),
        )
        await sleep(3)
      }
      isOver = true
    })()
    await Promise.all([ending, sending])
    expect(outcomes).toHaveLength(500)
    expect(lost).toBe(0)
    expect(await countIn(bench.url)).toBe(501)
    expect(inbox.trouble()).toBeNull()
  })

  it('answers within two seconds when its table is locked, and then stores a resent event once', async () => {
    await using bench = await openBench()
    const inbox = await bench.open(undefined, LIMITS)
    await inbox.store(event())
    const events = Array.from({ length: 20 }, () => event())
    const other = new pg.Client({ connectionString: bench.url, application_name: 'tests' })
    await other.connect()
    try {
      await other.query('begin; lock table intake_raw.inbox in access exclusive mode')
      using time = startOwnTime()
      const outcomes = await Promise.allSettled(events.map((each) => inbox.store(each)))
      expect(time.milliseconds).toBeLessThan(2_000)
      expect(outcomes.every(({ status }) => status === 'rejected')).toBe(true)
      await other.query('rollback')
    } finally {
      await other.end()
    }
    for (const each of events) {
      await expect.poll(() => inbox.store(each).catch(() => 'rejected')).toMatch(/stored|duplicate/)
    }
    expect(await countIn(bench.url)).toBe(21)
  })

  it('reports how many seconds each commit took', async () => {
    await using bench = await openBench()
    let now = systemClock.now()
    const inbox = await bench.open(undefined, undefined, { ...systemClock, now: () => now })
    for (const microseconds of [2_500_000, 4_000]) {
      const storing = inbox.store(event())
      // Its statement is sent by then, and not answered.
      await turn()
      now += microseconds
      await storing
    }
    expect(bench.recorded).toMatchObject({ committed: [1, 1], seconds: [2.5, 0.004] })
  })

  it('commits pending events before it closes', async () => {
    await using bench = await openBench()
    const inbox = await bench.open()
    const outcomes = Promise.all(Array.from({ length: 1_000 }, () => inbox.store(event())))
    await inbox.close()
    expect(await countIn(bench.url)).toBe(1_000)
    expect(new Set(await outcomes)).toEqual(new Set(['stored']))
  })

  it('fails the one event that the warehouse rejects, and stores the others of its group', async () => {
    await using bench = await openBench()
    await query(bench.url, `alter table intake_raw.inbox add constraint fussy check (source <> 'poison')`)
    const inbox = await bench.open()
    const events = Array.from({ length: 100 }, (_, at) => event(at === 63 ? { source: 'poison' } : {}))
    const outcomes = await Promise.allSettled(events.map((each) => inbox.store(each)))
    expect(outcomes.flatMap(({ status }, at) => (status === 'rejected' ? [at] : []))).toEqual([63])
    expect(await countIn(bench.url)).toBe(99)
    expect(inbox.trouble()).toBeNull()
  })
})
