/**
 * Runs: the history, each run next to the one before it, and how far a running one has come.
 *
 * Invariant: counts, times, names of teams and streams, and lines of the log, which contain no value of a record.
 */
import type { FastifyInstance } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { type Run, type RunStream, readRuns } from '../../operate/health/runs.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { Refusal } from '../access.ts'
import { minute, plural } from '../format.ts'
import type { Shared } from '../shared.ts'

const PATIENCE_MS = 700
const VIEWER = { config: { role: 'viewer' } } as const

export function serveRuns(app: FastifyInstance, { options, readings, show }: Shared): void {
  app.get('/runs', VIEWER, async (request, reply) => {
    const runs = await readings.runs.within(PATIENCE_MS)
    return show(request, reply, { view: 'runs', title: 'Runs', waits: runs === null, data: { runs } })
  })

  app.get('/runs/:id', VIEWER, async (request, reply) => {
    const { id } = request.params as { id: string }
    if (!/^\d{1,9}$/.test(id)) throw new Refusal(404, 'there is no such run')
    // The run before it of the same kind is looked for among as many as the list shows.
    const [run, ...earlier] = await readRuns(options.url, COMPARED, Number(id))
    if (run?.run_id !== Number(id)) throw new Refusal(404, `there is no run ${id}`)
    const before = earlier.find(({ kind, streams }) => kind === run.kind && streams.length > 0) ?? null
    const isRunning = run.status === 'running'
    const live = await readings.look(async (db) => ({
      progress: isRunning ? progressOf(await readProgress(db, run.run_id)) : null,
      lines: await readLines(db, run.run_id),
    }))
    const data = { run, before, rows: comparedWith(run, before), options: optionsOf(run), ...live }
    return show(request, reply, { view: 'run', title: `Run ${id}`, waits: isRunning, data })
  })
}

/** A stream of a running run, as last stored. */
export interface StoredProgress {
  readonly team: string
  readonly stream: string
  readonly phase: string
  readonly pages: number
  readonly requests: number
  readonly throttled: number
  readonly fetched: number
  /** The service's count; null where it gives none. */
  readonly expected: number | null
  /** Permitted requests per second of the team; null while no limit is known. */
  readonly permitted_rate: number | null
  /** From the beginning of the stream to the last time its row was stored. */
  readonly seconds: number
}

export interface LiveStream extends StoredProgress {
  /** Records per second; null before the first. */
  readonly rate: number | null
  /** Of the list that is being read; null where the service does not count it. */
  readonly seconds_left: number | null
}

export interface LiveTeam {
  readonly team: string
  readonly requests: number
  readonly throttled: number
  readonly permitted_rate: number | null
  /** Requests per second since the team's first stream began, and their share of the permitted ones. */
  readonly rate: number
  readonly share: number | null
}

export interface Live {
  readonly streams: readonly LiveStream[]
  readonly teams: readonly LiveTeam[]
  /** Until the last of the lists that are being read; null where none can be foretold. */
  readonly seconds_left: number | null
}

/** What the stored progress means: rates, use of the budget, time left. */
export function progressOf(stored: readonly StoredProgress[]): Live {
  const streams = stored.map((each): LiveStream => {
    const { fetched, expected, seconds, phase } = each
    const rate = fetched > 0 && seconds > 0 ? fetched / seconds : null
    const isFetching = phase === 'fetch' && rate !== null && expected !== null
    return { ...each, rate, seconds_left: isFetching ? Math.max(0, expected - fetched) / rate : null }
  })
  const teams = [...new Set(stored.map(({ team }) => team))].map((team): LiveTeam => {
    const own = stored.filter((each) => each.team === team)
    const sum = (figure: 'requests' | 'throttled') => own.reduce((total, each) => total + each[figure], 0)
    const [requests, throttled] = [sum('requests'), sum('throttled')]
    const rate = requests / Math.max(1, ...own.map(({ seconds }) => seconds))
    const permitted_rate = own.find((each) => each.permitted_rate !== null)?.permitted_rate ?? null
    const share = permitted_rate === null ? null : Math.min(1, rate / permitted_rate)
    return { team, requests, throttled, permitted_rate, rate, share }
  })
  const left = streams.flatMap(({ seconds_left }) => seconds_left ?? [])
  return { streams, teams, seconds_left: left.length === 0 ? null : Math.max(...left) }
}

async function readProgress(db: Kysely<Warehouse>, runId: number): Promise<readonly StoredProgress[]> {
  const { rows } = await sql<StoredProgress>`
    select team.name as team, stream, phase, pages::float8 as pages, requests::float8 as requests,
      throttled::float8 as throttled, fetched::float8 as fetched, expected::float8 as expected, permitted_rate,
      greatest(0, extract(epoch from updated_at - began_at))::float8 as seconds
    from intake_ops.run_progress join intake.teams team using (team_id)
    where run_id = ${runId} order by phase = 'ended', team.name, began_at, stream`.execute(db)
  return rows
}

interface LogLine {
  readonly at: string
  readonly level: string
  readonly team: string | null
  readonly stream: string | null
  readonly message: string
}

/** The newest last. */
async function readLines(db: Kysely<Warehouse>, runId: number): Promise<readonly LogLine[]> {
  const { rows } = await sql<LogLine>`
    select to_json(at) #>> '{}' as at, level, team.name as team, stream, message
    from intake_ops.run_log left join intake.teams team using (team_id) where run_id = ${runId} order by line`.execute(
    db,
  )
  return rows
}

const COMPARED = 50

export interface ComparedStream extends RunStream {
  /** The same stream of the run before; null if it was not in it. */
  readonly before: RunStream | null
  /** Why the figures are what they are, where that is not obvious. */
  readonly why: string
}

function comparedWith({ streams }: Run, before: Run | null): readonly ComparedStream[] {
  return streams.map((each) => {
    const same =
      before?.streams.find(({ team, stream }) => team === each.team && stream === each.stream) ?? null
    return { ...each, before: same, why: whyOf(each, same) }
  })
}

/** Answers "why is this zero?". */
export function whyOf(now: RunStream, before: RunStream | null): string {
  if (now.status === 'failed') return 'it failed; the note has the reason'
  if (now.fetched === 0) {
    if (now.requests === 0) return 'it was not started'
    return before === null || before.fetched === 0
      ? 'the service returned no record'
      : `the service returned no record; ${plural(before.fetched, 'record')} in the run before`
  }
  if (now.changed === 0 && now.deleted === 0) {
    return now.unchanged > 0
      ? `nothing to write: all ${plural(now.unchanged, 'record')} were stored with the same content`
      : 'nothing was newer than what is stored'
  }
  if (before !== null && before.fetched > 0 && now.fetched < before.fetched / 2)
    return `less than half of the ${plural(before.fetched, 'record')} of the run before`
  return ''
}

/** What the run was asked for, as texts: names of teams and streams, switches. */
function optionsOf({ options }: Run): readonly (readonly [string, string])[] {
  if (typeof options !== 'object' || options === null) return []
  return Object.entries(options).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.map(String).join(', ') : textOf(name, value),
  ])
}

function textOf(name: string, value: unknown): string {
  if (typeof value === 'string' && /_at$|since/.test(name) && !Number.isNaN(Date.parse(value)))
    return minute(value)
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
