/**
 * Moments of the work: triggers of the test that wait at a statement while the test holds a lock.
 *
 * Invariant: a process is at the moment when `reach` returns, in the middle of the transaction, until `release`.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { query } from '../crash/query.ts'
import { addressOf, HOSTS, type HostName } from './namespaces.ts'

export const MOMENTS = ['plan', 'page', 'settle', 'close', 'drain'] as const
export type Moment = (typeof MOMENTS)[number]

const LOCK = 7_301_119
const PATIENCE_MS = 120_000

const TRIGGERS: Readonly<Record<Moment, readonly [table: string, when: string]>> = {
  plan: ['insert on intake_ops.slices for each statement', 'true'],
  page: ['insert on intake_raw.records for each statement', `session like 'intake-sync load worker %'`],
  settle: [
    `update on intake_ops.slices for each row when (new.state = 'done' and new.team_id is not null)`,
    'true',
  ],
  close: ['update on intake_ops.runs for each row when (new.finished_at is not null)', 'true'],
  drain: ['update on intake_raw.inbox for each statement', `session = 'intake-sync drain'`],
}

export async function installMoments(url: string): Promise<void> {
  for (const [at, moment] of MOMENTS.entries()) {
    const [table, when] = TRIGGERS[moment]
    await query(
      url,
      `create function public.moment_${moment}() returns trigger language plpgsql as $$
         declare session text := current_setting('application_name');
         begin
           if ${when} then perform pg_advisory_xact_lock_shared(${LOCK}, ${at}); end if;
           return new;
         end $$`,
    )
    const [event, filter = ''] = table.split(/ (?=when)/)
    await query(
      url,
      `create trigger a_moment_of_${moment} before ${event} ${filter} execute function public.moment_${moment}()`,
    )
  }
}

export interface Reached {
  readonly host: HostName
  release(): Promise<void>
}

/** Waits until a process of a host is at the moment, and keeps it there. */
export async function reach(url: string, moment: Moment): Promise<Reached> {
  const holder = new pg.Client({ connectionString: url, application_name: 'crash test' })
  holder.on('error', () => {})
  await holder.connect()
  const release = () => holder.end().catch(() => {})
  const place = [LOCK, MOMENTS.indexOf(moment)]
  await holder.query('select pg_advisory_lock($1, $2)', place)
  for (const until = Date.now() + PATIENCE_MS; Date.now() < until; await sleep(20)) {
    const { rows } = await holder.query<{ address: string }>(
      `select host(client_addr) as address from pg_locks lock join pg_stat_activity using (pid)
       where locktype = 'advisory' and classid = $1 and objid = $2 and not granted limit 1`,
      place,
    )
    const host = HOSTS.find((name) => addressOf(name) === rows[0]?.address)
    if (host !== undefined) return { host, release }
  }
  await release()
  throw new Error(`no process came to the moment "${moment}"`)
}
