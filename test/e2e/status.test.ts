/** `migrate` and `status` as defined by the contract. */
import { describe, expect, it } from 'vitest'
import { ALL_STREAMS, STREAMS } from '../../src/streams/catalogue.ts'
import { runCli } from '../support/cli.ts'
import { runCommand } from '../support/run-command.ts'
import { openScene, openWarehouse, query, type Scene } from './support/scene.ts'

describe('migrate', () => {
  it('migrates an empty database, reports what it did, and does nothing the next time', async () => {
    await using warehouse = await openWarehouse({ empty: true })
    const env = { DATABASE_URL: warehouse.url }
    const behind = await runCli(['migrate', '--status'], env)
    expect(behind.code).toBe(4)
    expect(behind.stdout).toMatch(/^pending {2}0001_ops$/m)
    expect(await schemas(warehouse.url)).toEqual([])

    const first = await runCommand(['migrate'], env)
    expect(first.code).toBe(0)
    expect(first.stdout).toMatch(/^applied 0001_ops$/m)
    expect(await schemas(warehouse.url)).toContain('intake')

    const status = await runCommand(['migrate', '--status', '--json'], env)
    expect(status.code).toBe(0)
    expect(JSON.parse(status.stdout)).toMatchObject({ up_to_date: true, pending: [] })
    // Nothing is stale where nothing is; only a limit asks for something.
    const none = await runCommand(['status', '--json'], env)
    expect([none.code, JSON.parse(none.stdout)]).toEqual([
      0,
      { stale: [], streams: [], teams: [], slices_waiting: [] },
    ])
    expect((await runCommand(['status', '--max-age', '1d'], env)).code).toBe(4)

    const again = await runCommand(['migrate', '--json'], env)
    expect(again.code).toBe(0)
    expect(JSON.parse(again.stdout)).toMatchObject({ migrated: [] })
  })

  it('run by several processes at once is done once and succeeds for all', async () => {
    await using warehouse = await openWarehouse({ empty: true })
    const env = { DATABASE_URL: warehouse.url }
    const runs = await Promise.all([1, 2, 3].map(() => runCli(['migrate', '--json'], env)))
    expect(runs.map(({ code }) => code)).toEqual([0, 0, 0])
    const migrated = runs.map(({ stdout }) => (JSON.parse(stdout) as { migrated: string[] }).migrated.length)
    expect(migrated.filter((count) => count > 0)).toHaveLength(1)
  })
})

describe('a database with pending migrations', () => {
  it('is rejected by status with 1 and a hint, and migrated by backfill', async () => {
    await using scene = await openScene({}, { empty: true })
    for (const words of [['status'], ['status', '--json', '--max-age', '1d']]) {
      const run = await runCommand(words, scene.env)
      expect(run.code).toBe(1)
      if (words.includes('--json')) expect(JSON.parse(run.stdout).error.code).toBe('database_behind')
      else expect(run.stdout).toBe('')
      expect(run.stderr).toMatch(/the database has no schema of intake-sync yet/)
      expect(run.stderr).toContain('intake-sync migrate')
    }
    expect(await schemas(scene.url)).toEqual([])
    expect((await scene.backfill()).code).toBe(0)
    expect((await runCommand(['status'], scene.env)).code).toBe(0)
  })
})

describe('status', () => {
  it('reports rows, deletes and the last run of each stream, without the service’s variables', async () => {
    await using scene = await openScene()
    const { control } = scene.emulator
    expect((await scene.backfill()).code).toBe(0)
    control.deletePatient(control.world().patients.at(0)!.id)
    expect((await scene.backfill()).code).toBe(0)
    const run = await runCli(['status', '--json'], { DATABASE_URL: scene.url })
    expect(run).toMatchObject({ code: 0, stderr: '' })
    const { streams } = JSON.parse(run.stdout) as { streams: Record<string, unknown>[] }
    expect(streams.map(({ stream }) => stream)).toEqual(ALL_STREAMS.map(({ name }) => name))
    expect(streams[0]).toMatchObject({
      team: 'default',
      rows: 44,
      deleted: 1,
      last_run_status: 'succeeded',
      dead_letters: 0,
      drift: 0,
      inbox: 0,
    })
    const text = await runCommand(['status'], { DATABASE_URL: scene.url })
    expect(text.stdout).toMatch(/^default +patients +44 +1 /m)
  })

  it('reports the pending events of the inbox, and whether webhooks arrive, for each team', async () => {
    await using scene = await openScene({ patients: 0 })
    expect((await scene.backfill()).code).toBe(0)
    await query(
      scene.url,
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, source, body, status)
       select team_id, event.id, '\\x00', current_date, now() - event.age::interval, event.source, '{}', event.status
       from intake.teams, (values ('a', 'patient', 'pending', '90 s'), ('b', 'patient', 'done', '1 h'), ('c', 'canary', 'pending', '2 s'))
         as event (id, source, status, age)`,
    )
    await query(
      scene.url,
      `insert into intake_ops.refetches (team_id, stream, id, reason, origin) select team_id, 'patients', 'x', 'partial', 'event:x' from intake.teams`,
    )
    await query(
      scene.url,
      `insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason)
       select team_id, 'inbox', 'x', 'event:x', 'no id' from intake.teams`,
    )
    const { streams, teams } = JSON.parse(
      (await runCommand(['status', '--json'], { DATABASE_URL: scene.url })).stdout,
    ) as { streams: { stream: string; inbox: number }[]; teams: unknown }
    expect(teams).toEqual([
      {
        team: 'default',
        inbox: {
          pending: 2,
          oldest_pending_at: expect.stringMatching(/^\d{4}-/),
          oldest_pending_seconds: expect.closeTo(120, -2),
          dead_letters: 1,
          drift: 0,
        },
        refetches: 1,
        questions_waiting: [],
        webhooks: {
          verdict: 'unknown',
          reason: 'no webhook is known, and no event has arrived yet',
          last_event_at: null,
          events_last_day: 0,
          events_expected_a_day: null,
          deliveries_missing: 0,
          deliveries_failed: 0,
        },
      },
    ])
    expect(streams.find(({ stream }) => stream === 'patients')!.inbox).toBe(1)
    const text = await runCommand(['status'], { DATABASE_URL: scene.url })
    expect(text.stdout).toMatch(/^default +2 +\d+ (?:s|min) +1 +1 +- +unknown +no webhook is known/m)
    expect(text.output).not.toContain('canary')
  })

  it('looks for deliveries in the inbox that are as old as its events may be, and no older', async () => {
    await using warehouse = await openWarehouse()
    await query(
      warehouse.url,
      `insert into intake.teams (name) values ('default');
       insert into intake_ops.webhook_secrets (team_id, config_id, secret, created_at)
         select team_id, 'c', '', now() - interval '90 days' from intake.teams;
       insert into intake.webhook_deliveries
         (team_id, id, event_id, webhook_config_id, status, response_status_code, created_at, _version, _origin)
         select team_id, 'd' || days, 'e' || days, 'c', 'x', 200, now() - make_interval(days => days), now(), 'test'
         from intake.teams, unnest('{2,9,20,60}'::int[]) as days`,
    )
    const missing = async (days: string) => {
      const run = await runCommand(['status', '--json'], {
        DATABASE_URL: warehouse.url,
        INTAKE_INBOX_DAYS: days,
      })
      return JSON.parse(run.stdout).teams[0].webhooks.deliveries_missing
    }
    expect([await missing('1'), await missing('10'), await missing('30'), await missing('80')]).toEqual([
      0, 2, 3, 4,
    ])
  })

  it('--max-age exits with 4 when a stream’s last success is older or missing; a failed run does not count', async () => {
    await using scene = await openScene()
    expect((await maxAge(scene, '26h')).code).toBe(4)
    expect((await scene.backfill()).code).toBe(0)
    expect((await maxAge(scene, '26h')).code).toBe(0)
    await query(scene.url, "update intake_ops.runs set finished_at = finished_at - interval '27 hours'")
    for (const age of ['26h', '3600']) expect((await maxAge(scene, age)).code, age).toBe(4)
    const text = await runCommand(['status', '--max-age', '26h'], scene.env)
    expect([text.code, text.stdout.match(/^stale: .*$/gm)]).toEqual([
      4,
      STREAMS.map(({ name }) => `stale: default/${name}`),
    ])
    expect((await maxAge(scene, '2d')).code).toBe(0)
    const failed = await runCommand(['backfill'], { ...scene.env, INTAKE_API_SECRET: 'wrong' })
    expect([failed.code, failed.stdout.includes('next:')]).toEqual([1, false])
    expect((await maxAge(scene, '26h')).code).toBe(4)
    expect((await scene.backfill('--streams', 'patients')).code).toBe(0)
    const run = await maxAge(scene, '26h')
    expect(run.code).toBe(4)
    const { stale } = JSON.parse(run.stdout) as { stale: { stream: string }[] }
    expect(stale.map(({ stream }) => stream)).toEqual(STREAMS.map(({ name }) => name).slice(1))
  })
})

function maxAge(scene: Scene, age: string) {
  return runCommand(['status', '--max-age', age, '--json'], scene.env)
}

async function schemas(url: string): Promise<readonly string[]> {
  const rows = await query<{ name: string }>(
    url,
    "select nspname as name from pg_namespace where nspname like 'intake%'",
  )
  return rows.map(({ name }) => name)
}
