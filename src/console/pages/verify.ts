/**
 * Verification from the page: start one, watch it, see what differs by id, repair.
 *
 * Invariant: one at a time in a process; it goes on when the page is closed and is stopped when the console closes. What
 * differs is shown by ids and names of columns.
 */
import type { FastifyInstance } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { verify } from '../../reconcile/verify/verify.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { Refusal } from '../access.ts'
import type { Shared } from '../shared.ts'
import { audit, textIn } from './visits.ts'

interface Job {
  readonly team: string
  readonly repair: boolean
  readonly login: string
  readonly startedAt: number
  /** By `team/stream`. */
  readonly progress: Map<string, { readonly fetched: number; readonly expected: number | null }>
  seconds: number | null
  /** Null while it runs. */
  outcome: { readonly mark: 'good' | 'bad'; readonly text: string; readonly runId: string | null } | null
}

const ALL_TEAMS = '*'
const VIEWER = { config: { role: 'viewer' } } as const
const OPERATOR = { config: { role: 'operator' } } as const

export function serveVerify(app: FastifyInstance, shared: Shared): void {
  const { options, readings, signal, show } = shared
  const { clock, logger, random, url, version } = options
  let job: Job | null = null

  app.get('/verify', VIEWER, async (request, reply) => {
    const rows = await readings.look(readNewest)
    const isRunning = job !== null && job.outcome === null
    const now = clock.now()
    const seconds = job === null ? null : (job.seconds ?? (now - job.startedAt) / 1e6)
    const data = { rows, job, seconds, teams: options.teams.map(({ name }) => name), all: ALL_TEAMS }
    return show(request, reply, { view: 'verify', title: 'Verify', waits: isRunning, data })
  })

  app.post('/verify', OPERATOR, async (request, reply) => {
    const team = textIn(request, 'team')
    const repair = textIn(request, 'repair') === 'yes'
    const teams = options.teams.filter(({ name }) => team === ALL_TEAMS || name === team)
    if (teams.length === 0) throw new Refusal(400, 'no such team has credentials for the service')
    if (job !== null && job.outcome === null) throw new Refusal(409, 'a verification is running')
    const { login } = request.visitor!
    const begun: Job = {
      ...{ team, repair, login, startedAt: clock.now(), progress: new Map() },
      ...{ seconds: null, outcome: null },
    }
    // Taken before the audit is stored, so that two requests at once start one.
    job = begun
    try {
      await audit(shared, request.visitor!, { action: 'verify', object: team, detail: { repair } })
    } catch (error) {
      job = null
      throw error
    }
    void run(begun, teams)
    return reply.redirect('/verify', 303)
  })

  app.get('/verify/:run/:team/:stream', VIEWER, async (request, reply) => {
    const { run: runId, team, stream } = request.params as Readonly<Record<string, string>>
    if (!/^\d{1,9}$/.test(runId!)) throw new Refusal(404, 'there is no such verification')
    const found = await readings.look((db) => readOne(db, Number(runId), team!, stream!))
    if (found === null) throw new Refusal(404, 'there is no such verification')
    const data = { found, team, stream, limit: MAX_IDS }
    return show(request, reply, { view: 'differences', title: `${stream} of ${team}: differences`, data })
  })

  async function run(running: Job, teams: typeof options.teams): Promise<void> {
    try {
      const { runId, equal, status } = await verify({
        ...{ url, teams, streams: ALL_STREAMS, deep: false, clock, random, logger, signal, version },
        // More deletes than usual wait for a person at the command line.
        repair: running.repair ? { allowMassDelete: false } : null,
        onProgress: (team, stream, progress) => void running.progress.set(`${team}/${stream}`, progress),
      })
      const isGood = equal || (running.repair && status === 'succeeded')
      const text = equal ? 'equal' : isGood ? 'differences were repaired' : status.replace('_', ' ')
      running.outcome = { mark: isGood ? 'good' : 'bad', text, runId }
    } catch (error) {
      const { message } = warehouseError(error)
      running.outcome = { mark: 'bad', text: message, runId: null }
    }
    running.seconds = (clock.now() - running.startedAt) / 1e6
    readings.forget()
  }
}

interface Verified {
  readonly team: string
  readonly stream: string
  readonly run_id: number
  readonly is_equal: boolean
  readonly source: number
  readonly warehouse: number
  readonly missing: number
  readonly extra: number
  readonly different: number
  readonly repaired: number
  readonly verified_at: string
  readonly note: string | null
  readonly source_hash: string | null
  readonly warehouse_hash: string | null
}

const FIGURES = sql`team.name as team, stream, run_id::int as run_id, is_equal, source::float8 as source,
  warehouse::float8 as warehouse, missing::int as missing, extra::int as extra, different::int as different,
  repaired::int as repaired, to_json(verified_at) #>> '{}' as verified_at, note, source_hash, warehouse_hash`

async function readNewest(db: Kysely<Warehouse>): Promise<readonly Verified[]> {
  const { rows } = await sql<Verified>`
    select distinct on (team.name, stream) ${FIGURES}
    from intake_ops.verifications join intake.teams team using (team_id)
    where verified_at > now() - interval '60 days'
    order by team.name, stream, run_id desc`.execute(db)
  return rows
}

/** Of each kind; the rest is in intake_ops.verifications. */
const MAX_IDS = 500

interface Differences extends Verified {
  readonly missing_ids: readonly string[]
  readonly extra_ids: readonly string[]
  readonly different_ids: readonly { readonly id: string; readonly fields: readonly string[] }[]
}

async function readOne(
  db: Kysely<Warehouse>,
  runId: number,
  team: string,
  stream: string,
): Promise<Differences | null> {
  const { rows } = await sql<Differences>`
    select ${FIGURES}, missing_ids[1:${sql.lit(MAX_IDS)}] as missing_ids, extra_ids[1:${sql.lit(MAX_IDS)}] as extra_ids,
      jsonb_path_query_array(different_ids, ${sql.lit(`$[0 to ${MAX_IDS - 1}]`)}) as different_ids
    from intake_ops.verifications join intake.teams team using (team_id)
    where run_id = ${runId} and team.name = ${team} and stream = ${stream}`.execute(db)
  return rows[0] ?? null
}
