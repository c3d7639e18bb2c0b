/**
 * A consumer of the change feed: it keeps a copy of what it reads, by the recipe of docs/warehouse.md, and is ended and
 * started again at any point. In the end its copy equals the tables.
 *
 * Invariant: its statements do not depend on what it reads. What the feed shows depends on every open transaction of the
 * server, also on those of other tests, and a seed has to play the same.
 */
import pg from 'pg'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { openChoice } from './choice.ts'
import type { SimulatedStream } from './history.ts'
import type { Lane } from './lane.ts'
import type { Processes } from './processes.ts'
import type { Actor, Offer, Scheduler } from './scheduler.ts'

export interface Follower {
  /** It starts, and is ended a few times; nothing once it has stopped. */
  offers(): readonly Offer[]
  /** Transactions that it committed. */
  readonly rounds: number
  /** How often it was started again. */
  readonly starts: number
  /** May be ended so many more times. */
  mayBeEnded(times: number): void
  stop(): void
  /** Follows to the end, without the scheduler, and compares: returns what differs. */
  differing(): Promise<readonly string[]>
}

/** A seed with a reader takes twice as long as another. */
export function hasReader(seed: number): boolean {
  return seed % 4 === 0
}

/** In the schema of the simulation, next to its clock. */
export const COPY = `
  create table sim.place (reader int primary key, seq bigint not null);
  create table sim.copy (reader int, team_id smallint, stream text, id text, key text, state jsonb);
  create index copy_keys on sim.copy (reader, stream, key)`

/** Changes of one transaction of the reader: few, so that it is often ended between two. */
const AT_ONCE = 5

export interface FollowerOptions {
  readonly seed: number
  readonly teamIds: readonly number[]
  readonly streams: readonly SimulatedStream[]
  readonly lane: Lane
  readonly scheduler: Scheduler
  readonly processes: Processes
}

export async function openFollower(options: FollowerOptions): Promise<Follower> {
  const { seed, teamIds, streams, lane, scheduler, processes } = options
  const choice = openChoice(seed ^ 0x5eed)
  const reader = teamIds[0]!
  const teams = `team_id = any ('{${teamIds.join()}}')`
  const states = streams.map((name) => stateOf(name, teams)).join(' union all ')
  const round = [
    'begin isolation level repeatable read',
    `create temporary table change on commit drop as
     select * from intake.changes where ${teams} and stream = any ('{${streams.join()}}')
       and seq > (select seq from sim.place where reader = ${reader}) order by seq fetch first ${AT_ONCE} rows with ties`,
    `delete from sim.copy own using change c where own.reader = ${reader} and own.stream = c.stream and own.key = c.key`,
    `insert into sim.copy select ${reader}, s.team_id, s.stream, s.id, c.key, s.state
     from change c join (${states}) s on s.team_id = c.team_id and s.stream = c.stream and s.id = c.id
     where c.operation = 'upsert'`,
    `update sim.place set seq = (select max(seq) from change) where reader = ${reader} and exists (select from change)`,
    'commit',
  ]
  await lane.query('insert into sim.place values ($1, 0)', [reader])
  let current: Actor | null = null
  let [rounds, starts, kills, isOver] = [0, 0, 2, false]

  async function follow(actor: Actor): Promise<void> {
    const clock = scheduler.clockOf(actor)
    const url = `postgres://simulated/warehouse?process=${encodeURIComponent(actor.name)}`
    while (!isOver) {
      const client = new pg.Client({
        connectionString: url,
        options: '-c timezone=UTC',
        application_name: 'follow',
      })
      client.on('error', () => {})
      try {
        await client.connect()
        while (!isOver) {
          for (const text of round) await client.query(text)
          rounds += 1
          await clock.sleep(choice.below(2_000))
        }
      } catch {
        // A lost connection, a deadlock, a lock that the reader before it still holds: it begins its transaction again.
        await clock.sleep(100)
      }
      await client.end().catch(() => {})
    }
    current = null
  }

  return {
    get rounds() {
      return rounds
    },
    get starts() {
      return starts
    },
    mayBeEnded(times) {
      kills = times
    },
    stop() {
      isOver = true
      if (current !== null) processes.kill(current)
    },
    offers() {
      if (isOver) return []
      const actor = current
      if (actor === null || !actor.alive) {
        const start = () => {
          starts += 1
          current = processes.start('reader')
          void follow(current)
        }
        return [{ label: 'the reader starts', weight: 0.3, act: start }]
      }
      const end = () => {
        kills -= 1
        processes.kill(actor)
      }
      return kills === 0 ? [] : [{ label: 'the reader is ended', weight: 0.03, act: end }]
    },
    async differing() {
      const compare = `
        with tables as (${states})
        select coalesce(t.stream, c.stream) || ' ' || coalesce(t.id, c.id) as key
        from tables t
        full join (select * from sim.copy where reader = ${reader}) c using (team_id, stream, id)
        where t.state is distinct from c.state order by 1`
      // Transactions of other tests delay the feed, in real time.
      for (const deadline = performance.now() + 60_000; ; ) {
        for (let place = ''; ; ) {
          for (const text of round) await lane.query(text, [])
          const [now] = await lane.query<{ seq: string }>(
            'select seq::text from sim.place where reader = $1',
            [reader],
          )
          if (now!.seq === place) break
          place = now!.seq
        }
        const rows = await lane.query<{ key: string }>(compare, [])
        if (rows.length === 0 || performance.now() > deadline) return rows.map(({ key }) => key)
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    },
  }
}

/** Each record of a stream with its row and those of its children, as one value. */
function stateOf(name: SimulatedStream, teams: string): string {
  const { table, children } = streamNamed(name)!
  const parts = children.map(
    ({ table: child, parent }) =>
      `(select coalesce(jsonb_agg(to_jsonb(c) order by to_jsonb(c)::text), '[]') from intake.${child} c
        where c.team_id = t.team_id and c.${parent} = t.id)`,
  )
  return `select t.team_id, '${name}' as stream, t.id, jsonb_build_array(${['to_jsonb(t)', ...parts].join(', ')}) as state
    from intake.${table} t where t.${teams} and t._deleted_at is null`
}
