/** `psql`: SQL with the role of a reader, through psql where it is installed and without it. */
import { spawnSync } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Context } from '../../../src/commands/context.ts'
import { placeOf, psqlCommand } from '../../../src/commands/inspect/psql.ts'
import { makeLogin } from '../../analytics/logins.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { runCli } from '../../support/cli.ts'
import type { TestDatabase } from '../../support/database.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

const NOWHERE = '/nowhere'

let warehouse: TestDatabase
let folder: string

beforeAll(async () => {
  warehouse = await openWarehouse()
  folder = makeFolder('psql-')
  await query(
    warehouse.url,
    `insert into intake.teams (name) values ('north'), ('south');
     insert into intake.patients (team_id, id, first_name, _version, _origin, _loaded_at, _hash)
       select team_id, 'p' || n, 'Ada', now(), 'page', now(), '' from intake.teams, generate_series(1, 2) as n;
     insert into intake_ops.access (login, team_id) select 'intake_analyst', team_id from intake.teams`,
  )
})
afterAll(async () => {
  removeFolder(folder)
  await warehouse.drop()
})

/** Without psql, in this process. */
const own = (words: readonly string[], url = warehouse.url) =>
  runCommand(['psql', ...words], { DATABASE_URL: url, PATH: NOWHERE })

/** Without psql, in this process, with a standard input of its own. */
function command(
  input: PassThrough & { readonly isTTY: boolean },
  signal = new AbortController().signal,
  ...words: readonly string[]
) {
  const said = { stdout: '', stderr: '' }
  const context: Context = {
    env: { DATABASE_URL: warehouse.url, PATH: NOWHERE },
    stdout: { write: (text) => (said.stdout += String(text)) },
    stderr: { write: (text) => (said.stderr += String(text)) },
    ...{ signal, version: '0.0.0' },
  }
  const ended = psqlCommand(context, () => input).parseAsync(words, { from: 'user' })
  return { said, ended }
}

const WHO = `select current_user as who, current_setting('search_path') as path`

describe('without psql', () => {
  it.each([
    [[], expect.any(String), 'intake,public'],
    [['--as', 'analyst'], 'intake_analyst', 'intake_analytics,public'],
    [['--as', 'clinical'], 'intake_clinical', 'intake,intake_analytics,public'],
  ])('%j has its role from the first statement on, and finds its tables by name', async (as, who, path) => {
    const { code, stdout } = await own([...as, '--json', '-c', WHO, '-c', 'select 1 as n, null as x'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toEqual({
      results: [
        { columns: ['who', 'path'], rows: [[who, path]], command: 'SELECT', row_count: 1 },
        { columns: ['n', 'x'], rows: [[1, null]], command: 'SELECT', row_count: 1 },
      ],
    })
  })

  it('as JSON, numbers that it represents exactly, booleans and JSON are themselves; the rest is text of Postgres', async () => {
    const sql = `select true, 1::int2, 2::int4, 3::oid, 9007199254740993::int8, 1.5::float4, 2.5::float8, 1.10::numeric,
      '{"a": 1}'::json, '[1]'::jsonb, timestamptz '2026-01-05 00:00Z', array[1], null`
    const { stdout } = await own(['--json', '-c', sql])
    expect(JSON.parse(stdout).results[0].rows).toEqual([
      [
        true,
        1,
        2,
        3,
        '9007199254740993',
        1.5,
        2.5,
        '1.10',
        { a: 1 },
        [1],
        '2026-01-05 00:00:00+00',
        '{1}',
        null,
      ],
    ])
    const text = await own([
      '-c',
      `select yes, no from (values (true, null), (false, 'a\u001bb')) as own (yes, no)`,
      '-c',
      'set work_mem = 100',
      '-c',
      'select',
    ])
    expect(text.stdout).toBe('yes  no\nt\nf    a\\x1bb\n(2 rows)\n\nSET\nSELECT 1\n')
    for (const copy of ['copy (select 1) to stdout', 'select 1; copy (select 1) to stdout']) {
      const { code, stdout, stderr } = await own(['-c', copy])
      expect([code, stdout, stderr]).toEqual([2, '', expect.stringContaining('error: COPY needs psql\n')])
    }
  })

  it('a reader is refused what the role may not read, in the words of Postgres: exit code 1', async () => {
    const { code, stdout, stderr } = await own([
      '--as',
      'analyst',
      '-c',
      'select first_name from intake.patients',
    ])
    expect([code, stdout, stderr]).toEqual([
      1,
      '',
      'error: permission denied for schema intake\ncode: sql, see docs/errors.md#sql\n',
    ])
  })

  it('of several teams a reader sees those that the role was granted; without any, a note says so', async () => {
    const teams = ['--as', 'clinical', '-c', 'select distinct team_id from patients order by 1']
    const before = await own(teams)
    expect(before.stderr).toContain('intake-sync access grant intake_clinical TEAM')
    expect(before.stdout).toBe('team_id\n(0 rows)\n\n')
    expect(
      (await runCommand(['access', 'grant', 'intake_clinical', 'south'], { DATABASE_URL: warehouse.url }))
        .code,
    ).toBe(0)
    const after = await own(teams)
    expect([after.stderr, after.stdout]).toEqual(['', 'team_id\n2\n(1 row)\n\n'])
  })

  it('a login without the role is refused before anything is run; a reader’s own login stays itself', async () => {
    const login = await makeLogin(warehouse.url, 'intake_clinical')
    const refused = await own(['--as', 'analyst', '--json', '-c', WHO], login.url)
    expect([refused.code, JSON.parse(refused.stdout).error.code]).toEqual([1, 'role_refused'])
    // With a second role, a login takes the one that was asked for, and has no rights of the other.
    const both = await makeLogin(warehouse.url, 'intake_analyst')
    await query(warehouse.url, `grant intake_clinical to ${both.name}`)
    const asAnalyst = ['--as', 'analyst', '--json', '-c']
    const { stdout } = await own([...asAnalyst, 'select current_user'], both.url)
    expect(JSON.parse(stdout).results[0].rows).toEqual([['intake_analyst']])
    expect((await own([...asAnalyst, 'select from intake.patients'], both.url)).code).toBe(1)
    for (const other of ['intake_researcher', 'intake_loader']) {
      const { url } = await makeLogin(warehouse.url, 'intake_analyst', other)
      const asked = await own([...asAnalyst, 'select current_user'], url)
      expect([other, JSON.parse(asked.stdout).results[0].rows]).toEqual([other, [['intake_analyst']]])
    }
    const taken = await own(['--as', 'clinical', '-c', 'select current_user'], login.url)
    expect(taken.stdout).toBe(`current_user\n${login.name}\n(1 row)\n\n`)
  })

  it('a researcher finds the de-identified views, and is refused those of analysts', async () => {
    const before = await own(['--as', 'researcher', '-c', 'select team_id from teams order by 1'])
    expect(before.stderr).toContain('intake-sync access grant intake_researcher TEAM')
    expect(before.stdout).toBe('team_id\n(0 rows)\n\n')
    const { code, stderr } = await own(['--as', 'researcher', '-c', 'select from intake_analytics.teams'])
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('permission denied for schema intake_analytics'),
    ])
    expect((await own(['--as', 'nobody'])).code).toBe(2)
  })

  it('SQL of standard input is run as one, and the first failure ends it', async () => {
    const run = (input: string) =>
      runCli(['psql', '--as', 'analyst'], { DATABASE_URL: warehouse.url, PATH: NOWHERE }, { input })
    const good = await run('select 1 as one;\nselect $$a;\nb$$ as two, null as three;\n')
    expect(good.output).toBe('one\n1\n(1 row)\n\ntwo      three\na;\\x0ab\n(1 row)\n\n')
    const bad = await run('select 1 as one;\nselect nothing;\n')
    expect([bad.code, bad.stdout, bad.stderr]).toEqual([
      1,
      '',
      'error: column "nothing" does not exist\ncode: sql, see docs/errors.md#sql\n',
    ])
    const steering = await run(`select U&'a\\001b[2J'::int`)
    expect([steering.code, steering.stdout]).toEqual([1, ''])
    expect(steering.stderr).toContain('error: invalid input syntax for type integer: "a\\x1b[2J"\n')
    const backslash = command(Object.assign(new PassThrough(), { isTTY: false }).end('\\d\n'))
    await expect(backslash.ended).rejects.toThrow(/^commands that begin with \\ need psql$/)
  })

  it('at a terminal each statement is run when its line ends with a semicolon, also after a failure', async () => {
    const keyboard = Object.assign(new PassThrough(), { isTTY: true })
    keyboard.end('select nothing;\nselect\n 7 as seven;\n')
    const { said, ended } = command(keyboard)
    await ended
    expect(said.stdout).toBe('seven\n7\n(1 row)\n\n')
    expect(said.stderr).toContain('psql is not installed')
    expect(said.stderr).toContain('error: column "nothing" does not exist\n')
  })

  it('at a terminal the first failure of --command ends it all the same', async () => {
    const keyboard = Object.assign(new PassThrough(), { isTTY: true })
    const words = ['-c', 'select 1 as one', '-c', 'select nothing', '-c', 'create table intake.never ()']
    const { said, ended } = command(keyboard, undefined, ...words)
    await expect(ended).rejects.toThrow('column "nothing" does not exist')
    expect(said).toEqual({ stdout: 'one\n1\n(1 row)\n\n', stderr: '' })
    expect(await query(warehouse.url, `select from pg_tables where tablename = 'never'`)).toEqual([])
  })

  it('what was typed halfway is not run when a signal ends the command', async () => {
    const keyboard = Object.assign(new PassThrough(), { isTTY: true })
    const stop = new AbortController()
    const { said, ended } = command(keyboard, stop.signal)
    keyboard.write('create table intake.halfway ();\ncreate table intake.never ()\n')
    await expect.poll(() => said.stdout).toContain('CREATE')
    stop.abort('SIGINT')
    await expect(ended).rejects.toBe('SIGINT')
    const made = `select tablename as name from pg_tables where tablename in ('halfway', 'never')`
    expect(await query(warehouse.url, made)).toEqual([{ name: 'halfway' }])
    await query(warehouse.url, 'drop table intake.halfway')
  })

  it('arguments of psql need psql, and --json needs SQL of its own: exit code 2', async () => {
    expect((await own(['--', '--csv'])).code).toBe(2)
    expect((await own(['--json', '--', '-c', 'select 1'])).code).toBe(2)
    const keyboard = Object.assign(new PassThrough(), { isTTY: true })
    await expect(command(keyboard, undefined, '--json').ended).rejects.toThrow('--json needs SQL')
    // SQL of --command is enough, also at a terminal.
    const named = command(keyboard, undefined, '--json', '-c', 'select 7 as seven')
    await named.ended
    expect(JSON.parse(named.said.stdout).results).toMatchObject([{ columns: ['seven'], rows: [[7]] }])
    const piped = command(
      Object.assign(new PassThrough(), { isTTY: false }).end('select 1'),
      undefined,
      '--json',
    )
    await piped.ended
    expect(JSON.parse(piped.said.stdout).results).toHaveLength(1)
  })

  it('a warehouse of a newer version is refused, and one that is not migrated, before anything is run', async () => {
    const newest = `(select max(name) from intake_ops.migrations)`
    const states = [
      ['database_ahead', `insert into intake_ops.migrations values ('9999_tomorrow', '2030-01-01')`],
      ['database_behind', `delete from intake_ops.migrations where name = ${newest}`],
    ] as const
    await query(warehouse.url, 'create table public.were as select * from intake_ops.migrations')
    for (const [code, statement] of states) {
      await query(warehouse.url, statement)
      const refused = await own(['--json', '-c', `create table intake.${code} ()`])
      await query(
        warehouse.url,
        'delete from intake_ops.migrations; insert into intake_ops.migrations select * from public.were',
      )
      expect([refused.code, JSON.parse(refused.stdout).error.code]).toEqual([1, code])
    }
    const made = `select tablename from pg_tables where tablename like 'database%'`
    expect(await query(warehouse.url, made)).toEqual([])
    await query(warehouse.url, 'drop table public.were')
  })

  it('parameters of the connection stay, and those of the session are added', async () => {
    const url = new URL(warehouse.url)
    url.searchParams.set('application_name', 'mine')
    const { stdout } = await own(['--as', 'analyst', '-c', WHO], url.href)
    expect(stdout).toContain('intake_analyst  intake_analytics,public')
  })
})

describe('with psql', () => {
  /** Writes down how it was called, in place of psql. */
  const standIn = (code: number) => {
    const said = join(folder, 'said')
    writeFileSync(
      join(folder, 'psql'),
      `#!/bin/sh\nprintf '%s\\n' "$@" "PGOPTIONS=$PGOPTIONS" "PGPASSWORD=$PGPASSWORD" >'${said}'\nexit ${code}\n`,
      { mode: 0o755 },
    )
    return () => readFileSync(said, 'utf8').trimEnd().split('\n')
  }

  it('no argument has the password; options of the connection and of psql are passed on', async () => {
    const said = standIn(0)
    const url = new URL(warehouse.url)
    url.searchParams.set('options', '-c work_mem=5MB')
    const { code } = await runCli(['psql', '--as', 'analyst', '-c', 'select 1', '--', '--csv', '-q'], {
      DATABASE_URL: url.href,
      PATH: `${folder}:/bin:/usr/bin`,
    })
    expect(code).toBe(0)
    const { username, password, host, pathname } = url
    expect(said()).toEqual([
      ...[
        '-v',
        'ON_ERROR_STOP=1',
        '-v',
        'PROMPT1=%/ as analyst%R%x%# ',
        '-c',
        'select 1',
        '--csv',
        '-q',
        '-d',
      ],
      `postgres://${username}@${host}${pathname}`,
      'PGOPTIONS=-c work_mem=5MB -c search_path=intake_analytics,public -c role=intake_analyst',
      `PGPASSWORD=${decodeURIComponent(password)}`,
    ])
  })

  it.each([1, 2, 3])('its exit code %i becomes 1: the others have meanings of their own', async (code) => {
    standIn(code)
    const env = { DATABASE_URL: warehouse.url, PATH: `${folder}:/bin:/usr/bin` }
    const ended = await runCommand(['psql'], env)
    expect([ended.code, ended.output]).toEqual([1, ''])
  })

  it('Ctrl-C is for psql, which goes on; SIGTERM ends psql too', async () => {
    const psql = (script: string) =>
      writeFileSync(join(folder, 'psql'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
    const run = () => runCli(['psql'], { DATABASE_URL: warehouse.url, PATH: `${folder}:/bin:/usr/bin` })
    psql('kill -INT $PPID; sleep 0.5; echo went on')
    expect(await run()).toMatchObject({ code: 0, stdout: 'went on\n' })
    psql('kill -TERM $PPID; exec sleep 60')
    const ended = await run()
    expect([ended.code, ended.seconds < 30]).toEqual([143, true])
  })

  it('Ctrl-C never ends the command, not even while psql starts or when it has ended', async () => {
    standIn(0)
    const before = process.listeners('SIGINT')
    const usual = () => {}
    process.on('SIGINT', usual)
    const counts: number[] = []
    const count = (name: string) => {
      if (name === 'SIGINT') counts.push(process.listenerCount('SIGINT'))
    }
    const atStart: boolean[] = []
    const started = () => atStart.push(process.listeners('SIGINT').includes(usual))
    process.on('removeListener', count)
    subscribe('child_process', started)
    try {
      const { code } = await runCommand(['psql'], {
        DATABASE_URL: warehouse.url,
        PATH: `${folder}:/bin:/usr/bin`,
      })
      expect([code, atStart, process.listeners('SIGINT')]).toEqual([0, [false], [...before, usual]])
      expect(counts.length).toBeGreaterThan(1)
      expect(Math.min(...counts)).toBeGreaterThan(0)
    } finally {
      unsubscribe('child_process', started)
      process.off('removeListener', count)
      process.off('SIGINT', usual)
    }
  })

  it('psql itself connects and has the role', async ({ skip }) => {
    if (spawnSync('psql', ['--version']).status !== 0) skip('psql is not installed here')
    const { code, stdout } = await runCli(['psql', '--as', 'analyst', '--', '-Atc', WHO], {
      DATABASE_URL: warehouse.url,
    })
    expect([code, stdout]).toEqual([0, 'intake_analyst|intake_analytics,public\n'])
  })
})

it.each([
  ['postgres://u:p%40ss@h:5/db', 'postgres://u@h:5/db', 'p@ss', ''],
  ['postgres://u@/db?host=/run/pg', 'postgres://u@/db?host=%2Frun%2Fpg', null, ''],
  ['postgres://h/db?ssl=true&sslmode=verify-full', 'postgres://h/db?sslmode=verify-full', null, ''],
  ['postgresql://h/db?password=x&sslmode=no-verify', 'postgresql://h/db?sslmode=require', 'x', ''],
  [
    'postgres://u:p:q@h/db?ssl=true&max=3&options=-c a=b',
    'postgres://u@h/db?sslmode=require',
    'p:q',
    '-c a=b',
  ],
])('%s reaches psql as %s', (given, url, password, options) => {
  expect(placeOf(given)).toEqual({ url, password, options })
})

it('without a warehouse it says so and creates nothing', async () => {
  const data = join(folder, 'never')
  const { code, stderr } = await runCommand(['psql', '-c', 'select 1'], { INTAKE_DATA_DIR: data })
  expect([code, stderr]).toEqual([1, expect.stringContaining('there is no warehouse yet')])
  expect(existsSync(data)).toBe(false)
})
