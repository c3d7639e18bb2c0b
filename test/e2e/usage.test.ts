/** Output of the command line for wrong usage, for scripts, for a reader that closes its pipe, and for a full disk. */
import { existsSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { runCli } from '../support/cli.ts'
import { runCommand } from '../support/run-command.ts'
import { openScene, openWarehouse, query, type Scene } from './support/scene.ts'

let scene: Scene

beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene[Symbol.asyncDispose]())

describe('wrong usage exits with 2, names the mistake, sends no request and prints no result', () => {
  it.each([
    [['backfil'], 'backfil'],
    [['backfill', '--bogus'], '--bogus'],
    [['backfill', 'patients'], 'backfill'],
    [['backfill', '--streams', 'patients,nonsense'], 'unknown stream "nonsense"\n'],
    [['backfill', '--streams', 'Webhook-config'], 'did you mean webhook_configs? the streams are: '],
    [['backfill', '--streams', 'packet_responses'], 'cannot read the stream packet_responses'],
    [['backfill', '--team', 'nobody'], 'the configuration has no team "nobody"'],
    [['backfill', '--since', 'yesterday'], '--since'],
    [['status', '--max-age', '3x'], "'3x' is invalid. Use a duration such as 26h, 90m or 2d, or"],
    [['dead-letters', 'list', '--stream', 'form'], 'did you mean forms?'],
    [['explain', 'patient', '1'], 'did you mean patients?'],
    [['wait', 'patient'], 'did you mean patients?'],
    [['migrate', '--down'], '--down'],
    [['verify', '--allow-mass-delete'], '--allow-mass-delete has no effect without --repair'],
    [['verify', '--deep', '--streams', 'responses'], '--deep needs the streams responses and exports'],
    [['verify', '--deep', '--streams', 'exports'], '--deep needs the streams responses and exports'],
    [['replay', '--team', ''], '--team is empty'],
    [['replay', '--inbox'], '--inbox and --since go together'],
    [['replay', '--since', '2026-01-01'], '--inbox and --since go together'],
    [['replay', '--inbox', '--since', 'soon'], '--since is a time'],
    [['replay', '--inbox', '--since', '2026-01-01', '--detach'], '--detach and --inbox exclude each other'],
    [['serve', '--cron', '0 2 * *'], 'Use a cron expression of five fields'],
    [['work', '--teams', 'nobody'], 'has no team "nobody"'],
    [['work', '--concurrency', '0'], 'Use a whole number from 1 to 999999.'],
    [['classify', 'tag', 'x', 'structured'], 'a tag needs a visibility'],
    [['dead-letters', 'discard'], 'missing required argument'],
    [['dead-letters', 'discard', '1234567890'], 'Use the number that dead-letters list shows.'],
    [[], 'Usage:'],
  ])('%j', async (words, named) => {
    scene.emulator.control.resetCounters()
    const run = await runCommand(words, scene.env)
    expect(run).toMatchObject({ code: 2, stdout: '' })
    expect(run.stderr).toContain(named)
    expect(scene.emulator.control.requests()).toEqual([])
  })

  it.each([
    ['DATABASE_URL', 'mysql://her-password@host/db'],
    ['INTAKE_BASE_URL', 'ftp://her-password'],
    ['INTAKE_API_SECRET', 'her-pässword'],
    ['INTAKE_CONFIG', '/nonexistent/her-password'],
  ])('an invalid %s is named and its value never shown', async (name, value) => {
    const run = await runCommand(['backfill'], { ...scene.env, [name]: value })
    expect(run).toMatchObject({ code: 2, stdout: '' })
    expect(run.stderr).toContain(name)
    expect(run.output).not.toMatch(/her.p/)
  })

  it.each([
    [
      ['backfill', '--streams', 'patient'],
      'error: unknown stream "patient"\n  hint: did you mean patients? ',
    ],
    [['verify', '--streams', 'patient'], 'error: unknown stream "patient"\n  hint: did you mean patients? '],
    [['replay', '--streams', 'patient'], 'error: unknown stream "patient"\n  hint: did you mean patients? '],
    [['backfill', '--since', 'soon'], 'error: --since is not a date\n  hint: write it as YYYY-MM-DD\n'],
    [['teams', 'remove', 'north'], 'error: neither --keep-data nor --delete-data was given\n'],
    [['api', 'GETT', '/v2/patients'], 'error: METHOD is not one of GET, '],
    [['api', 'GET', 'v2/patients'], 'error: PATH must begin with one slash'],
    [['api', 'POST', '/v2/patients', '-d', '{'], 'error: -d is not JSON\n'],
    [['patients', 'upload', 'none.txt'], 'error: FILE is not a .csv file\n'],
    [['patients', 'upload', 'none.csv'], 'error: FILE cannot be read (ENOENT)\n'],
    [['webhooks', 'create', '--url', 'here'], 'error: --url is not an http(s) URL\n'],
    [['webhooks', 'update', '1'], 'error: no field to change was given\n'],
    [['webhooks', 'update', '1', '--replace', '--active', 'true'], 'error: --replace needs --url\n'],
  ])('%j: the mistake in the command is reported before missing settings', async (words, said) => {
    const run = await runCommand(words, { DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' })
    expect([run.code, run.stderr.slice(0, said.length)]).toEqual([2, said])
  })

  it.each([
    ['the port', 'postgres://her-user:her-password@host:99999/db'],
    ['the port', 'postgres://her-user:her-password@[::1]:five/db'],
    ['the port', 'postgres://her-password?port=her-port'],
    ['the user or password', 'postgres://her-user:her-pass%word@host/db'],
  ])('%s in DATABASE_URL is named, and no part of the value shown', async (part, url) => {
    const run = await runCommand(['status'], { DATABASE_URL: url })
    expect(run).toMatchObject({ code: 2, stdout: '' })
    expect(run.stderr).toMatch(new RegExp(`^error: ${part} in DATABASE_URL is not `))
    expect(run.stderr).not.toContain('her-')
  })

  it('help is no error, for the program and for its commands', async () => {
    for (const words of [
      ['backfill', '--help'],
      ['status', '--help'],
    ]) {
      expect(await runCommand(words, {})).toMatchObject({ code: 0, stderr: '' })
    }
    expect(await runCli(['--help'], {})).toMatchObject({ code: 0, stderr: '' })
  })

  it.each([
    [['webhooks', '--json'], 'create, list, update, delete, events, test'],
    [['patients', '--json'], 'upload'],
  ])('%j lists the commands in its document', async (words, names) => {
    const run = await runCommand(words, scene.env)
    expect(run.code).toBe(2)
    const { error } = JSON.parse(run.stdout)
    expect(error).toMatchObject({ code: 'usage', hint: 'add --help for usage' })
    expect(error.message).toBe(`${words[0]} needs a command: ${names}`)
  })

  it('a command that a group does not have is named', async () => {
    const run = await runCommand(['webhooks', 'bogus', '--json'], scene.env)
    expect([run.code, JSON.parse(run.stdout).error.message]).toEqual([
      2,
      expect.stringContaining("unknown command 'bogus'"),
    ])
  })

  it('is the exit code of the process', async () => {
    for (const words of [['backfill', '--bogus'], ['backfil']]) {
      expect(await runCli(words, scene.env)).toMatchObject({ code: 2, signal: null, stdout: '' })
    }
  })
})

describe('backfill', () => {
  it('--json prints one document with the figures of each stream, and a successful run logs nothing', async () => {
    const run = await runCommand(['backfill', '--json'], scene.env)
    expect(run).toMatchObject({ code: 0, stderr: '' })
    const document = JSON.parse(run.stdout)
    expect(document).toMatchObject({ run_id: expect.any(Number), status: 'succeeded' })
    expect(Object.keys(document.streams)).toEqual(STREAMS.map(({ name }) => name))
    const figures = [
      'requests',
      'throttled',
      'fetched',
      'changed',
      'unchanged',
      'deleted',
      'dead_letters',
      'problems',
      'seconds',
    ]
    for (const stream of Object.values(document.streams) as Record<string, unknown>[]) {
      for (const figure of figures) expect(stream[figure], figure).toEqual(expect.any(Number))
    }
    expect(document.streams.patients).toMatchObject({ requests: 5, fetched: 45, changed: 45 })
  })

  it('without --json it prints the same as plain text, without terminal codes', async () => {
    const run = await runCommand(['backfill'], scene.env)
    expect(run.stderr).toBe('')
    expect(run.stdout).toMatch(/^patients +45 +0 +45 +0 +0 +0 +5 +[\d.]+$/m)
    expect(run.stdout).toMatch(/^run \d+: succeeded$/m)
    expect(run.output).not.toContain('\u001b')
  })

  it('reads only the given streams', async () => {
    scene.emulator.control.resetCounters()
    expect((await scene.backfill('--streams', 'forms, packets')).code).toBe(0)
    const asked = scene.emulator.control.requests().map(({ url }) => url.split(/[/?]/)[2])
    expect(new Set(asked)).toEqual(new Set(['forms', 'packets']))
  })

  it.runIf(existsSync('/dev/full'))(
    'does its work on a full disk, and reports in one line that its result is lost',
    async () => {
      await using warehouse = await openWarehouse()
      const env = { ...scene.env, DATABASE_URL: warehouse.url }
      for (const words of [['backfill', '--streams', 'forms'], ['status', '--json'], ['--help']]) {
        const run = await runCli(words, env, { onto: '/dev/full' })
        expect([run.code, run.stderr]).toEqual([1, 'error: standard output could not be written (ENOSPC)\n'])
      }
      const [forms] = await query<{ forms: number }>(
        warehouse.url,
        'select count(*)::int as forms from intake.forms',
      )
      expect(forms?.forms).toBeGreaterThan(0)
    },
  )

  it('continues when the reader of its output closes the pipe', async () => {
    await using warehouse = await openWarehouse()
    const env = { ...scene.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'trace' }
    const few = ['--streams', 'patients,forms']
    const run = await runCli(['backfill', '--json', ...few], env, { pipeInto: '{ read line; exec <&-; }' })
    expect(run.stderr).not.toContain('EPIPE')
    expect((await runCommand(['backfill', '--json', ...few], env)).stdout).toMatch(/"unchanged": 45/)
    const dropped = await runCli(['backfill', ...few], env, { pipeInto: 'head -c 1' })
    expect(dropped.stdout).toBe('s')
    const status = await runCommand(['status', '--json'], env)
    const { streams } = JSON.parse(status.stdout) as {
      streams: { stream: string; last_run_status: string }[]
    }
    const read = streams.filter(({ stream }) => ['patients', 'forms'].includes(stream))
    expect(read.map((stream) => stream.last_run_status)).toEqual(['succeeded', 'succeeded'])
  })
})

describe('without a warehouse', () => {
  const nowhere = { INTAKE_DATA_DIR: '/nowhere/at/all' }

  it('status says so with exit code 4, and no command that only reads creates one', async () => {
    const status = await runCommand(['status'], nowhere)
    expect(status).toMatchObject({ code: 4, stderr: '' })
    expect(status.stdout).toMatch(/^there is no warehouse yet.*\n {2}hint: .*intake-sync backfill/)
    const json = await runCommand(['status', '--json'], nowhere)
    expect([json.code, JSON.parse(json.stdout).error.code]).toEqual([4, 'no_warehouse'])
    for (const words of [
      ['runs'],
      ['explain', 'patients', '1'],
      ['migrate', '--status'],
      ['teams', 'list'],
      ['access', 'list'],
    ]) {
      const ended = await runCommand(words, nowhere)
      expect([words, ended.code, ended.stderr]).toEqual([
        words,
        1,
        expect.stringContaining('there is no warehouse yet'),
      ])
    }
    expect(existsSync('/nowhere')).toBe(false)
  })
})

describe('the next step', () => {
  it('follows a backfill, a dry one, and a verification that found differences', async () => {
    await using own = await openScene({ responses: 0 })
    expect((await own.backfill('--dry-run')).stdout).toMatch(/\nnext: intake-sync backfill\n$/)
    expect((await own.backfill()).stdout).toMatch(/\nnext: intake-sync psql --as analyst\n$/)
    expect((await own.backfill('--json')).stdout).not.toContain('next:')
    const verify = (...words: string[]) => runCommand(['verify', '--streams', 'patients', ...words], own.env)
    expect((await verify()).stdout).not.toContain('next:')
    own.emulator.control.updatePatient(own.emulator.control.world().patients.slice(0, 1)[0]!.id, {
      city: 'Elsewhere',
    })
    const { stdout } = await verify()
    expect(stdout).toMatch(/patients different: \S+ \(city(, \w+)*\)\n/)
    expect(stdout).not.toMatch(/_hash|intake_raw/)
    expect(stdout).toContain('next: intake-sync verify --repair loads what differs\n')
    // Why a living service differs again, and messages longest.
    expect(stdout).toMatch(/until its event arrives. Messages .* differ until the next backfill\.\n/)
    expect((await verify('--repair')).stdout).not.toContain('next:')
  })

  it('of who waits for a verification is to look at how far it is', async () => {
    await using own = await openScene({ responses: 0 })
    expect((await own.backfill('--streams', 'patients')).code).toBe(0)
    await using session = await openSession({ url: own.url, purpose: 'test' })
    await session.client.query('begin; lock table intake.patients in access exclusive mode')
    const verification = runCommand(['verify', '--streams', 'patients'], own.env)
    const phases = () =>
      own.query(
        `select team_id, stream, phase = 'ended' as ended from intake_ops.run_progress join intake_ops.runs using (run_id)
         where kind = 'verify'`,
      )
    await expect.poll(phases).toEqual([{ team_id: 1, stream: 'patients', ended: false }])
    await session.client.query('commit')
    expect((await verification).code).toBe(0)
    expect(await phases()).toEqual([{ team_id: 1, stream: 'patients', ended: true }])
  })
})
