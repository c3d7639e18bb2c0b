/**
 * Stores how far a run has come, and the lines of its log, about once a second: for those who watch it.
 *
 * Invariant: watching never fails or stops a run, and delays its end by a few seconds at most. It has a connection of its
 * own, opened after the first second; figures and lines that cannot be stored are tried again, a few times once the run has
 * ended, and dropped then. Counts, names of teams and streams and texts of the log only, no value of a record.
 */
import { randomUUID } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import type { StreamName } from '../core/envelope.ts'
import { type BoundedQueries, openBoundedQueries } from '../warehouse/bounded-queries.ts'
import type { Warehouse } from '../warehouse/tables.ts'
import type { ClaimedSlice } from './claims.ts'
import { isLost } from './lost-slices.ts'

export type Phase = 'plan' | 'fetch' | 'merge' | 'delete check' | 'compare' | 'ended'

/** Where a stream of a run is; changed by the code that reads it. */
export interface Step {
  phase: Phase
  /** Pages read and their records. Includes pages of a list that is read again; excludes pages that an earlier scan read. */
  pages: number
  records: number
  /** The service's count of what is being read, or null where it gives none. */
  expected: number | null
  /** Of the list that is being read; null if the service does not count it. */
  pagesLeft: number | null
}

export function firstStep(): Step {
  return { phase: 'plan', pages: 0, records: 0, expected: null, pagesLeft: null }
}

/** Notes a page. `listed`: records of the list that are read or need no reading, including those of the continued scan. */
export function addPage(step: Step, records: number, count: number | null, listed: number): void {
  Object.assign(step, {
    phase: 'fetch',
    pages: step.pages + 1,
    records: step.records + records,
    expected: count,
  })
  const left = count === null ? null : Math.max(0, count - listed)
  if (left === null || left === 0) step.pagesLeft = left
  else step.pagesLeft = step.records === 0 ? null : Math.ceil((left * step.pages) / step.records)
}

export interface Figures {
  readonly phase: Phase
  readonly pages: number
  readonly requests: number
  readonly throttled: number
  readonly fetched: number
  readonly expected: number | null
  readonly pages_left: number | null
  /** What the report of the stream would count now. */
  readonly counts: Readonly<Record<string, number>>
  /** Permitted requests per second of the team; null while no limit is known. */
  readonly permitted_rate: number | null
}

/** Disposing of it stores what is left; doing so twice is the same. */
export interface RunProgress extends AsyncDisposable {
  /** Logs as the run's logger does, and keeps the lines of level info and above. */
  readonly logger: Logger
  /** Reads `figures` about once a second until their phase is `ended`. */
  watch(teamId: number, stream: StreamName, figures: () => Figures): void
  /** Keeps a line that is in no other log. */
  note(about: { readonly team: string; readonly stream: StreamName }, message: string): void
}

export interface RunProgressOptions {
  /** Of the warehouse. */
  readonly url: string
  /** Null where nothing may be stored. */
  readonly runId: string | null
  readonly teams: readonly { readonly name: string; readonly teamId: number }[]
  readonly clock: Clock
  readonly logger: Logger
  /** The slice of a run that other processes execute too, whose lines are in the same log; nothing is stored once it is lost. */
  readonly claimed?: Pick<ClaimedSlice, 'sliceId' | 'epoch'>
  /** What it stores with, and leaves open; default: a connection of its own. */
  readonly bounded?: BoundedQueries
}

const EVERY_MS = 1_000
const LIMIT_MS = 2_000
const MAX_LINES = 300
/** Nobody comes after the last figures: the warehouse may be slow just then, or have closed the connection. */
const LAST_TRIES = 3

interface Line {
  readonly line: number
  readonly at: string
  readonly level: string
  readonly team_id: number | null
  readonly stream: string | null
  readonly message: string
}

interface Watched {
  readonly teamId: number
  readonly stream: StreamName
  readonly beganAt: string
  readonly figures: () => Figures
  stored: string
}

export function openRunProgress(options: RunProgressOptions): RunProgress {
  const { url, runId, teams, clock, logger, claimed } = options
  if (runId === null) return unwatched(logger)
  const bounded = options.bounded ?? openBoundedQueries(url, 1)
  const watched = new Set<Watched>()
  // A line is identified by this name and its number. Its `line` is assigned when it is stored.
  const writer = randomUUID()
  let lines: Line[] = []
  let count = 0
  let storing: Promise<void> | null = null
  let isStored = false

  const timeNow = () => new Date(clock.now() / 1000).toISOString()

  const addLine = (level: string, [first, second]: readonly unknown[]) => {
    const about =
      typeof first === 'object' && first !== null ? (first as { team?: unknown; stream?: unknown }) : {}
    const message = typeof first === 'string' ? first : second
    if (typeof message !== 'string') return
    count += 1
    lines.push({
      ...{ line: count, at: timeNow(), level, message },
      team_id: teams.find(({ name }) => name === about.team)?.teamId ?? null,
      stream: typeof about.stream === 'string' ? about.stream : null,
    })
    if (lines.length > MAX_LINES) lines.shift()
  }

  /** Never throws. */
  async function store(): Promise<void> {
    const sent: Watched[] = []
    const parts = [...watched].flatMap((part) => {
      const figures = part.figures()
      const text = JSON.stringify(figures)
      if (figures.phase === 'ended') watched.delete(part)
      if (text === part.stored) return []
      part.stored = text
      sent.push(part)
      const times = { began_at: part.beganAt, updated_at: timeNow() }
      return { team_id: part.teamId, stream: part.stream, ...times, ...figures }
    })
    const added = lines
    lines = []
    if (parts.length === 0 && added.length === 0) return
    isStored = true
    const look = { purpose: 'run progress', milliseconds: LIMIT_MS }
    await bounded
      .run(look, async (db) => {
        if (claimed !== undefined && (await isLost(db, claimed))) return
        if (parts.length > 0) await storeParts(db, runId!, parts)
        if (added.length > 0) await storeLines(db, [runId!, writer], added, claimed !== undefined)
      })
      .catch(() => {
        // The next round tries again, for streams that have ended too.
        for (const part of sent) {
          part.stored = ''
          watched.add(part)
        }
        lines = [...added, ...lines].slice(-MAX_LINES)
      })
  }

  const timer = setInterval(() => {
    storing ??= store().finally(() => {
      storing = null
    })
  }, EVERY_MS).unref()

  return {
    logger: copiedTo(addLine, logger),
    note: (about, message) => addLine('info', [about, message]),
    watch(teamId, stream, figures) {
      watched.add({ teamId, stream, figures, beganAt: timeNow(), stored: '' })
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer)
      await storing
      // Without anything left to store, a further try does nothing.
      for (let time = 0; isStored && time < LAST_TRIES; time++) await store()
      if (options.bounded === undefined) await bounded.close()
    },
  }
}

export function unwatched(logger: Logger): RunProgress {
  return { logger, watch: () => {}, note: () => {}, [Symbol.asyncDispose]: async () => {} }
}

const LEVELS = ['info', 'warn', 'error'] as const

/** A logger whose lines also go to `addLine`. */
function copiedTo(addLine: (level: string, args: readonly unknown[]) => void, logger: Logger): Logger {
  const copied = Object.create(logger) as Logger
  for (const level of LEVELS) {
    copied[level] = (...args: unknown[]) => {
      addLine(level, args)
      ;(logger[level] as (...all: unknown[]) => void)(...args)
    }
  }
  return copied
}

async function storeParts(db: Kysely<Warehouse>, runId: string, parts: readonly object[]): Promise<void> {
  await sql`
    insert into intake_ops.run_progress (run_id, team_id, stream, phase, pages, requests, throttled, fetched, expected,
      pages_left, counts, permitted_rate, began_at, updated_at)
    select ${runId}, part.* from jsonb_to_recordset(${JSON.stringify(parts)}::jsonb) as part (team_id smallint,
      stream text, phase text, pages bigint, requests bigint, throttled bigint, fetched bigint, expected bigint,
      pages_left bigint, counts jsonb, permitted_rate double precision, began_at timestamptz, updated_at timestamptz)
    on conflict (run_id, team_id, stream) do update set phase = excluded.phase, pages = excluded.pages,
      requests = excluded.requests, throttled = excluded.throttled, fetched = excluded.fetched,
      expected = excluded.expected, pages_left = excluded.pages_left, counts = excluded.counts,
      permitted_rate = excluded.permitted_rate, began_at = excluded.began_at, updated_at = excluded.updated_at`.execute(
    db,
  )
}

async function storeLines(
  db: Kysely<Warehouse>,
  [runId, writer]: readonly [string, string],
  lines: readonly Line[],
  isShared: boolean,
): Promise<void> {
  // Of two processes that number lines from the same one, the second fails and tries again. A line that an earlier try has
  // stored, although its connection was given up, is skipped.
  const base = isShared
    ? sql`(select coalesce(max(line), 0) from intake_ops.run_log where run_id = ${runId})`
    : sql`0`
  const first = isShared ? lines[0]!.line - 1 : 0
  await sql`
    insert into intake_ops.run_log (run_id, line, writer, number, at, level, team_id, stream, message)
    select ${runId}, ${base} + log_line.line - ${first}, ${writer}, log_line.line, at, level, team_id, stream, message
    from jsonb_to_recordset(${JSON.stringify(lines)}::jsonb) as log_line (line integer,
      at timestamptz, level text, team_id smallint, stream text, message text)
    on conflict (run_id, writer, number) do nothing`.execute(db)
  await sql`
    delete from intake_ops.run_log
    where run_id = ${runId} and line <= (select max(line) from intake_ops.run_log where run_id = ${runId}) - ${MAX_LINES}`.execute(
    db,
  )
}
