/**
 * Verification from the page: start one, watch it, see what differs by id, repair.
 *
 * Invariant: one at a time in a process; it goes on when the page is closed and is stopped when the console closes. What
 * differs is shown by ids and names of columns.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Kysely, sql } from 'kysely'
import { receiptKey, signReceipt, verificationFacts } from '../../operate/receipts.ts'
import { verify } from '../../reconcile/verify/verify.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { Refusal } from '../access.ts'
import { PATIENCE_MS, type Shared } from '../shared.ts'
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
const FRESH_MS = 500
const VIEWER = { config: { role: 'viewer' } } as const
const OPERATOR = { config: { role: 'operator' } } as const

export function serveVerify(app: FastifyInstance, shared: Shared): void {
  const { options, readings, signal, show } = shared
  const { clock, logger, random, url, version } = options
  let job: Job | null = null
  const newest = readings.share(() => readings.look(readNewest), FRESH_MS)

  app.get('/verify', VIEWER, async (request, reply) => {
    const rows = await newest.within(PATIENCE_MS)
    const isRunning = job !== null && job.outcome === null
    const now = clock.now()
    const seconds = job === null ? null : (job.seconds ?? (now - job.startedAt) / 1e6)
    const runs = [...new Set((rows ?? []).map((row) => row.run_id))].sort((a, b) => b - a)
    const data = { rows, runs, job, seconds, teams: options.teams.map(({ name }) => name), all: ALL_TEAMS }
    const page = {
      view: 'verify',
      title: 'Verify',
      waits: isRunning || rows === null,
      from: [rows, job, job?.outcome],
    }
    return show(request, reply, { ...page, data })
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
    const { team, stream } = request.params as Readonly<Record<string, string>>
    const runId = runIn(request)
    const found = await readings.look((db) => readOne(db, runId, team!, stream!))
    if (found === null) throw new Refusal(404, NO_VERIFICATION)
    const data = { found, team, stream, limit: MAX_IDS }
    return show(request, reply, { view: 'differences', title: `${stream} of ${team}: differences`, data })
  })

  app.get('/verify/:run/receipt', VIEWER, async (request, reply) => {
    const runId = runIn(request)
    const [facts, key] = await readings.look(
      async (db) => [await verificationFacts(db, runId), await receiptKey(db)] as const,
    )
    if (facts === null) throw new Refusal(404, NO_VERIFICATION)
    const data = { facts, key, version, at: new Date(clock.now() / 1000) }
    return show(request, reply, { view: 'receipt', title: `Receipt of verification ${runId}`, data })
  })

  app.post('/verify/:run/receipt', OPERATOR, async (request, reply) => {
    const runId = runIn(request)
    const facts = await readings.look((db) => verificationFacts(db, runId))
    if (facts === null) throw new Refusal(404, NO_VERIFICATION)
    await audit(shared, request.visitor!, { action: 'receipt', object: `verification ${runId}` })
    const issuedAt = new Date(clock.now() / 1000)
    const receipt = { kind: 'verification', issuedAt, facts } as const
    const text = await readings.look((db) => signReceipt(db, version, receipt))
    const name = `intake-sync-verification-${runId}.json`
    return reply
      .type('application/json; charset=utf-8')
      .header('content-disposition', `attachment; filename="${name}"`)
      .send(text)
  })

  async function run(running: Job, teams: typeof options.teams): Promise<void> {
    try {
      const { runId, equal, status } = await verify({
        ...{ url, teams, streams: ALL_STREAMS, deep: false, clock, random, logger, signal, version },
        // More deletes than usual wait for a person at the command line.
        repair: running.repair ? { allowMassDelete: false } : null,
        onProgress: (team, stream, progress) => void running.progress.set(`${team}/${stream}`, progress),
        isWatched: true,
      })
      const isGood = equal || (running.repair && status === 'succeeded')
      readings.forget()
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

const NO_VERIFICATION = 'there is no such verification'

function runIn({ params }: FastifyRequest): number {
  const { run } = params as { run: string }
  if (!/^\d{1,9}$/.test(run)) throw new Refusal(404, NO_VERIFICATION)
  return Number(run)
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
