/** Pages that only read: overview, streams, runs, health. */
import type { FastifyInstance } from 'fastify'
import type { Run, RunStream } from '../../operate/health/runs.ts'
import { readRuns } from '../../operate/health/runs.ts'
import { Refusal } from '../access.ts'
import { minute, plural } from '../format.ts'
import type { Shared } from '../shared.ts'
import { readFindings, runBars } from './streams.ts'

/** A page that is not ready by then says so, and loads again by itself. */
const PATIENCE_MS = 700
const VIEWER = { config: { role: 'viewer' } } as const

export function servePages(app: FastifyInstance, shared: Shared): void {
  const { options, readings, show } = shared

  app.get('/', VIEWER, async (request, reply) => {
    const teams = await readings.overview.within(PATIENCE_MS)
    const page = { view: 'overview', title: 'Overview', waits: teams === null }
    return show(request, reply, { ...page, data: { teams } })
  })

  app.get('/streams', VIEWER, async (request, reply) => {
    const [status, history] = await Promise.all([
      readings.status.within(PATIENCE_MS),
      readings.history.within(PATIENCE_MS),
    ])
    const teams = status === null ? null : [...new Set(status.teams.map(({ team }) => team))]
    const of = (team: string, stream: string) =>
      history?.find((each) => each.team === team && each.stream === stream) ?? null
    const data = { teams, status, of, runBars, maxAgeSeconds: options.maxAgeHours * 3_600 }
    const waits = status === null || history === null
    return show(request, reply, { view: 'streams', title: 'Streams', waits, data })
  })

  app.get('/streams/:team/:stream', VIEWER, async (request, reply) => {
    const { team, stream } = request.params as { team: string; stream: string }
    const history = (await readings.history.get()).filter(
      (each) => each.team === team && each.stream === stream,
    )
    const findings = await readings.look((db) => readFindings(db, team, stream))
    const data = { team, stream, runs: history[0]?.runs.toReversed() ?? [], ...findings }
    return show(request, reply, { view: 'stream', title: `${stream} of ${team}`, data })
  })

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
    const data = { run, before, rows: comparedWith(run, before), options: optionsOf(run) }
    return show(request, reply, { view: 'run', title: `Run ${id}`, data })
  })

  app.get('/health', VIEWER, async (request, reply) => {
    const [checked, server] = await Promise.all([
      readings.checks.within(PATIENCE_MS),
      readings.server.within(PATIENCE_MS),
    ])
    const { settings, version } = options
    const data = { checked, server, settings, version, node: process.version }
    const waits = checked === null || server === null
    return show(request, reply, { view: 'health', title: 'Health', waits, data })
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
