/**
 * Two versions and one warehouse: this one, and a later one that is this one with further migrations.
 *
 * Processes of this version that run while the later one migrates keep working, or say what they wait for; commands that
 * start afterwards refuse.
 */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect, openScene, query, type Scene } from '../e2e/support/scene.ts'
import { createWebhook, startServing, until } from '../e2e/support/serving.ts'
import { builtFile } from '../support/built.ts'
import { runCli, startCli } from '../support/cli.ts'
import { runCommand } from '../support/run-command.ts'

/** What a later version adds: columns and tables that this one does not know, filled in batches. */
const EXPAND = `alter table intake.patients add column note text;
comment on column intake.patients.note is 'Invented.';
alter table intake_raw.inbox add column lane text not null default 'one';
create table intake_ops.later (id int primary key);`
const BATCHES = `-- In batches: the notes of records that are there.
with portion as (
  select team_id, id from intake.patients where note is null order by team_id, id limit 5 for update
)
update intake.patients own set note = 'filled' from portion where own.team_id = portion.team_id and own.id = portion.id;`
/** What no version may do as long as the one before it runs. */
/** Of a column that the drain writes and no view reads. */
const BREAK = 'alter table intake.patients rename column _extra to _more;'

const folders: string[] = []

/** The build of this version with further migrations and one other view. */
function laterVersion(migrations: Readonly<Record<string, string>>) {
  const dist = dirname(builtFile('cli.js'))
  const folder = `${dirname(dist)}.later-${process.pid}-${folders.length}`
  folders.push(folder)
  mkdirSync(folder)
  for (const name of ['dist', 'package.json'])
    cpSync(join(dirname(dist), name), join(folder, name), { recursive: true })
  cpSync(join(import.meta.dirname, '../../sql'), join(folder, 'sql'), { recursive: true })
  for (const [name, text] of Object.entries(migrations))
    writeFileSync(join(folder, `sql/migrations/${name}.sql`), text)
  const view = join(folder, 'sql/views/20_teams.sql')
  writeFileSync(view, `${VIEW}\n`)
  const run = promisify(execFile)
  return async (words: readonly string[], env: Scene['env']) => {
    const options = { env: { PATH: process.env.PATH, LOG_LEVEL: 'error', ...env }, cwd: folder }
    const child = run(process.execPath, [join(folder, 'dist/cli.js'), ...words], options)
    return await child.then(
      ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
      (error: { code: number; stdout: string; stderr: string }) => error,
    )
  }
}

const VIEW = `create or replace view intake_analytics.teams with (security_barrier = true) as
select team_id, name as team, environment from intake.teams
where team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);
comment on view intake_analytics.teams is 'Of the later version.';`

const patient = (scene: Scene, at: number) => scene.emulator.control.world().patients.at(at)!.id

/** A change at the service that its webhook brings. */
async function brought(scene: Scene, at: number, city: string): Promise<void> {
  scene.emulator.control.updatePatient(patient(scene, at), { city })
  const stored = () =>
    query(scene.url, 'select from intake.patients where id = $1 and city = $2', [patient(scene, at), city])
  await until(`${city} is stored`, async () => (await stored()).length === 1)
}

afterAll(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

describe('a later version that adds to the schema', { timeout: 300_000 }, () => {
  let scene: Scene
  let later: ReturnType<typeof laterVersion>
  beforeAll(async () => {
    scene = await openScene({ patients: 60 })
    later = laterVersion({ '9001_expand': EXPAND, '9002_notes': BATCHES })
  })
  afterAll(() => scene[Symbol.asyncDispose]())

  it('refuses a warehouse of this version, and says what it would do to it', async () => {
    expect((await scene.backfill()).code).toBe(0)
    const refused = await later(['status'], scene.env)
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(refused.stderr).toMatch(/behind this version by 2 migration\(s\)[\s\S]*run intake-sync migrate/)
    const { statements } = JSON.parse((await later(['migrate', '--plan', '--json'], scene.env)).stdout)
    expect(statements).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ lock: 'ACCESS EXCLUSIVE', table: 'intake.patients', in_batches: false }),
        expect.objectContaining({ migration: '9002_notes', table: 'intake.patients', in_batches: true }),
      ]),
    )
    const { stdout } = await later(['migrate', '--plan'], scene.env)
    expect(stdout.replace(/\s+/g, ' ')).toContain(
      'one transaction before and after each migration that runs in batches (9002_notes)',
    )
    expect((await runCommand(['migrate', '--status'], scene.env)).code).toBe(0)
  })

  it('migrates while this one serves and backfills: both go on, also where the migrate is killed in a batch', async () => {
    await using serving = await startServing(scene.env).then((process) =>
      Object.assign(process, { [Symbol.asyncDispose]: async () => void (await process.stop()) }),
    )
    await createWebhook(scene.env, serving.document.webhooks!)
    scene.emulator.control.setFaults('slow=1:100')
    const asked = scene.emulator.control.requests().length
    const run = startCli(['backfill', '--full', '--json'], scene.env)
    await until('the backfill reads', () => scene.emulator.control.requests().length > asked + 2)

    // The batch with this record waits for a lock of the test.
    const lock = 7_654_322
    await query(
      scene.url,
      `create function public.stop() returns trigger language plpgsql as $$
       begin
         if to_jsonb(new) ->> 'note' is not null then perform pg_advisory_xact_lock(${lock}); end if;
         return new;
       end $$`,
    )
    await query(
      scene.url,
      `do $$ begin execute format('create trigger stop before update on intake.patients for each row when (new.id = %L)
         execute function public.stop()', (select id from intake.patients order by team_id, id offset 22 limit 1)); end $$`,
    )
    const holder = await connect(scene.url)
    await holder.query('select pg_advisory_lock($1)', [lock])
    const migrating = later(['migrate'], scene.env)
    const waiting = `select pid from pg_stat_activity where application_name = 'intake-sync migrate' and wait_event = 'advisory'
      and datname = current_database()`
    await until('a batch waits', async () => (await query(scene.url, waiting)).length === 1)
    // Its session dies with it.
    await query(scene.url, `select pg_terminate_backend(pid) from (${waiting}) w`)
    const killed = await migrating
    expect(killed).toMatchObject({ code: 1 })
    expect(killed.stderr).toMatch(/migration 9002_notes failed:[\s\S]*what is done stays/)
    await holder.end()
    const filled = await query<{ count: number }>(
      scene.url,
      'select count(note)::int as count from intake.patients',
    )
    expect(filled).toEqual([{ count: 20 }])
    expect(JSON.parse((await later(['migrate', '--status', '--json'], scene.env)).stdout)).toMatchObject({
      pending: ['9002_notes'],
    })
    await brought(scene, 3, 'Between')

    expect(await later(['migrate'], scene.env)).toMatchObject({ code: 0 })
    expect(await query(scene.url, 'select from intake.patients where note is null')).toEqual([])
    await brought(scene, 4, 'Afterwards')
    expect(await serving.get('/readyz')).toMatchObject({ status: 200 })
    scene.emulator.control.setFaults('')
    expect(await run.ended).toMatchObject({ code: 0 })
    const view = `select obj_description('intake_analytics.teams'::regclass) as text`
    expect(await query(scene.url, view)).toEqual([{ text: 'Of the later version.' }])
    expect(await later(['backfill'], scene.env)).toMatchObject({ code: 0 })
    expect(await later(['verify'], scene.env)).toMatchObject({ code: 0 })
  })

  it.each(['migrate', 'backfill', 'serve', 'verify', 'status'])(
    'lets no %s of this version begin, which says which backup a downgrade needs',
    async (command) => {
      const refused = await runCli([command], scene.env)
      expect(refused.code).toBe(1)
      expect(refused.stderr).toContain('migrated by a newer version (9001_expand, 9002_notes)')
      expect(refused.stderr.replace(/\s+/g, ' ')).toMatch(
        /a downgrade is not possible.*restore a backup.*before \d{4}-\d\d-\d\dT/,
      )
    },
  )
})

it('a later version that breaks the schema stops the drain of this one with a clear message, and no event is lost', {
  timeout: 300_000,
}, async () => {
  await using scene = await openScene({ patients: 20 })
  const later = laterVersion({ '9001_break': BREAK })
  expect((await scene.backfill()).code).toBe(0)
  const serving = await startServing(scene.env)
  try {
    await createWebhook(scene.env, serving.document.webhooks!)
    await brought(scene, 1, 'Before')
    expect((await later(['migrate'], scene.env)).stdout).toContain('9001_break')
    scene.emulator.control.updatePatient(patient(scene, 2), { city: 'Meanwhile' })
    await until('the drain says so', async () =>
      (await serving.get('/readyz?part=drain')).text.includes('migrated by a newer'),
    )
    expect(await serving.get('/readyz?part=drain')).toMatchObject({ status: 503 })
    expect(serving.running.errors()).toContain(
      'events are not drained: the tables of the warehouse are not those of this version',
    )
    // Events are received all the same, and wait.
    expect(await serving.get('/readyz')).toMatchObject({ status: 200 })
    const events = 'select status, count(*)::int from intake_raw.inbox group by 1 order by 1'
    expect(await query(scene.url, events)).toContainEqual({ status: 'pending', count: 1 })
    await query(scene.url, 'alter table intake.patients rename column _more to _extra')
    await brought(scene, 3, 'Back')
    expect(
      await query(scene.url, 'select city from intake.patients where id = $1', [patient(scene, 2)]),
    ).toEqual([{ city: 'Meanwhile' }])
    expect(await query(scene.url, events)).toEqual([{ status: 'done', count: expect.any(Number) }])
  } finally {
    await serving.stop()
  }
})
