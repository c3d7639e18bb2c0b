/**
 * Where the processes of a team share its request budget: one row of intake_ops.budgets, on the clock of Postgres.
 *
 * Invariant: a division is replaced only by one that was made from it. No lock is held between two statements, so a
 * process that stops delays no other. A connection that breaks, or does not answer, is replaced at the next exchange.
 */
import { randomInt, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import PQueue from 'p-queue'
import type { QueryConfig, QueryResult } from 'pg'
import { openSession, type Session } from '../warehouse/connect.ts'

const CHANNEL = 'intake_budgets'
const TIMEOUT_MS = 3_000
/** Attempts of one exchange, while other processes are faster. */
const ATTEMPTS = 20
/** At most, between two attempts; random, so that no process is always the slower one. */
const PAUSE_MS = 10

/** What every version of the division says. */
interface Stored {
  readonly learned: { readonly count: number; readonly window: number } | null
  /** Microseconds since 1970. */
  readonly pausedUntil: number
}

export interface TeamBudget {
  readonly name: string
  update<Division extends Stored>(
    change: (stored: unknown, now: number) => { readonly division: Division; readonly notify: boolean },
  ): Promise<void>
  listen(listener: () => void): void
  close(): Promise<void>
}

export interface Budgets extends AsyncDisposable {
  /** For one limiter; each call gives another. */
  ofTeam(teamId: number): TeamBudget
}

/** The format of the division; another one is not read. */
const FORMAT = 1

const READ = `select division, version, (extract(epoch from clock_timestamp()) * 1000000)::float8 as now
  from (select $1::smallint as team_id) as asked left join intake_ops.budgets using (team_id)`

/** One row if the division was still the one that was read. */
const WRITE = `
  with given as (
    select $1::smallint as team_id, $2::jsonb as division, $3::bigint as version, $4::int as "limit",
      make_interval(secs => $5::float8) as "window", to_timestamp($6::float8) as paused_until
  ), written as (
    insert into intake_ops.budgets as b (team_id, "limit", "window", learned_at, paused_until, division, version)
    select team_id, "limit", "window", case when "limit" is not null then clock_timestamp() end, paused_until, division, 1
    from given
    on conflict (team_id) do update
    set division = excluded.division, version = b.version + 1, paused_until = excluded.paused_until,
      "limit" = excluded."limit", "window" = excluded."window",
      learned_at = case when (b."limit", b."window") is distinct from (excluded."limit", excluded."window")
        then clock_timestamp() else b.learned_at end
    where b.version = (select version from given)
    returning 1
  )
  select case when $7 then pg_notify('${CHANNEL}', $8) end from written`

export function openBudgets(url: string): Budgets {
  const listeners = new Map<string, { readonly teamId: number; readonly listener: () => void }>()
  let session: Promise<Session> | null = null
  /** Teams take turns on the session. Where it breaks, those that wait for it fail at once. */
  const turns = new PQueue({ concurrency: 1 })
  let isClosed = false

  async function connected(): Promise<Session> {
    const opened = await openSession({ url, purpose: 'request budget', connectTimeoutMs: TIMEOUT_MS })
    opened.client.on('notification', ({ channel, payload = '' }) => {
      if (channel !== CHANNEL) return
      const [teamId, sender] = payload.split(' ')
      for (const [name, { teamId: own, listener }] of listeners)
        if (String(own) === teamId && name !== sender) listener()
    })
    await opened.client.query(`listen ${CHANNEL}`)
    return opened
  }

  async function ask<Row extends Record<string, unknown>>(
    text: string,
    values: unknown[],
  ): Promise<QueryResult<Row>> {
    if (isClosed) throw new Error('the budgets are closed')
    session ??= connected()
    const used = session
    const config: QueryConfig & { query_timeout: number } = { text, values, query_timeout: TIMEOUT_MS }
    return await turns.add(async () => {
      try {
        return await (await used).client.query<Row>(config)
      } catch (error) {
        if (session === used) session = null
        used.then(
          (broken) => broken.close(),
          () => {},
        )
        throw error
      }
    })
  }

  function ofTeam(teamId: number): TeamBudget {
    const name = randomUUID()
    return {
      name,
      async update(change) {
        for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
          const { rows } = await ask<{
            division: { format?: number } | null
            version: string | null
            now: number
          }>(READ, [teamId])
          const { division: stored, version, now } = rows[0]!
          const { division, notify } = change(stored?.format === FORMAT ? stored : null, now)
          const { learned, pausedUntil } = division
          const { rowCount } = await ask(WRITE, [
            ...[teamId, JSON.stringify({ ...division, format: FORMAT }), version ?? 0],
            ...[learned?.count ?? null, learned === null ? null : learned.window / 1e6],
            ...[pausedUntil > now ? pausedUntil / 1e6 : null, notify, `${teamId} ${name}`],
          ])
          if (rowCount === 1) return
          await sleep(randomInt(PAUSE_MS + 1))
        }
        throw new Error('the budget changes all the time')
      },
      listen: (listener) => void listeners.set(name, { teamId, listener }),
      close: async () => void listeners.delete(name),
    }
  }

  return {
    ofTeam,
    async [Symbol.asyncDispose]() {
      isClosed = true
      await session?.then(
        (opened) => opened.close(),
        () => {},
      )
    },
  }
}
