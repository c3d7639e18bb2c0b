/**
 * Plays troubles of three hosts, each at a moment of the work, and judges the warehouse after each.
 *
 *     events and planned runs all the time ─► a process is at the moment ─► trouble of its host ─► everything comes to rest
 *       ─► tables equal the source; nothing acknowledged is missing; each slice was settled once, each run ended once
 *
 * Invariant: the seed decides the data; the host is the one whose process is at the moment.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { query } from '../crash/query.ts'
import { AUDIT } from '../crash/workers.ts'
import { expectedOf, storedTables } from '../e2e/support/expected.ts'
import type { Host } from './hosts.ts'
import { installMoments, type Moment, reach } from './moments.ts'
import { addressOf, type HostName, setLink, setLoss } from './namespaces.ts'
import type { BridgePostgres } from './postgres.ts'
import type { Source } from './source.ts'

export const TROUBLES = ['kill', 'stop', 'link', 'loss', 'postgres', 'clock'] as const
export type Trouble = (typeof TROUBLES)[number]

const AHEAD_MS = 600_000
const LOSS_PERCENT = 20
/** Within which others must have taken over what a host had: its slices, and the events that it was draining. */
const TAKEOVER_SECONDS: Partial<Record<Trouble, number>> = { kill: 5, stop: 20, link: 20 }
const PATIENCE_MS = 180_000
/** A command that plans is ended after this time, as cron would. */
const PLAN_MS = 45_000
const STREAMS = 'patients,forms,packets,documents,responses,messages'
/** Tables whose rows follow from the events of one record alone. */
const OF_EVENTS = /^(?:patient|document|form|question)/

export interface Scene {
  readonly postgres: BridgePostgres
  readonly source: Source
  readonly hosts: readonly Host[]
  /** How long a trouble lasts. */
  readonly seconds: number
  /** True if it is a fault to take over late, as on a machine with nothing else to do. */
  readonly isTimed: boolean
}

export interface Played {
  readonly host: HostName
  /** Until others had the slices of the host; null if it had none. */
  readonly takeoverSeconds: number | null
  /** Until the events that were pending at the trouble were settled. */
  readonly pendingSeconds: number
  readonly faults: readonly string[]
}

/** Loads everything once, and installs what the test looks at. */
export async function prepare({ postgres: { url }, hosts }: Scene): Promise<void> {
  await until('the hosts have migrated', async () => {
    const rows = await query(
      url,
      `select 1 from pg_stat_activity where application_name like 'intake-sync work worker %'`,
    )
    return rows.length === hosts.length
  })
  await query(url, AUDIT)
  await installMoments(url)
  await planAndWait(url, hosts[0]!, ['--full'])
}

export async function play(scene: Scene, moment: Moment, trouble: Trouble): Promise<Played> {
  const { postgres, source, hosts } = scene
  const { url } = postgres
  const stopChanges = source.change()
  const planning = keepPlanning(scene)
  const faults: string[] = []
  const reached = await reach(url, moment)
  const host = hosts.find(({ name }) => name === reached.host)!
  const owners = await ownersOn(url, host.name)
  const [at] = await query<{ now: string }>(url, 'select clock_timestamp()::text as now')
  const begun = performance.now()
  const undo = await strike(scene, host, trouble)
  await reached.release()
  const [takeoverSeconds, pendingSeconds] = await Promise.all([
    owners.length === 0 ? null : secondsUntil(() => isTakenOver(url, owners), begun),
    secondsUntil(() => isSettled(url, at!.now), begun),
    sleep(scene.seconds * 1_000 - (performance.now() - begun)).then(undo),
  ])
  const within = TAKEOVER_SECONDS[trouble] ?? Number.POSITIVE_INFINITY
  if (scene.isTimed && (takeoverSeconds ?? 0) > within)
    faults.push(`slices were taken over after ${takeoverSeconds!.toFixed(1)} s, not ${within}`)
  if (scene.isTimed && pendingSeconds > within)
    faults.push(`pending events were settled after ${pendingSeconds.toFixed(1)} s, not ${within}`)
  stopChanges()
  await planning.stop()
  await source.still()
  await until('nothing is pending', () => isQuiet(url))
  faults.push(...(await differences(scene, OF_EVENTS)))
  faults.push(...(await planAndWait(url, hosts[0]!, ['--full', '--allow-mass-delete'])))
  await until('nothing is pending', () => isQuiet(url))
  faults.push(...(await differences(scene, /./)), ...(await judge(scene)))
  return { host: host.name, takeoverSeconds, pendingSeconds, faults }
}

/** Begins a trouble; the result ends it. */
async function strike(scene: Scene, host: Host, trouble: Trouble): Promise<() => Promise<void>> {
  switch (trouble) {
    case 'kill':
      host.signal('SIGKILL')
      return async () => {}
    case 'stop':
      host.signal('SIGSTOP')
      return async () => host.signal('SIGCONT')
    case 'link':
      setLink(host.name, 'down')
      return async () => setLink(host.name, 'up')
    case 'loss':
      setLoss(host.name, LOSS_PERCENT)
      return async () => setLoss(host.name, 0)
    case 'postgres':
      await scene.postgres.restart()
      return async () => {}
    case 'clock': {
      host.signal('SIGUSR2')
      host.setClock(AHEAD_MS)
      const later = setTimeout(() => host.restart(), (scene.seconds * 1_000) / 3)
      return async () => {
        clearTimeout(later)
        host.setClock(0)
        host.restart()
      }
    }
  }
}

/** Plans one run after another, from each host in turn, until it is stopped. */
function keepPlanning({ postgres: { url }, hosts }: Scene): { stop(): Promise<void> } {
  let isOver = false
  const run = async () => {
    for (let turn = 0; !isOver; turn += 1) {
      // The command may be killed, or lose its host: then another host tries.
      const words = ['--streams', STREAMS, ...(turn % 2 === 0 ? ['--full'] : [])]
      const ended = hosts[turn % hosts.length]!.plan(words, PLAN_MS)
      const code = await Promise.race([ended, sleep(5_000, -1)])
      if (code === 0) while (!isOver && !(await isIdle(url))) await sleep(200)
      else await sleep(500)
    }
  }
  const running = run()
  return {
    async stop() {
      isOver = true
      await running
    },
  }
}

async function planAndWait(url: string, host: Host, words: readonly string[]): Promise<readonly string[]> {
  await until('no run is planned', () => isIdle(url))
  const planned = async () => (await host.plan(['--streams', STREAMS, ...words], PLAN_MS)) === 0
  await until('a run is planned', planned)
  await until('the run has ended', () => isIdle(url))
  const [run] = await query<{ status: string; error: string | null }>(
    url,
    'select status, error from intake_ops.runs order by run_id desc limit 1',
  )
  return run!.status === 'succeeded' ? [] : [`the last run is ${run!.status}: ${run!.error}`]
}

async function ownersOn(url: string, host: HostName): Promise<readonly string[]> {
  const rows = await query<{ owner: string }>(
    url,
    `select distinct owner from intake_ops.slices where state = 'claimed' and right(owner, 8) in (
       select right(application_name, 8) from pg_stat_activity
       where client_addr = $1 and application_name like 'intake-sync work worker %')`,
    [addressOf(host)],
  )
  return rows.map(({ owner }) => owner)
}

async function isTakenOver(url: string, owners: readonly string[]): Promise<boolean> {
  const text = `select from intake_ops.slices where state = 'claimed' and owner = any ($1) limit 1`
  return (await query(url, text, [owners])).length === 0
}

async function isSettled(url: string, before: string): Promise<boolean> {
  const text = `select from intake_raw.inbox where status = 'pending' and received_at <= $1 limit 1`
  return (await query(url, text, [before])).length === 0
}

async function isIdle(url: string): Promise<boolean> {
  const text = `select from intake_ops.slices where state in ('pending', 'claimed') limit 1`
  return await query(url, text).then(
    (rows) => rows.length === 0,
    () => false,
  )
}

async function isQuiet(url: string): Promise<boolean> {
  const [left] = await query<{ busy: boolean }>(
    url,
    `select exists (select from intake_raw.inbox where status = 'pending')
       or exists (select from intake_ops.refetches)
       or exists (select from intake_ops.slices where state in ('pending', 'claimed')) as busy`,
  )
  return !left!.busy
}

async function differences({ postgres: { url }, source }: Scene, which: RegExp): Promise<readonly string[]> {
  const faults: string[] = []
  for (const { name: team, world } of source.teams) {
    const expected = expectedOf(world())
    const stored = await storedTables(url, team, (of, text, values) => query(of, text, values))
    for (const [table, rows] of Object.entries(expected)) {
      if (!which.test(table)) continue
      const is = new Set(stored[table] ?? [])
      const should = new Set(rows)
      const missing = rows.filter((row) => !is.has(row))
      const extra = [...is].filter((row) => !should.has(row))
      if (missing.length + extra.length > 0 || (stored[table] ?? []).length !== rows.length)
        faults.push(
          `${team} ${table}: ${missing.length} rows missing, ${extra.length} extra, such as ${missing[0]} and ${extra[0]}`,
        )
    }
  }
  return faults
}

/** Events, runs and slices of the whole scene so far. */
async function judge({ postgres: { url }, source }: Scene): Promise<readonly string[]> {
  const faults: string[] = []
  const done = new Set(
    (
      await query<{ event_id: string }>(url, `select event_id from intake_raw.inbox where status = 'done'`)
    ).map(({ event_id }) => event_id),
  )
  const missing = source.acknowledged().filter((id) => !done.has(id))
  if (missing.length > 0)
    faults.push(`${missing.length} acknowledged events are missing, such as ${missing[0]}`)
  const odd = await query<{ what: string }>(
    url,
    `select format('slice %s was settled %s times', slice_id, count(e.slice_id)) as what
     from intake_ops.slices slice left join public.ended e using (run_id, slice_id)
     group by slice_id having count(e.slice_id) <> 1
     union all
     select format('run %s ended %s times', run_id, count(e.run_id)) from intake_ops.runs run
     left join (select * from public.ended where slice_id is null) e using (run_id)
     where run_id in (select run_id from intake_ops.slices) group by run_id having count(e.run_id) <> 1
     union all
     select format('%s dead letters wait: %s', count(*), min(reason)) from intake_ops.dead_letters
     where status = 'waiting' having count(*) > 0`,
  )
  return [...faults, ...odd.map(({ what }) => what)]
}

/** Postgres may be away meanwhile. */
async function secondsUntil(condition: () => Promise<boolean>, begun: number): Promise<number> {
  while (!(await condition().catch(() => false))) {
    if (performance.now() - begun > PATIENCE_MS) return Number.POSITIVE_INFINITY
    await sleep(50)
  }
  return (performance.now() - begun) / 1_000
}

async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + PATIENCE_MS; !(await condition().catch(() => false)); await sleep(100))
    if (Date.now() > end) throw new Error(`waited in vain until ${what}`)
}
