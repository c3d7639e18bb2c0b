/** `init` against the emulator: a working set-up, or one sentence and nothing written. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { PassThrough } from 'node:stream'
import { parseEnv, stripVTControlCharacters } from 'node:util'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest'
import { parse } from 'yaml'
import type { Context } from '../../../src/commands/context.ts'
import { DEPLOYMENTS, deployText } from '../../../src/commands/init/deploy.ts'
import { initCommand } from '../../../src/commands/init/init.ts'
import { startEmulator } from '../../../src/emulator/server.ts'
import { withoutPauses } from '../../e2e/support/impatient.ts'
import { openScene, query, type Scene, SMALL, variablesOf } from '../../e2e/support/scene.ts'
import { runCli, type Variables } from '../../support/cli.ts'
import { createTestDatabase } from '../../support/database.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

withoutPauses()

let scene: Scene
let folder: string
let secret: string
let files = 0
/** The key of every secret that is stored in the warehouse of this file. */
const KEY = Buffer.alloc(32, 7).toString('base64')

const newFile = () => join(folder, `settings-${++files}.env`)
const init = (words: readonly string[], env: Variables) =>
  runCommand(['init', ...words], { ...env, LOG_LEVEL: 'silent' })

beforeAll(async () => {
  scene = await openScene({}, { empty: true })
  secret = scene.env.INTAKE_API_SECRET!
  folder = makeFolder('init-')
})
afterAll(async () => {
  removeFolder(folder)
  await scene[Symbol.asyncDispose]()
})

describe('init', () => {
  it('off a terminal names what is missing and writes nothing: exit code 2', async () => {
    const file = newFile()
    const { code, stderr } = await init(['--file', file], {})
    expect([code, stderr]).toEqual([2, expect.stringContaining('--base-url')])
    expect(existsSync(file)).toBe(false)
  })

  it('tests the service, prepares the warehouse, and writes a private settings file that commands read', async () => {
    const file = newFile()
    const { code, stdout, output } = await init(['--file', file, '--json'], scene.env)
    expect(code).toBe(0)
    const { settings_file, changed, teams, checks, webhook } = JSON.parse(stdout)
    expect([settings_file, webhook]).toEqual([file, null])
    const written = [
      'DATABASE_URL',
      'INTAKE_API_KEY',
      'INTAKE_API_SECRET',
      'INTAKE_BASE_URL',
      'INTAKE_ENCRYPTION_KEY',
    ]
    expect(changed).toEqual(expect.arrayContaining(written))
    const counts = Object.fromEntries(
      teams[0].streams.map(({ stream, count }: { stream: string; count: number }) => [stream, count]),
    )
    expect(counts).toMatchObject({ patients: 45, forms: 7, packets: 5, documents: 5, responses: 48 })
    expect(teams[0]).toMatchObject({ environment: 'production', is_lower_bound: false, permitted_rate: null })
    // Five pages of patients and of responses, one of the others but messages, and each export.
    expect(teams[0].streams.filter(({ by_id }: { by_id: boolean }) => by_id)).toMatchObject([
      { stream: 'exports', count: 7, page: 7 },
    ])
    expect(teams[0].requests).toBe(5 + 5 + Math.ceil(counts.messages / 10) + 5 + (1 + 7))
    expect(checks.filter(({ status }: { status: string }) => status === 'failed')).toEqual([])
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(output).not.toContain(secret)
    const loaded = await runCommand(['status', '--json'], {
      INTAKE_DATA_DIR: undefined,
      DATABASE_URL: scene.url,
    })
    expect(loaded.code).toBe(0)
    const sourced = execFileSync('sh', ['-c', `set -a; . "${file}"; printenv INTAKE_API_SECRET DATABASE_URL`])
    expect(String(sourced)).toBe(`${secret}\n${scene.url}\n`)
  })

  it('run again changes only what differs, shows it without secrets, and keeps the other lines', async () => {
    const file = newFile()
    writeFileSync(file, '# mine\nLOG_LEVEL=silent\nINTAKE_TIMEZONE=UTC\nINTAKE_CONCURRENCY=2\n', {
      mode: 0o644,
    })
    expect((await init(['--file', file], scene.env)).code).toBe(0)
    const first = readFileSync(file, 'utf8')
    const again = await init(['--file', file], {})
    expect(again.stdout).toContain(`settings in ${file}: nothing to change`)
    expect(again.stdout).toMatch(
      /\npatients +45 +pages of 10\n[\s\S]*\nexports +7 +pages of 7, then each by itself\n/,
    )
    expect(again.stdout).toMatch(
      /a first backfill makes about \d\d requests: about \d+ s, longer if\s+the service limits requests/,
    )
    expect(again.stdout).toMatch(
      /\nnext:\n {2}export INTAKE_ENV_FILE=\S+settings-\d+\.env\n {2}intake-sync backfill\n/,
    )
    expect(readFileSync(file, 'utf8')).toBe(first)
    // The environment counts more than the file, a flag more than both.
    const env = { INTAKE_TIMEZONE: 'Europe/Paris', INTAKE_CONCURRENCY: '3' }
    const other = await init(['--file', file, '--timezone', 'Europe/Berlin', '--rate-limit', '20/s'], env)
    expect(other.stdout).toContain(
      '  ~ INTAKE_CONCURRENCY=2 → 3\n  ~ INTAKE_TIMEZONE=UTC → Europe/Berlin\n  + INTAKE_RATE_LIMIT=20/s\n',
    )
    const changed = first.replace('=UTC', '=Europe/Berlin').replace('CONCURRENCY=2', 'CONCURRENCY=3')
    expect(readFileSync(file, 'utf8')).toBe(`${changed}INTAKE_RATE_LIMIT=20/s\n`)
    expect(first.startsWith('# mine\n')).toBe(true)
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  it('each flag is the setting that it names, whatever the environment says', async () => {
    const file = newFile()
    const flags = {
      ...{
        'base-url': scene.env.INTAKE_BASE_URL!,
        'api-key': scene.env.INTAKE_API_KEY!,
        'api-secret': secret,
      },
      ...{ team: 'north', timezone: 'Europe/Berlin', 'rate-limit': '1000/s', database: scene.url },
    }
    const words = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value])
    const other = { INTAKE_BASE_URL: 'http://127.0.0.1:1', INTAKE_API_KEY: 'other', INTAKE_TEAM: 'other' }
    const env = { ...other, INTAKE_ENCRYPTION_KEY: KEY, DATABASE_URL: 'postgres://nobody@127.0.0.1:1/x' }
    const { code, stdout } = await init(['--file', file, '--json', ...words], env)
    expect([code, JSON.parse(stdout).teams[0].team]).toEqual([0, 'north'])
    expect(parseEnv(readFileSync(file, 'utf8'))).toMatchObject({
      ...{ INTAKE_BASE_URL: flags['base-url'], INTAKE_API_KEY: flags['api-key'], INTAKE_API_SECRET: secret },
      ...{ INTAKE_TEAM: 'north', INTAKE_TIMEZONE: 'Europe/Berlin', INTAKE_RATE_LIMIT: '1000/s' },
      ...{ DATABASE_URL: scene.url, INTAKE_ENCRYPTION_KEY: KEY },
    })
    // An embedded warehouse takes the place of the one of the environment.
    const none = newFile()
    const embedded = await init(['--file', none, '--database', 'embedded'], {
      ...{ ...scene.env, INTAKE_DATA_DIR: file },
    })
    expect([embedded.code, embedded.stderr, existsSync(none)]).toEqual([
      ...[2, expect.stringContaining('code: data_dir_unusable'), false],
    ])
  })

  describe('with a file whose name ends in .json', () => {
    it('in the working directory stays as it is written: what it refers to does not become a value', async () => {
      const file = named()
      const { INTAKE_BASE_URL: baseUrl, INTAKE_API_KEY: apiKey } = scene.env
      const settings = {
        ...{ DATABASE_URL: 'env:PLACE', LOG_LEVEL: 'silent', INTAKE_ENCRYPTION_KEY: 'env:THE_KEY' },
        INTAKE_DATA_DIR: folder,
      }
      const text = JSON.stringify({ settings, teams: [{ baseUrl, apiKey, apiSecret: 'env:MINE' }] })
      writeFileSync(file, text, { mode: 0o600 })
      const env = { MINE: secret, PLACE: scene.url, THE_KEY: KEY }
      const ended = await runCli(['init', '--json'], env, { cwd: resolve(file, '..') })
      expect([ended.code, JSON.parse(ended.stdout)]).toMatchObject([0, { settings_file: file, changed: [] }])
      expect(readFileSync(file, 'utf8')).toBe(text)
    })

    const named = () => join(makeFolder('init-json-', folder), 'intake-sync.json')
    const readJson = (file: string) => JSON.parse(readFileSync(file, 'utf8'))

    it('writes a private JSON file, checked by the schema next to it, that commands read', async () => {
      const file = named()
      const secretFile = join(folder, 'secret')
      writeFileSync(secretFile, `${secret}\n`)
      const env = { ...scene.env, INTAKE_API_SECRET: undefined, INTAKE_API_SECRET_FILE: secretFile }
      const first = await init(['--file', file], env)
      expect([first.code, statSync(file).mode & 0o777]).toEqual([0, 0o600])
      expect(first.stdout).toContain(
        `  + teams.0.apiKey: (hidden)\n  + teams.0.apiSecret: file:${secretFile}\n`,
      )
      const { $schema, settings, teams } = readJson(file)
      expect(settings).toMatchObject({
        DATABASE_URL: scene.url,
        INTAKE_ENCRYPTION_KEY: expect.any(String),
      })
      const { INTAKE_BASE_URL: baseUrl, INTAKE_API_KEY: apiKey } = scene.env
      expect(teams).toEqual([{ baseUrl, apiKey, apiSecret: `file:${secretFile}` }])
      const isRight = new Ajv2020().compile(readJson(resolve(file, '..', $schema)))
      expect(isRight(readJson(file))).toBe(true)
      expect(isRight({ settings: { DATABASE_URI: 'x' }, teams })).toBe(false)
      const cwd = resolve(file, '..')
      const shown = await runCli(['config', 'show', '--json'], {}, { cwd })
      const rows: readonly Record<string, unknown>[] = JSON.parse(shown.stdout).settings
      const from = (name: string) => rows.find((each) => each.name === name)
      expect(from('INTAKE_ENCRYPTION_KEY')).toMatchObject({
        source: 'settings_file',
        place: file,
        value: null,
      })
      expect(from('teams.0.baseUrl')).toMatchObject({ source: 'teams_file', value: baseUrl })
      expect((await runCli(['api', 'GET', '/v2/forms'], {}, { cwd })).code).toBe(0)
      // A team that the environment describes counts more.
      const other = { INTAKE_BASE_URL: 'http://127.0.0.1:1', INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }
      expect((await runCli(['api', 'GET', '/v2/forms'], other, { cwd })).stderr).toContain(
        'code: unreachable',
      )
    })

    it('run again changes only what differs and shows it; keys without a variable stay, and count', async () => {
      const file = named()
      const { INTAKE_BASE_URL: baseUrl, INTAKE_API_KEY: apiKey } = scene.env
      const team = { paths: { forms: '/v2/forms' }, baseUrl, apiKey, apiSecret: 'env:MINE', pageSize: 5 }
      const written = { settings: { DATABASE_URL: 'env:PLACE', LOG_LEVEL: 'silent' }, teams: [team] }
      writeFileSync(file, JSON.stringify(written))
      const own = { INTAKE_ENCRYPTION_KEY: KEY, INTAKE_DATA_DIR: folder }
      const env = { MINE: secret, PLACE: scene.url, ...own }
      const first = await init(['--file', file, '--json'], env)
      const probed = JSON.parse(first.stdout).teams[0].streams[0]
      expect([first.code, probed.page]).toEqual([0, 5])
      const settings = { ...written.settings, ...own }
      expect(readJson(file)).toEqual({ $schema: './intake-sync.schema.json', settings, teams: [team] })
      const before = readFileSync(file, 'utf8')
      const again = await init(['--file', file], env)
      expect(again.stdout).toContain(`settings in ${file}: nothing to change`)
      expect(readFileSync(file, 'utf8')).toBe(before)
      const other = await init(['--file', file, '--timezone', 'Europe/Berlin', '--database', scene.url], env)
      expect(other.stdout).toContain(
        `settings in ${file}: 2 changed\n  ~ settings.DATABASE_URL: (hidden) → (hidden)\n  + teams.0.timezone: Europe/Berlin\n`,
      )
      expect(readJson(file).teams).toEqual([{ ...team, timezone: 'Europe/Berlin' }])
      expect(statSync(file).mode & 0o777).toBe(0o600)
    })

    it('leaves the teams of a file with several to its reader', async () => {
      const file = named()
      const { INTAKE_BASE_URL: baseUrl, INTAKE_API_KEY: apiKey } = scene.env
      const teams = ['north', 'south'].map((name) => ({ name, baseUrl, apiKey, apiSecret: 'env:MINE' }))
      writeFileSync(file, JSON.stringify({ settings: { DATABASE_URL: scene.url }, teams }))
      const env = { MINE: secret }
      const first = await init(['--file', file, '--json'], env)
      expect(JSON.parse(first.stdout).teams.map((each: { team: string }) => each.team)).toEqual([
        'north',
        'south',
      ])
      expect([first.code, readJson(file).teams]).toEqual([0, teams])
      const { code, stderr } = await init(['--file', file, '--timezone', 'Europe/Berlin'], env)
      expect([code, stderr]).toEqual([2, expect.stringContaining('has several teams')])
    })

    it.each([
      ['no JSON', '{"teams": [', {}, /not a JSON object/],
      ['an unknown setting', '{"settings": {"NO_SUCH": "hunter2"}, "teams": [{}]}', {}, /NO_SUCH/],
      ['another file of teams', '{}', { INTAKE_CONFIG: '/etc/teams.json' }, /INTAKE_CONFIG names a file/],
    ])('%s: exit code 2, and the file stays as it is', async (_, text, env, said) => {
      const file = named()
      writeFileSync(file, text)
      const { code, output } = await init(['--file', file], { ...scene.env, ...env })
      expect([code, output]).toEqual([2, expect.stringMatching(said)])
      expect(output).not.toContain('hunter2')
      expect(readFileSync(file, 'utf8')).toBe(text)
    })
  })

  describe('names what is wrong in one sentence with a next step, and writes nothing:', () => {
    interface Wrong {
      readonly what: string
      /** What replaces the right settings, given a database of its own. */
      readonly with: (url: URL) => Promise<Variables> | Variables
      readonly says: RegExp
      readonly hint: RegExp
      readonly code?: readonly [exit: number, code: string]
    }
    const closing: (() => Promise<unknown>)[] = []
    afterEach(async () => {
      for (const close of closing.splice(0).reverse()) await close()
    })

    /** A service with a fault. */
    const faulty = async (faults: string): Promise<Variables> => {
      const emulator = await startEmulator({ ...SMALL, faults })
      closing.push(() => emulator.close())
      return variablesOf(emulator)
    }
    /** A web server that is not the service. */
    const answering = async (status: number, type: string, body: string): Promise<Variables> => {
      const server = createServer((_, response) =>
        response.writeHead(status, { 'Content-Type': type }).end(body),
      )
      await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
      closing.push(() => new Promise((closed) => server.close(closed).closeAllConnections()))
      return { INTAKE_BASE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
    }
    /** A login that the test creates. */
    const login = async (url: URL, grant: string): Promise<Variables> => {
      const { url: server, prefix } = inject('testServer')
      const name = `${prefix}init`
      await query(server, `create role ${name} login password 'x'`)
      closing.push(() => query(server, `drop role ${name}`))
      const [database, owner] = [url.pathname.slice(1), new URL(server).username]
      await query(server, grant.replace('DATABASE', database).replace('LOGIN', name))
      closing.push(async () => {
        await query(server, `alter database ${database} owner to "${decodeURIComponent(owner)}"`)
        await query(url.href, `drop owned by ${name}`)
      })
      return { DATABASE_URL: changed(url, { username: name, password: 'x' }) }
    }
    const changed = (url: URL, parts: Partial<URL>) => Object.assign(new URL(url), parts).href
    const moved = (url: URL, search: string) => ({ DATABASE_URL: changed(url, { search }) })

    const WRONG: readonly Wrong[] = [
      {
        ...{ what: 'the key', with: () => ({ INTAKE_API_KEY: 'wrong' }) },
        ...{ says: /^error: credentials: .*403/, hint: /copy both again/ },
      },
      {
        ...{ what: 'the secret', with: () => ({ INTAKE_API_SECRET: 'wrong' }) },
        ...{ says: /^error: credentials: .*403/, hint: /copy both again/ },
      },
      {
        what: 'credentials of the other environment',
        with: () => {
          const { api_key, api_secret } = scene.emulator.environments[1]!.teams[0]!
          return { INTAKE_API_KEY: api_key, INTAKE_API_SECRET: api_secret }
        },
        ...{ says: /^error: credentials: the production environment/, hint: /a sandbox key is not valid/ },
      },
      {
        ...{ what: 'a host without an address', with: () => ({ INTAKE_BASE_URL: 'https://no..such.host' }) },
        ...{ says: /^error: credentials: /, hint: /INTAKE_BASE_URL/ },
      },
      {
        ...{ what: 'a host where nothing listens', with: () => ({ INTAKE_BASE_URL: 'http://127.0.0.1:1' }) },
        ...{ says: /^error: credentials: /, hint: /./ },
      },
      {
        ...{ what: 'a web page', with: () => answering(200, 'text/html', '<h1>Welcome</h1>') },
        ...{ says: /^error: credentials: .*JSON/, hint: /INTAKE_BASE_URL/ },
      },
      {
        ...{ what: 'another interface', with: () => answering(200, 'application/json', '{"ok": true}') },
        ...{ says: /^error: credentials: .*no list/, hint: /INTAKE_BASE_URL/ },
      },
      {
        ...{ what: 'a server without the paths', with: () => answering(404, 'text/plain', 'nothing here') },
        ...{ says: /^error: credentials: .*404/, hint: /does not have the paths/ },
      },
      {
        what: 'a version that the service does not have',
        with: async () => ({
          ...(await answering(400, 'application/json', '{"detail": "Unknown version"}')),
          INTAKE_API_VERSION: 'v9',
        }),
        ...{ says: /^error: credentials: .*400/, hint: /INTAKE_API_VERSION/ },
      },
      {
        what: 'a server without TLS at an https address',
        with: () => ({ INTAKE_BASE_URL: scene.env.INTAKE_BASE_URL!.replace('http:', 'https:') }),
        ...{ says: /^error: credentials: /, hint: /INTAKE_BASE_URL/ },
      },
      {
        ...{
          what: 'http beyond this machine',
          with: () => ({ INTAKE_BASE_URL: 'http://forms.example.com' }),
        },
        ...{ says: /in the clear/, hint: /use https/, code: [2, 'setting_invalid'] },
      },
      {
        ...{ what: 'the clock', with: () => faulty('clock-skew=420') },
        ...{ says: /^error: clock: the clocks differ by 4(?:19|20|21) s/, hint: /NTP/ },
      },
      {
        what: 'a database server that is not there',
        with: () => ({ DATABASE_URL: 'postgres://nobody@127.0.0.1:1/x' }),
        ...{ says: /^error: database: cannot reach the warehouse/, hint: /DATABASE_URL/ },
      },
      {
        ...{
          what: 'no such database',
          with: (url) => ({ DATABASE_URL: changed(url, { pathname: '/no_such' }) }),
        },
        ...{ says: /^error: database: .*does not exist/, hint: /./ },
      },
      {
        ...{
          what: 'no such login',
          with: (url) => ({ DATABASE_URL: changed(url, { username: 'no_such' }) }),
        },
        ...{ says: /^error: database: /, hint: /DATABASE_URL/ },
      },
      {
        what: 'a login that may create no schema',
        with: (url) => login(url, 'grant connect on database DATABASE to LOGIN'),
        ...{
          says: /^error: database privileges: .*not create the schemas/,
          hint: /grant create on database/,
        },
      },
      {
        ...{ what: 'TLS that the database does not have', with: (url) => moved(url, '?sslmode=verify-full') },
        ...{ says: /^error: database: .*(?:TLS|certificate)/, hint: /DATABASE_URL/ },
      },
      {
        what: 'a database beyond this machine without TLS',
        with: () => ({ DATABASE_URL: 'postgres://ana@db.example.com/forms' }),
        ...{ says: /in the clear/, hint: /sslmode=verify-full/, code: [2, 'setting_invalid'] },
      },
    ]

    it.each(WRONG.map((wrong) => [wrong.what, wrong] as const))('%s', async (_, each) => {
      const { says, hint, code: [exit, name] = [1, 'init_refused'] } = each
      const file = newFile()
      const own = await createTestDatabase({ empty: true })
      closing.push(() => own.drop())
      const wrong = await each.with(new URL(own.url))
      const { code, stdout, stderr } = await init(['--file', file], {
        ...{ ...scene.env, DATABASE_URL: own.url, ...wrong },
      })
      expect([code, stdout, stderr.match(/^error: /gm)?.length, stderr]).toEqual([
        exit,
        '',
        1,
        expect.stringMatching(says),
      ])
      expect(/\n {2}hint: (.+)\n/.exec(stderr)?.[1]).toMatch(hint)
      expect(stderr).toContain(`\ncode: ${name}, see docs/errors.md#${name}\n`)
      if (name === 'init_refused') expect(stderr).toContain('nothing was written')
      expect(existsSync(file)).toBe(false)
    })

    it('but what it can work with is a working set-up: clocks a minute apart, a login that may create no role', async () => {
      const own = await createTestDatabase({ empty: true })
      closing.push(() => own.drop())
      const skewed = await faulty('clock-skew=90')
      const owner = await login(new URL(own.url), 'alter database DATABASE owner to LOGIN')
      const { code, stdout } = await init(['--file', newFile()], { ...scene.env, ...skewed, ...owner })
      expect([code, stdout]).toEqual([0, expect.stringMatching(/warning +clock +the clocks differ by \d+ s/)])
    })

    it('the key of stored webhook secrets: the checks at the end name it, exit code 1', async () => {
      const words = ['--file', newFile(), '--webhook-url', 'http://127.0.0.1:9/other']
      await using own = await createTestDatabase()
      const env = { ...scene.env, DATABASE_URL: own.url }
      expect((await init(words, { ...env, INTAKE_ENCRYPTION_KEY: KEY })).code).toBe(0)
      const other = Buffer.alloc(32, 8).toString('base64')
      const { code, stdout } = await init(words, { ...env, INTAKE_ENCRYPTION_KEY: other })
      expect([code, stdout]).toEqual([1, expect.stringMatching(/failed +encryption key .*another key/)])
      expect(stdout).toMatch(/hint: .*INTAKE_ENCRYPTION_KEY/)
    })
  })

  it('creates the webhook on demand and stores its secret, once', async () => {
    const file = newFile()
    const words = ['--file', file, '--webhook-url', 'http://127.0.0.1:9/webhooks', '--json']
    const first = JSON.parse((await init(words, { ...scene.env, INTAKE_ENCRYPTION_KEY: KEY })).stdout)
    expect(first.webhook).toEqual({ id: expect.any(String), created: true })
    const stored = await query(
      scene.url,
      'select config_id from intake_ops.webhook_secrets where retired_at is null',
    )
    expect(stored).toEqual([{ config_id: first.webhook.id }])
    const second = await init(words.slice(0, -1), {})
    expect(second.stdout).toContain(`webhook ${first.webhook.id}: there already`)
    expect(second.stdout).toContain(`intake-sync webhooks test ${first.webhook.id}`)
    await query(scene.url, 'update intake_ops.webhook_secrets set retired_at = now()')
    const third = JSON.parse((await init(words, {})).stdout)
    expect(third.webhook).toEqual({ id: expect.not.stringMatching(`^${first.webhook.id}$`), created: true })
  })
})

describe('at a terminal', () => {
  /** Types each answer when its question is shown. */
  async function converse(answers: readonly (readonly [question: string, typed: string])[], file: string) {
    const input = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => {} })
    const output = Object.assign(new PassThrough(), { isTTY: true, columns: 80, rows: 24 })
    let said = ''
    let at = 0
    let seen = 0
    output.on('data', (data: Buffer) => {
      said += String(data)
      const next = answers[at]
      if (next === undefined || !stripVTControlCharacters(said.slice(seen)).includes(next[0])) return
      at += 1
      seen = said.length
      setImmediate(() => input.write(`${next[1]}\r`))
    })
    let stdout = ''
    const context: Context = {
      env: { LOG_LEVEL: 'silent', INTAKE_ENCRYPTION_KEY: KEY },
      stdout: { write: (text) => (stdout += String(text)) },
      stderr: { write: () => true },
      signal: new AbortController().signal,
      version: '0.0.0',
    }
    const ended = await initCommand(context, { input: input as never, output: output as never })
      .parseAsync(['--file', file], { from: 'user' })
      .then(
        () => 0,
        (error: { exitCode?: number }) => error.exitCode ?? error,
      )
    return { ended, stdout, said: stripVTControlCharacters(said), asked: at }
  }

  it('asks for missing settings, asks again for refused credentials, and never shows a secret', async () => {
    const file = newFile()
    const { INTAKE_BASE_URL, INTAKE_API_KEY } = scene.env
    const { ended, stdout, said, asked } = await converse(
      [
        ['Address of the service', INTAKE_BASE_URL!],
        ['Its API key', INTAKE_API_KEY!],
        ['Its API secret', 'mistyped-secret'],
        ['Warehouse', scene.url],
        ['Try other credentials?', 'y'],
        ['Its API key', INTAKE_API_KEY!],
        ['Its API secret', secret],
        ['Public address of serve', ''],
        ['How will it run?', '\u001b[B'],
      ],
      file,
    )
    expect([ended, asked]).toEqual([0, 9])
    expect(stdout).toContain('0 2 * * *  INTAKE_ENV_FILE=')
    expect(stdout + said).not.toContain(secret)
    expect(said).not.toContain('mistyped-secret')
    expect(readFileSync(file, 'utf8')).toContain(`INTAKE_API_SECRET=${secret}`)
  })

  it('ends with exit code 130 at Ctrl-C, and writes nothing', async () => {
    const file = newFile()
    const { ended } = await converse([['Address of the service', '\u0003']], file)
    expect(ended).toBe(130)
    expect(existsSync(file)).toBe(false)
  })
})

it.each(Object.keys(DEPLOYMENTS) as (keyof typeof DEPLOYMENTS)[])(
  'what it prints for %s can be used',
  (kind) => {
    const text = deployText(kind, '/srv/in 100%/settings.env')
    if (kind === 'cron') {
      const command = text.split('\n')[1]!.replace('0 2 * * *', '').replaceAll('\\%', '%')
      expect(text).not.toMatch(/[^\\]%/)
      const shown = execFileSync('sh', [
        '-c',
        `${command.replace(/(INTAKE_ENV_FILE=\S+ ?\S*settings.env'?).*/, '$1')} printenv INTAKE_ENV_FILE`,
      ])
      expect(String(shown)).toBe('/srv/in 100%/settings.env\n')
    }
    if (kind === 'systemd') {
      expect(text).toContain('Environment="INTAKE_ENV_FILE=/srv/in 100%%/settings.env"')
      expect(text).toContain('\nWorkingDirectory=/srv/in 100%%\n')
    }
    if (kind === 'compose') {
      const { services } = parse(text)
      expect(services['intake-sync']).toMatchObject({
        command: 'serve',
        env_file: '/srv/in 100%/settings.env',
      })
      const ofJson = parse(deployText(kind, '/srv/my settings.json')).services['intake-sync']
      expect(ofJson.volumes).toEqual([`/srv/my settings.json:${ofJson.environment.INTAKE_ENV_FILE}:ro`])
      expect(ofJson.user).toBe(`${process.getuid!()}:${process.getgid!()}`)
      // An installed package has nothing to build an image from.
      expect(services['intake-sync'].build).toBe(resolve(import.meta.dirname, '../../..'))
      const installed = parse(deployText(kind, '/srv/settings.env', folder)).services['intake-sync']
      expect(installed).toMatchObject({ image: 'intake-sync', command: 'serve' })
      expect(installed).not.toHaveProperty('build')
    }
  },
)
