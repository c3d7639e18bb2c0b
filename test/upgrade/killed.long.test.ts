/** From version 0.1 to this one, killed at each step: the process, then its session in Postgres. The next migrate goes on. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { migrate, migrationStatus } from '../../src/analytics/migrate.ts'
import { migrationFiles } from '../../src/warehouse/migrations.ts'
import { query } from '../crash/query.ts'
import { startCli } from '../support/cli.ts'
import { cleanUp, openEmbedded, temporaryDirectory } from '../support/embedded-fixture.ts'
import { restore } from './restore.ts'

/** What a migrate waits for at the step where it is killed. */
const LOCK = 7_654_321
/** Statements after the migrations: views that are made again, privileges that are granted. */
const AFTERWARDS = ['CREATE VIEW', 'GRANT']

let server: Awaited<ReturnType<typeof openEmbedded>>
let url: string
let pending: readonly string[]

beforeAll(async () => {
  server = await openEmbedded({ dataDir: temporaryDirectory(), unsafe: true })
  url = server.url
  await restore(url)
  pending = (await migrationStatus(url)).pending
  const last = Object.keys(await migrationFiles.getMigrations())
    .sort()
    .at(-1)!
  await query(
    url,
    `create table public.stop (place text);
     insert into public.stop values ('');
     create function public.stop_at(reached text) returns void language plpgsql as $$
     begin
       if reached = (select place from public.stop) then perform pg_advisory_xact_lock(${LOCK}); end if;
     end $$;
     create function public.stop_before_row() returns trigger language plpgsql as $$
     begin
       perform public.stop_at(new.name);
       return new;
     end $$;
     create trigger stop before insert on intake_ops.migrations for each row execute function public.stop_before_row();
     create function public.stop_after_ddl() returns event_trigger language plpgsql as $$
     begin
       if exists (select from intake_ops.migrations where name = '${last}') then perform public.stop_at(tg_tag); end if;
     end $$;
     create event trigger stop on ddl_command_end execute function public.stop_after_ddl()`,
  )
})

afterAll(async () => {
  await server?.stop()
  await cleanUp()
})

/** Stops a migrate at a place, and ends it with `kill`, which is given the number of its session's process. */
async function killAt(place: string, start: () => Promise<unknown>, kill: (backend: number) => void) {
  const holder = new pg.Client({ connectionString: url, application_name: 'upgrade test' })
  holder.on('error', () => undefined)
  await holder.connect()
  await holder.query('select pg_advisory_lock($1)', [LOCK])
  await holder.query('update public.stop set place = $1', [place])
  const ended = start()
  const backend = await sessionAt(holder)
  kill(backend)
  await holder.end()
  await ended
  await gone(backend)
}

async function sessionAt(client: pg.Client): Promise<number> {
  for (;;) {
    const { rows } = await client.query<{ pid: number }>(
      `select pid from pg_locks where locktype = 'advisory' and objid = $1 and not granted`,
      [LOCK],
    )
    if (rows[0] !== undefined) return rows[0].pid
    await sleep(10)
  }
}

/** Also waits until the server has recovered, where the kill made it restart. */
async function gone(backend: number): Promise<void> {
  await expect
    .poll(() =>
      query(url, 'select from pg_stat_activity where pid = $1', [backend]).then(
        (rows) => rows.length,
        () => -1,
      ),
    )
    .toBe(0)
}

const KEPT = ['intake.patients', 'intake.responses', 'intake.response_answers', 'intake.export_cells']
const OTHERS = [
  'intake_raw.records',
  'intake_raw.inbox',
  'intake_ops.dead_letters',
  'intake_ops.webhook_secrets',
]
const rows = () =>
  query(
    url,
    [...KEPT, ...OTHERS].map((name) => `select '${name}' as name, count(*) from ${name}`).join(' union all '),
  )
const schema = () =>
  query(
    url,
    `select table_schema, table_name, column_name, data_type from information_schema.columns
     where table_schema like 'intake%' order by 1, 2, 3`,
  )

it('a migrate that is killed at any step loses nothing, and the next one goes on', {
  timeout: 600_000,
}, async () => {
  expect(pending.length).toBeGreaterThan(15)
  const [rowsBefore, schemaBefore] = [await rows(), await schema()]
  for (const place of [...pending, ...AFTERWARDS]) {
    const running: { child?: ReturnType<typeof startCli> } = {}
    const inProcess = () => {
      running.child = startCli(['migrate'], { DATABASE_URL: url, LOG_LEVEL: 'error' })
      return running.child.ended
    }
    await killAt(place, inProcess, () => running.child!.kill('SIGKILL'))
    const failing = () => expect(migrate(url), place).rejects.toMatchObject({ verdict: 'retry' })
    await killAt(place, failing, (backend) => process.kill(backend, 'SIGKILL'))
    expect(await rows(), place).toEqual(rowsBefore)
    if (AFTERWARDS.includes(place)) continue
    expect((await migrationStatus(url)).pending, place).toEqual(pending)
    expect(await schema(), place).toEqual(schemaBefore)
  }
  await query(url, `update public.stop set place = ''`)
  expect(await migrate(url)).toMatchObject({ pending: [], notes: [], rolesNote: null })
  expect(await rows()).toEqual(rowsBefore)
  // As an installation that was never interrupted, but for the days of the inbox and the views of each form.
  const own = `select format('%s.%s.%s %s', table_schema, table_name, column_name, data_type) as "column"
    from information_schema.columns c where table_schema like 'intake%' and table_name !~ '^inbox_\\d+$'
      and not exists (select from intake_raw.wide_views w where w.view_name = c.table_name)
    order by 1`
  const upgraded = await query(url, own)
  await query(url, 'create database fresh')
  const fresh = new URL(url)
  fresh.pathname = '/fresh'
  await migrate(fresh.href)
  expect(upgraded).toEqual(await query(fresh.href, own))
})
