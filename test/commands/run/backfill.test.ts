/** What a backfill does around its run: retention, the key of the analysts' views, and the figures of a scheduled one. */
import pino from 'pino'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { scheduledBackfill } from '../../../src/commands/run/backfill.ts'
import { openScene, type Scene } from '../../e2e/support/scene.ts'
import { runCommand } from '../../support/run-command.ts'

let scene: Scene

beforeAll(async () => {
  scene = await openScene({ patients: 3, forms: 2, packets: 1, documents: 1, responses: 0 })
  await scene.query(`insert into intake.teams (name) values ('default'), ('elsewhere')`)
})
afterAll(() => scene?.[Symbol.asyncDispose]())

const backfill = (env: object, ...words: string[]) =>
  runCommand(['backfill', '--streams', 'packets', ...words], { ...scene.env, ...env })

it('removes what is past its retention, where no serve does, and sets the key of the analysts’ views; a dry run does neither', async () => {
  await scene.query(`
    insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason, status, settled_at)
      select 1, 'patients', n::text, 'x', 'x', 'discarded', now() - n * interval '1 day' from unnest(array[9, 11]) n;
    insert into intake_raw.set_aside (dead_letter_id, body) select id, '{}' from intake_ops.dead_letters;
    insert into intake_ops.runs (kind, status, started_at, finished_at)
      select 'verify', 'succeeded', now() - n * interval '1 day', now() - n * interval '1 day' from unnest(array[19, 21]) n;
    insert into intake_ops.delivery_checks (team_id, config_id, event_id) select team_id, 'c', 'e' from intake.teams`)
  const left = async () => {
    const [row] = await scene.query<{ bodies: number; runs: number; checks: number[] }>(`
      select (select count(*)::int from intake_raw.set_aside) as bodies,
        (select count(*)::int from intake_ops.runs where kind = 'verify') as runs,
        (select array_agg(team_id order by team_id) from intake_ops.delivery_checks) as checks`)
    return row
  }
  const key = async () => (await scene.query('select inner_pad from intake_ops.analytics_key'))[0]
  const before = await key()
  const own = { INTAKE_INBOX_DAYS: '10', INTAKE_RUN_DAYS: '20', INTAKE_ANALYTICS_KEY: 'k'.repeat(32) }
  expect((await backfill(own, '--dry-run')).code).toBe(0)
  expect([await left(), await key()]).toEqual([{ bodies: 2, runs: 2, checks: [1, 2] }, before])
  expect((await backfill(own)).code).toBe(0)
  expect(await key()).not.toEqual(before)
  // Deliveries of teams of other processes are theirs to settle.
  expect(await left()).toEqual({ bodies: 1, runs: 1, checks: [2] })
})

it('retention that fails is a line of the log, and the run has succeeded', async () => {
  await scene.query('alter table intake_raw.set_aside rename to away')
  const ended = await scene.backfill('--streams', 'patients')
  await scene.query('alter table intake_raw.away rename to set_aside')
  expect([ended.code, ended.stderr]).toEqual([
    0,
    expect.stringContaining('expired rows could not be removed'),
  ])
})

it('options that exclude each other are named before anything is read', async () => {
  scene.emulator.control.resetCounters()
  const ended = await backfill({}, '--detach', '--dry-run')
  expect([ended.code, ended.stderr]).toEqual([
    2,
    expect.stringContaining('--detach and --dry-run exclude each other'),
  ])
  expect(scene.emulator.control.requests()).toEqual([])
})

it('a scheduled backfill logs the sums of its streams, as a warning where it needs somebody', async () => {
  const said: string[] = []
  const logger = pino({ base: null }, { write: (line: string) => void said.push(line) })
  const { base_url: baseUrl, teams } = scene.emulator.environments[0]!
  const [first] = teams
  const access = { apiKey: first!.api_key, apiSecret: first!.api_secret, apiVersion: 'v2.1', concurrency: 4 }
  const ended: string[] = []
  const run = () => {
    const place = { url: scene.url, config: { lookbackDays: 3, sweepDays: 8 }, logger, version: '0.0.0' }
    const team = { name: 'default', baseUrl, ...access }
    return scheduledBackfill(place, [team], new AbortController().signal, (name) => ended.push(name))
  }
  const { control } = scene.emulator
  control.updatePatient(control.world().patients.at(0)!.id, { city: 'refused' })
  control.deletePatient(control.world().patients.at(1)!.id)
  await scene.query(`alter table intake.patients add check (city is distinct from 'refused')`)
  await run()
  const [sums] = await scene.query<{ fetched: number; changed: number }>(
    `select sum(fetched)::int as fetched, sum(changed)::int as changed from intake_ops.run_streams
     where run_id = (select max(run_id) from intake_ops.runs)`,
  )
  expect(JSON.parse(said.at(-1)!)).toMatchObject({
    ...{ level: 40, msg: 'scheduled backfill: needs attention', ...sums, deleted: 1, dead_letters: 1 },
  })
  expect(sums!.changed).toBeGreaterThan(2)
  // It deletes no unusual number of records, reads what the settings say, and reports when a team has ended.
  await scene.query(`
    with planted as (
      insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, payload)
      select 1, 'patients', 'extra-' || n, '2020-01-01', '2020-01-01', '', 'run:1 page:1', '{}' from generate_series(1, 51) n
      returning team_id, id, version, hash
    ) insert into intake.patients (team_id, id, _version, _origin, _loaded_at, _hash) select team_id, id, version, 'run:1 page:1', '2020-01-01', hash from planted`)
  await run()
  expect(JSON.parse(said.at(-1)!)).toMatchObject({ deleted: 0 })
  const extra = `from intake.patients where id like 'extra-%' and _deleted_at is null`
  expect(await scene.query(`select count(*)::int as extra ${extra}`)).toEqual([{ extra: 51 }])
  const notes = `select note from intake_ops.run_streams where stream = 'patients' order by run_id desc limit 1`
  expect(await scene.query(notes)).toEqual([{ note: expect.stringContaining('51') }])
  expect(ended).toEqual(['default', 'default'])
  const windows = `select distinct spec -> 'window' as window from intake_ops.slices
    where spec ? 'window' and run_id = (select max(run_id) from intake_ops.runs)`
  expect(await scene.query(windows)).toEqual([
    { window: { lookbackDays: 3, sweepDays: 8, full: false, since: null } },
  ])
})
