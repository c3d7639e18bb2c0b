/** A warehouse that version 0.1 left, brought up to date by today's `migrate` (the dump is made by make-fixture.ts). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { keyOf, open, placeOf } from '../../src/warehouse/webhook-secrets.ts'
import { makeLogin } from '../analytics/logins.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import { configOf, teamOf, teamsIn } from '../e2e/support/teams.ts'
import type { Ended } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { FIXTURE_KEY, FIXTURE_TEAMS } from './history-of-fixture.ts'
import { restore } from './restore.ts'

/** Tables whose rows no upgrade may change, lose or add to: all of `intake`, and these. */
const KEPT = [
  'intake_raw.records',
  'intake_raw.record_history',
  'intake_ops.runs',
  'intake_ops.run_streams',
  'intake_ops.checkpoints',
  'intake_ops.dead_letters',
  'intake_ops.problems',
  'intake_ops.drift',
  'intake_ops.erasures',
  'intake_ops.verifications',
  'intake_ops.access',
  'intake_ops.webhook_secrets',
  'intake_ops.analytics_key',
]

type Rows = Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>

let warehouse: TestDatabase
let before: Rows
let inboxBefore: unknown
let viewsBefore: unknown
let migrated: Ended

const run = (...words: string[]) => runCommand(words, { DATABASE_URL: warehouse.url, LOG_LEVEL: 'error' })

beforeAll(async () => {
  warehouse = await openWarehouse({ empty: true })
  await restore(warehouse.url)
  before = await rowsOf(warehouse.url, [...(await tablesOfIntake(warehouse.url)), ...KEPT])
  inboxBefore = await inboxOf(warehouse.url)
  viewsBefore = await query(warehouse.url, COUNTED_VIEWS)
  migrated = await run('migrate', '--json')
})

afterAll(() => warehouse.drop())

async function tablesOfIntake(url: string): Promise<string[]> {
  const tables = await query<{ name: string }>(
    url,
    "select 'intake.' || tablename as name from pg_tables where schemaname = 'intake' order by 1",
  )
  return tables.map(({ name }) => name)
}

async function rowsOf(url: string, names: readonly string[]): Promise<Rows> {
  const tables: Record<string, Record<string, unknown>[]> = {}
  for (const name of names) {
    const rows = await query<{ row: Record<string, unknown> }>(
      url,
      `select to_jsonb(t) as row from ${name} t order by to_jsonb(t)::text`,
    )
    tables[name] = rows.map(({ row }) => row)
  }
  return tables
}

const inboxOf = (url: string) =>
  query(
    url,
    `select team_id, event_id, encode(body, 'base64') as body, status, attempts, seq from intake_raw.inbox order by seq`,
  )

const COUNTED_VIEWS = `select (select count(*) from intake_analytics.patients) as patients,
  (select count(*) from intake_analytics.responses) as responses,
  (select count(*) > 0 from intake_analytics.answers where choice is not null) as shows_answers`

/** `rows` with the columns that they had in `like`. */
function narrowed(rows: Rows, like: Rows): Rows {
  const narrow = (name: string, row: Readonly<Record<string, unknown>>) => {
    const columns = Object.keys(like[name]![0] ?? {})
    return columns.length === 0 ? row : Object.fromEntries(columns.map((column) => [column, row[column]]))
  }
  const order = (a: unknown, b: unknown) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)
  return Object.fromEntries(
    Object.entries(rows).map(([name, all]) => [name, all.map((row) => narrow(name, row)).sort(order)]),
  )
}

describe('migrate of a warehouse that version 0.1 left', () => {
  it('brings it up to date, and a second migrate has nothing to do', async () => {
    expect(migrated).toMatchObject({ code: 0 })
    expect((await run('migrate', '--status')).code).toBe(0)
    expect(JSON.parse((await run('migrate', '--json')).stdout)).toMatchObject({ migrated: [] })
  })

  it('changes no row of intake, of the stored payloads and of the bookkeeping', async () => {
    const after = await rowsOf(warehouse.url, Object.keys(before))
    expect(narrowed(after, before)).toEqual(narrowed(before, before))
    for (const name of ['patients', 'responses', 'packet_responses', 'export_cells', 'response_answers'])
      expect(before[`intake.${name}`]!.length, name).toBeGreaterThan(0)
    for (const name of ['dead_letters', 'drift', 'erasures', 'problems', 'verifications'])
      expect(before[`intake_ops.${name}`]!.length, name).toBeGreaterThan(0)
  })

  it('changes no event of the inbox, pending ones included', async () => {
    expect(await inboxOf(warehouse.url)).toEqual(inboxBefore)
    expect(inboxBefore).toEqual(expect.arrayContaining([expect.objectContaining({ status: 'pending' })]))
    expect(inboxBefore).toEqual(expect.arrayContaining([expect.objectContaining({ status: 'dead' })]))
  })

  it('leaves the roles with their rights: an analyst sees the views, of the teams that were granted, and no table', async () => {
    expect(await query(warehouse.url, COUNTED_VIEWS)).toEqual(viewsBefore)
    const analyst = await makeLogin(warehouse.url, 'intake_analyst')
    const views = await query<{ name: string }>(
      warehouse.url,
      `select format('%I.%I', schemaname, viewname) as name from pg_views where schemaname in ('intake_analytics', 'intake_exports', 'intake_forms') order by 1`,
    )
    expect(views.length).toBeGreaterThan(20)
    // The wide views of exports moved; export_answers did not.
    expect(views.filter(({ name }) => /^intake_exports\.export_/.test(name)).length).toBeGreaterThan(5)
    expect(views.filter(({ name }) => /^intake_analytics\.export_/.test(name))).toEqual([
      { name: 'intake_analytics.export_answers' },
    ])
    const looks = views.map(({ name }) => `select * from ${name}`)
    expect(await analyst.endings(looks)).toEqual(views.map(() => null))
    expect(await analyst.endings(['select from intake.patients'])).toEqual(['42501'])
    const seen =
      'select distinct t.team from intake_analytics.patients join intake_analytics.teams t using (team_id)'
    expect(await analyst.rows(seen)).toEqual([])
    expect((await run('access', 'grant', analyst.name, 'north')).code).toBe(0)
    expect(await analyst.rows(seen)).toEqual([{ team: 'north' }])
    const loader = await makeLogin(warehouse.url, 'intake_loader')
    const writes = ['update intake.patients set city = city', 'update intake_raw.inbox set status = status']
    expect(await loader.endings(writes)).toEqual([null, null])
  })

  it('leaves signature secrets that the key of then still opens', async () => {
    const secrets = await query<{ team_id: number; config_id: string; secret: Buffer }>(
      warehouse.url,
      'select team_id, config_id, secret from intake_ops.webhook_secrets',
    )
    expect(secrets).toHaveLength(2)
    for (const { team_id: teamId, config_id: configId, secret } of secrets)
      expect(open(secret, keyOf(FIXTURE_KEY), placeOf({ teamId, configId }))).toMatch(/^\S{16,}$/)
  })
})

describe('after the upgrade', () => {
  const withoutLoading = (tables: Rows) =>
    Object.entries(tables).map(([name, rows]) => ({
      name,
      rows: rows.map(({ _loaded_at: _, ...row }) => JSON.stringify(row)).sort(),
    }))

  it('a replay leaves every table of intake as it is', async () => {
    const names = await tablesOfIntake(warehouse.url)
    const upgraded = await rowsOf(warehouse.url, names)
    expect((await run('replay', '--json')).code).toBe(0)
    expect(withoutLoading(await rowsOf(warehouse.url, names))).toEqual(withoutLoading(upgraded))
  })

  it('the events that waited are drained', async () => {
    const came = `select t.name, p.last_name from intake.patients p join intake.teams t using (team_id)
      where p.first_name = 'Nora' and p.last_name = 'Beispiel second' order by 1`
    expect(await query(warehouse.url, came)).toEqual([])
    const ended = await run('replay', '--inbox', '--since', '2026-01-01', '--json')
    // The dead letters of then still wait for a person.
    expect(ended.code, ended.output).toBe(4)
    expect(await query(warehouse.url, "select from intake_raw.inbox where status = 'pending'")).toEqual([])
    expect(await query(warehouse.url, came)).toEqual(
      FIXTURE_TEAMS.map(({ name }) => ({ name, last_name: 'Beispiel second' })),
    )
  })

  describe('with the services of that version', () => {
    let emulators: Emulator[]
    let env: Record<string, string | undefined>

    beforeAll(async () => {
      emulators = []
      for (const { world } of FIXTURE_TEAMS) emulators.push(await startEmulator({ port: 0, ...world }))
      const teams = FIXTURE_TEAMS.map(({ name }, at) => teamOf(name, emulators[at]!))
      env = { ...configOf(teams), DATABASE_URL: warehouse.url, LOG_LEVEL: 'error' }
    })
    afterAll(async () => {
      for (const emulator of emulators) await emulator.close()
    })

    it('a full backfill ends with tables that a verification finds equal, and without the patient who was erased', async () => {
      const loaded = await runCommand(['backfill', '--full', '--json'], env)
      for (const [team, { streams }] of Object.entries(teamsIn(loaded))) {
        const statuses = Object.values(streams).map(({ status }) => status)
        expect(new Set(statuses), `${team}: ${loaded.stderr}`).toEqual(new Set(['succeeded']))
      }
      const { north, south } = teamsIn(loaded)
      expect(north!.streams.patients!.erased).toBe(1)
      expect(south!.streams.patients!.erased).toBe(0)
      const verified = await runCommand(['verify', '--json'], env)
      expect(verified.code, verified.output).toBe(0)
    })
  })
})
