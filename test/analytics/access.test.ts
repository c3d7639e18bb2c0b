/** With several teams a login sees those granted to it, and has no way around that. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { grantAccess } from '../../src/analytics/access.ts'
import { migrate } from '../../src/analytics/migrate.ts'
import { startEmulator } from '../../src/emulator/server.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { openScene, query, type Scene, SMALL } from '../e2e/support/scene.ts'
import { createTestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { type Login, makeLogin } from './logins.ts'

let scene: Scene
let analyst: Login
let clinician: Login
let researcher: Login
let loader: Login

const access = async (...words: string[]) => {
  const ended = await runCommand(['access', ...words], { DATABASE_URL: scene.url })
  return { ...ended, document: words.includes('--json') ? JSON.parse(ended.stdout) : null }
}

/** Loads the second team of the emulator under its own name. */
async function loadOther(): Promise<void> {
  const { base_url, teams } = scene.emulator.environments[0]!
  const ended = await runCommand(['backfill'], {
    DATABASE_URL: scene.url,
    INTAKE_BASE_URL: base_url,
    INTAKE_TEAM: 'other',
    INTAKE_API_KEY: teams[1]!.api_key,
    INTAKE_API_SECRET: teams[1]!.api_secret,
  })
  expect(ended.code).toBe(0)
}

beforeAll(async () => {
  scene = await openScene({ patients: 25, responses: 60 })
  expect((await scene.backfill()).code).toBe(0)
  analyst = await makeLogin(scene.url, 'intake_analyst')
  clinician = await makeLogin(scene.url, 'intake_clinical')
  researcher = await makeLogin(scene.url, 'intake_researcher')
  loader = await makeLogin(scene.url, 'intake_loader')
})
afterAll(() => scene[Symbol.asyncDispose]())

/** The teams whose rows each view and table of a schema shows, joined; `''` for none. */
async function teamsIn(login: Login, schema: string): Promise<Readonly<Record<string, string>>> {
  const found = await login.rows<{ name: string }>(
    `select c.relname as name from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'team_id'
     where c.relnamespace = $1::regnamespace and c.relkind in ('r', 'v', 'p')`,
    [schema],
  )
  const text = found
    .map(
      ({ name }) =>
        `select '${name}' as name, string_agg(distinct team_id::text, ',') as teams from ${schema}.${name}`,
    )
    .join(' union all ')
  const rows = await login.rows<{ name: string; teams: string | null }>(text)
  return Object.fromEntries(rows.map(({ name, teams }) => [name, teams ?? '']))
}

const seen = async (login: Login, schema: string) =>
  [...new Set(Object.values(await teamsIn(login, schema)).filter((teams) => teams !== ''))].sort()

describe('with one team', () => {
  it('every login with a role sees it', async () => {
    expect(await seen(analyst, 'intake_analytics')).toEqual(['1'])
    expect(await seen(clinician, 'intake')).toEqual(['1'])
    expect(await seen(researcher, 'intake_safe_harbor')).toEqual(['1'])
    expect(await access('list', '--json')).toMatchObject({
      code: 0,
      document: { teams: ['default'], everybody: true, access: [] },
    })
  })
})

describe('the search path', () => {
  const LISTED = `select string_agg(c.relname, ' ' order by c.relname) as names from pg_class c
    where pg_table_is_visible(c.oid) and c.relkind in ('r', 'p', 'v', 'm') and c.relnamespace <> 'pg_catalog'::regnamespace`

  it('of a login is that of its role, once it was granted a team: \\d lists the views that matter, no wide one', async () => {
    const path = {
      analyst: 'intake_analytics, public',
      clinician: 'intake, intake_analytics, public',
      researcher: 'intake_safe_harbor, public',
    }
    expect((await analyst.rows<{ names: string | null }>(LISTED))[0]!.names ?? '').not.toContain('answers')
    for (const [login, given] of [
      [analyst, path.analyst],
      [clinician, path.clinician],
      [researcher, path.researcher],
    ] as const) {
      const granted = await access('grant', login.name, 'default', '--json')
      expect(granted.document).toMatchObject({ search_path: given })
      expect(await login.rows('show search_path')).toEqual([{ search_path: given }])
    }
    const [listed] = await analyst.rows<{ names: string }>(LISTED)
    expect(listed!.names).toMatch(/^answers .*\bexport_answers\b.*\bpatients\b.*\bresponses\b/)
    expect(listed!.names.split(' ').length).toBeLessThan(20)
    expect(listed!.names).not.toMatch(/export_(?!answers\b)/)
    expect(await analyst.rows('select distinct team_id from patients')).toEqual([{ team_id: 1 }])
    expect(
      await query(scene.url, `select from pg_views where schemaname = 'intake_exports'`),
    ).not.toHaveLength(0)
  })

  it('of a login stays if whoever grants may not change it; the grant is made', async () => {
    const { name } = await makeLogin(scene.url, 'intake_analyst')
    await using session = await openSession({ url: scene.url, purpose: 'access' })
    await session.client.query('set role intake_loader')
    expect(await grantAccess(session.db, name, 'default')).toEqual({
      ...{ changed: true, hasRole: true, searchPath: null },
    })
    expect(
      await query(scene.url, 'select login from intake_ops.access where login = $1', [name]),
    ).toHaveLength(1)
    await query(scene.url, 'delete from intake_ops.access where login = $1', [name])
  })

  it('of a login that has one of its own stays', async () => {
    const own = await makeLogin(scene.url, 'intake_analyst')
    await query(scene.url, `alter role ${own.name} set search_path = mine`)
    expect((await access('grant', own.name, 'default', '--json')).document).toMatchObject({
      search_path: null,
    })
    expect(await own.rows('show search_path')).toEqual([{ search_path: 'mine' }])
    await query(scene.url, 'delete from intake_ops.access')
  })

  it.each([
    ['alter role LOGIN in database OWN set search_path = mine', null],
    ['alter role LOGIN in database postgres set search_path = mine', 'intake_analytics, public'],
    [`alter role LOGIN set work_mem = '4MB'`, 'intake_analytics, public'],
    ['alter role LOGIN superuser', null],
    ['alter role LOGIN nologin', null],
    ['grant intake_loader to LOGIN', null],
    ['grant intake_researcher, intake_clinical to LOGIN', 'intake, intake_analytics, public'],
    ['revoke intake_analyst from LOGIN', null],
  ])('after "%s" is %s', async (change, search_path) => {
    const { name } = await makeLogin(scene.url, 'intake_analyst')
    await query(scene.url, change.replace('LOGIN', name).replace('OWN', new URL(scene.url).pathname.slice(1)))
    expect((await access('grant', name, 'default', '--json')).document).toMatchObject({ search_path })
    await query(scene.url, 'delete from intake_ops.access')
  })
})

describe('with several teams', () => {
  beforeAll(loadOther)

  beforeEach(async () => {
    await query(scene.url, 'delete from intake_ops.access')
  })

  it('a login sees none until one is granted, then that one, and none again when it is revoked', async () => {
    for (const [login, schema] of [
      [analyst, 'intake_analytics'],
      [clinician, 'intake_analytics'],
      [clinician, 'intake'],
      [researcher, 'intake_safe_harbor'],
    ] as const) {
      expect(await seen(login, schema)).toEqual([])
      expect(await access('grant', login.name, 'other', '--json')).toMatchObject({
        ...{ code: 0, stderr: '' },
        document: { login: login.name, team: 'other', changed: true },
      })
      expect(await seen(login, schema)).toEqual(['2'])
      expect((await access('grant', login.name, 'default')).stdout).toBe('granted\n')
      expect((await access('grant', login.name, 'default')).stdout).toBe('already granted\n')
      expect(new Set((await seen(login, schema)).join().split(','))).toEqual(new Set(['1', '2']))
      expect((await access('revoke', login.name, 'other')).stdout).toBe('revoked\n')
      expect(await seen(login, schema)).toEqual(['1'])
      expect((await access('revoke', login.name, 'default')).code).toBe(0)
      expect((await access('revoke', login.name, 'default')).stdout).toBe('was not granted\n')
      expect(await seen(login, schema)).toEqual([])
    }
  })

  it('a grant that is revoked from one login stays for another; all are listed by login and team', async () => {
    const logins = [analyst.name, clinician.name].sort()
    for (const name of logins.toReversed())
      for (const team of ['other', 'default']) await access('grant', name, team)
    const listed = async () =>
      (await access('list', '--json')).document.access.map(
        ({ login, team, exists }: Record<string, unknown>) => `${login} ${team} ${exists}`,
      )
    expect(await listed()).toEqual(logins.flatMap((name) => [`${name} default true`, `${name} other true`]))
    await access('revoke', logins[0]!, 'other')
    expect(await listed()).toEqual([
      `${logins[0]} default true`,
      ...['default', 'other'].map((team) => `${logins[1]} ${team} true`),
    ])
  })

  it('every table and view with rows shows the same teams', async () => {
    await access('grant', clinician.name, 'other')
    const all = await teamsIn(loader, 'intake')
    const own = await teamsIn(clinician, 'intake')
    for (const [name, teams] of Object.entries(all)) {
      expect(own[name], name).toBe(teams.includes('2') ? '2' : '')
    }
    expect(Object.values(all).filter((teams) => teams === '1,2').length).toBeGreaterThan(15)
  })

  it('a response stays in packet progress, unless a packet response of its own team has it', async () => {
    const member = (teamId: number) =>
      query(
        scene.url,
        `insert into intake.packet_response_members (team_id, packet_response_id, position, response_id)
         values ($1, 'of both', 1, 'of both')`,
        [teamId],
      )
    const progress = () =>
      query(
        scene.url,
        `select team_id, responses::int from intake_analytics.packet_progress
         where packet_id = 'of both' and packet_response_id is null`,
      )
    await query(
      scene.url,
      `insert into intake.responses (team_id, id, patient_id, form_id, packet_id, _version, _origin)
       values (1, 'of both', 'of both', 'of both', 'of both', now(), 'test')`,
    )
    await member(2)
    expect(await progress()).toEqual([{ team_id: 1, responses: 1 }])
    await member(1)
    expect(await progress()).toEqual([])
  })

  it('a login that writes the tables sees all', async () => {
    const { teams, patients, responses, answers } = await teamsIn(loader, 'intake_analytics')
    expect([teams, patients, responses, answers]).toEqual(['1,2', '1,2', '1,2', '1,2'])
    expect((await query(scene.url, 'select distinct team_id from intake_analytics.answers')).length).toBe(2)
  })

  it('there is no way around the policies', async () => {
    await access('grant', analyst.name, 'other')
    await query(scene.url, `insert into intake_ops.access (login, team_id) values ('somebody', 1)`)
    const shut = [
      `set session authorization ${loader.name}`,
      `set role ${loader.name}`,
      'set role intake_loader',
      'set role intake_clinical',
      `alter role ${analyst.name} rename to somebody`,
      `grant intake_clinical to ${analyst.name}`,
      `insert into intake_ops.access (login, team_id) values (current_user, 1)`,
      `select intake_ops.teams_of('somebody')`,
      `select intake_ops.pseudonym('a', 'b', 1::smallint, 'x')`,
      `select intake_ops.hmac_pad('a', 1)`,
      'select * from intake_ops.analytics_key',
      `select pg_get_functiondef('intake_ops.teams_of(text)'::regprocedure)`,
      'create or replace view intake_analytics.teams as select 1::smallint as team_id, null::text as team',
      'alter view intake_analytics.answers set (security_barrier = false)',
      'create function intake_analytics.f() returns int language sql return 1',
      'alter table intake.patients disable row level security',
    ]
    const ends = await analyst.endings(shut)
    // 0A000: the current session user cannot be renamed.
    for (const [at, statement] of shut.entries()) expect(['42501', '0A000'], statement).toContain(ends[at])
    // A function with notices receives no row of another team.
    const notices: string[] = []
    const { connect } = await import('../e2e/support/scene.ts')
    const client = await connect(analyst.url)
    client.on('notice', ({ message }) => notices.push(message ?? ''))
    try {
      await client.query(
        `create function pg_temp.tell(smallint, text) returns boolean language plpgsql cost 0.0000001
         as $$ begin raise notice '% %', $1, $2; return true; end $$`,
      )
      for (const view of ['responses', 'answers', 'message_outcomes', 'packet_progress', 'export_answers']) {
        await client.query(`select 1 from intake_analytics.${view} where pg_temp.tell(team_id, patient)`)
      }
      await client.query('select 1 from intake_analytics.patients where pg_temp.tell(team_id, patient)')
      for (const [view, text] of [
        ...[['daily_volume', 'form'] as const, ['form_completion', 'form'] as const],
        ...[['questions', 'question_text'] as const, ['matrix_answers', 'patient'] as const],
        ...[['freshness', 'team'] as const, ['teams', 'team'] as const],
      ]) {
        await client.query(`select 1 from intake_analytics.${view} where pg_temp.tell(team_id, ${text})`)
      }
      const exported = await client.query<{ name: string }>(
        `select c.oid::regclass::text as name from pg_class c
         where relnamespace in ('intake_exports'::regnamespace, 'intake_forms'::regnamespace)`,
      )
      expect(exported.rows.filter(({ name }) => name.startsWith('intake_exports.')).length).toBeGreaterThan(3)
      expect(exported.rows.filter(({ name }) => name.startsWith('intake_forms.')).length).toBeGreaterThan(3)
      for (const { name } of exported.rows) {
        await client.query(`select 1 from ${name} where pg_temp.tell(team_id, patient)`)
      }
      // A cached plan is checked again for the current login.
      await client.query(
        'prepare kept as select count(distinct team_id)::int as teams from intake_analytics.responses',
      )
      const counts: number[] = []
      for (const become of [...Array(6).fill('reset role'), 'set role intake_analyst', 'reset role']) {
        await client.query(become)
        counts.push((await client.query<{ teams: number }>('execute kept')).rows[0]!.teams)
      }
      expect(counts).toEqual([1, 1, 1, 1, 1, 1, 0, 1])
      // A role that a login may assume sees what it was granted itself: nothing here.
      await client.query('set role intake_analyst')
      expect((await client.query('select from intake_analytics.responses')).rowCount).toBe(0)
      await client.query('set row_security = off')
      expect((await client.query('select from intake_analytics.responses')).rowCount).toBe(0)
    } finally {
      await client.end()
    }
    expect(notices.length).toBeGreaterThan(100)
    expect(notices.filter((line) => !line.startsWith('2 '))).toEqual([])
  })

  it('definitions, comments and plans show no id of a form or export of another team, nor how many rows it has', async () => {
    await access('grant', analyst.name, 'other')
    await query(scene.url, 'analyze')
    const ids = await query<{ id: string }>(
      scene.url,
      `select id from intake.forms where team_id = 1 union select id from intake.exports where team_id = 1
       except select id from intake.forms where team_id = 2 except select id from intake.exports where team_id = 2`,
    )
    expect(ids.length).toBeGreaterThan(5)
    const naming = (text: string) => ids.filter(({ id }) => text.includes(id))
    const catalogue = await analyst.rows<{ text: string | null }>(
      `select relname::text as text from pg_class union all select attname from pg_attribute
       union all select description from pg_description union all select prosrc from pg_proc
       union all select pg_get_viewdef(oid) from pg_class where relkind = 'v'`,
    )
    expect(naming(catalogue.map(({ text }) => text ?? '').join('\n'))).toEqual([])
    for (const kind of ['shown', 'export'] as const) {
      const views = await query<{ view: string }>(
        scene.url,
        `select format('%I.%I', case kind when 'shown' then 'intake_forms' else 'intake_exports' end, view_name) as view
         from intake_raw.wide_views where kind = $1 and team_id = 1`,
        [kind],
      )
      expect(views.length).toBeGreaterThan(1)
      const estimates = new Set<number>()
      for (const { view } of views) {
        const [plan] = await analyst.rows<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
          `explain (analyze, verbose, format json) select * from ${view}`,
        )
        const [{ Plan }] = plan!['QUERY PLAN']
        expect(naming(JSON.stringify(Plan))).toEqual([])
        expect(Plan['Actual Rows']).toBe(0)
        estimates.add(Plan['Plan Rows']!)
      }
      expect(estimates.size).toBe(1)
    }
  })

  it('a clinician cannot turn off the policies', async () => {
    await access('grant', clinician.name, 'other')
    const ends = await clinician.endings([
      'set row_security = off',
      'select from intake.patients',
      'update intake.patients set team_id = 2',
      'alter table intake.patients disable row level security',
      'create policy mine on intake.patients using (true)',
    ])
    expect(ends).toEqual([null, '42501', '42501', '42501', '42501'])
  })

  it('a login that is dropped and created again inherits nothing, until it is granted again', async () => {
    await access('grant', analyst.name, 'other')
    expect(await seen(analyst, 'intake_analytics')).toEqual(['2'])
    await query(
      scene.url,
      `drop role ${analyst.name}; create role ${analyst.name} login password 'p' in role intake_analyst`,
    )
    expect(await seen(analyst, 'intake_analytics')).toEqual([])
    await query(scene.url, `update intake_ops.access set granted_at = '2026-01-01Z'`)
    const listed = async () => (await access('list', '--json')).document.access
    expect(await listed()).toMatchObject([
      { login: analyst.name, team: 'other', granted_at: '2026-01-01T00:00:00+00:00', exists: false },
    ])
    const before = Date.now()
    expect((await access('grant', analyst.name, 'other')).stdout).toBe('granted\n')
    expect(await seen(analyst, 'intake_analytics')).toEqual(['2'])
    const [granted] = await listed()
    expect(granted).toMatchObject({ login: analyst.name, team: 'other', exists: true })
    // Postgres and this process are on one machine.
    expect(Date.parse(granted.granted_at)).toBeGreaterThanOrEqual(before - 1)
  })

  it('reports an unknown login or team', async () => {
    expect(await access('grant', 'no such login', 'other')).toMatchObject({ code: 2, stdout: '' })
    const { code, stderr } = await access('grant', analyst.name, 'nobody')
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr:
        'error: the warehouse has no team "nobody"\n  hint: use one of: default, other\ncode: unknown_team, see docs/errors.md#unknown_team\n',
    })
    const stranger = await makeLogin(scene.url, 'pg_monitor')
    expect((await access('grant', stranger.name, 'other')).stderr).toContain(
      'none of intake_analyst, intake_clinical and intake_researcher',
    )
    const list = (await access('list')).stdout
    expect(list).toContain(stranger.name)
    expect(list).toContain('teams: default, other')
  })
})

describe('a login without a role of the warehouse', () => {
  it('cannot connect, and one that only reads makes no temporary tables', async () => {
    await migrate(scene.url)
    const stranger = await makeLogin(scene.url, 'pg_monitor')
    await expect(stranger.rows('select 1')).rejects.toMatchObject({ code: '42501' })
    expect(await analyst.endings(['create temporary table mine (id int)'])).toEqual(['42501'])
    expect(await loader.endings(['create temporary table mine (id int)'])).toEqual([null])
    await query(scene.url, `grant connect on database ${new URL(scene.url).pathname.slice(1)} to pg_monitor`)
    expect(await stranger.rows('select 1 as one')).toEqual([{ one: 1 }])
  })

  it('still connects to a database that other schemas live in', async () => {
    await using database = await createTestDatabase({ empty: true })
    await query(database.url, 'create schema shop; create table shop.orders (id int)')
    await migrate(database.url)
    const stranger = await makeLogin(database.url, 'pg_monitor')
    expect(await stranger.rows('select 1 as one')).toEqual([{ one: 1 }])
  })
})

describe('a login with intake_loader alone', () => {
  it('loads a migrated warehouse, although policies apply to it', async () => {
    await using emulator = await startEmulator(SMALL)
    const { base_url, teams } = emulator.environments[0]!
    const env = {
      DATABASE_URL: loader.url,
      INTAKE_BASE_URL: base_url,
      INTAKE_TEAM: 'third',
      INTAKE_API_KEY: teams[0]!.api_key,
      INTAKE_API_SECRET: teams[0]!.api_secret,
    }
    const ended = await runCommand(['backfill', '--json'], env)
    expect(await query(scene.url, 'select stream, reason from intake_ops.dead_letters')).toEqual([])
    expect(ended.code).toBe(0)
    expect(ended.stderr).toContain('only who owns the schemas may make them')
    const counts = await query<{ patients: number; cells: number }>(
      scene.url,
      `select (select count(*)::int from intake.patients where team_id = t.team_id) as patients,
         (select count(*)::int from intake.export_cells where team_id = t.team_id) as cells
       from intake.teams t where name = 'third'`,
    )
    expect(counts[0]!.patients).toBe(SMALL.patients)
    expect(counts[0]!.cells).toBeGreaterThan(50)
    expect((await runCommand(['backfill'], env)).code).toBe(0)
  })
})
