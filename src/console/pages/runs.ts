/**
 * Runs: the history, each run next to the one before it, and how far a running one has come.
 *
 * Invariant: counts, times, names of teams and streams, and lines of the log, which contain no value of a record.
 */
import type { FastifyInstance } from 'fastify'
import { progressOf, readLines, readProgress } from '../../operate/health/run-live.ts'
import { type Run, type RunStream, readRuns } from '../../operate/health/runs.ts'
import { Refusal } from '../access.ts'
import { minute, plural } from '../format.ts'
import { PATIENCE_MS, type Shared } from '../shared.ts'

const VIEWER = { config: { role: 'viewer' } } as const

export function serveRuns(app: FastifyInstance, { options, readings, show }: Shared): void {
  app.get('/runs', VIEWER, async (request, reply) => {
    const runs = await readings.runs.within(PATIENCE_MS)
    const page = { view: 'runs', title: 'Runs', waits: runs === null, from: [runs] }
    return show(request, reply, { ...page, data: { runs } })
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
    if (now.unchanged === 0) return 'nothing was newer than what is stored'
    const whole = now.unchanged === 1 ? 'the one record was' : `all ${plural(now.unchanged, 'record')} were`
    return `nothing to write: ${whole} stored with the same content`
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
