/** Teams, from the environment or from a file: checked equally strictly, and never shown in messages. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { readConfig, requireTeams } from '../../src/config/config.ts'
import { UsageError } from '../../src/core/errors.ts'

const CANARY = 'canary7f3a'

const folder = mkdtempSync(join(tmpdir(), 'intake-sync-teams-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0
function fileOf(content: unknown): string {
  const path = join(folder, `file-${++files}`)
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

const SERVICE = {
  INTAKE_BASE_URL: 'https://forms.example.com',
  INTAKE_API_KEY: 'key',
  INTAKE_API_SECRET: 'secret',
} as const

/** The error of a configuration, which must not show the canary. */
function errorOf(env: NodeJS.ProcessEnv): UsageError {
  try {
    readConfig(env)
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError)
    const { message, hint, stack } = error as UsageError
    expect(`${message} ${hint} ${stack}`).not.toContain(CANARY)
    return error as UsageError
  }
  throw new Error('the configuration was accepted')
}

describe('a team from the environment', () => {
  test('has the defaults of the contract', () => {
    expect(readConfig(SERVICE).teams).toEqual([
      {
        name: 'default',
        baseUrl: 'https://forms.example.com',
        apiKey: 'key',
        apiSecret: 'secret',
        apiVersion: 'v2.1',
        webhookSecrets: [],
        timezone: 'UTC',
        concurrency: 4,
        giveUpAfterMs: 900_000,
      },
    ])
  })

  test('takes every setting', () => {
    const env = {
      ...SERVICE,
      INTAKE_TEAM: 'north.1-a_b',
      INTAKE_API_VERSION: '',
      INTAKE_WEBHOOK_SECRETS: 'one, two,',
      INTAKE_TIMEZONE: 'Europe/Berlin',
      INTAKE_CONCURRENCY: '64',
      INTAKE_GIVE_UP_AFTER: '90s',
      INTAKE_RATE_LIMIT: '1000/min',
    }
    expect(readConfig(env).teams).toMatchObject([
      {
        name: 'north.1-a_b',
        apiVersion: '',
        webhookSecrets: ['one', 'two'],
        timezone: 'Europe/Berlin',
        concurrency: 64,
        giveUpAfterMs: 90_000,
        rateLimit: { requests: 1000, seconds: 60 },
      },
    ])
  })

  test.each([['INTAKE_BASE_URL'], ['INTAKE_API_KEY'], ['INTAKE_API_SECRET']] as const)(
    'without %s is rejected with its name',
    (name) => {
      expect(errorOf({ ...SERVICE, [name]: undefined })).toMatchObject({
        message: `${name} must be set too`,
        variable: name,
        code: 'setting_missing',
      })
    },
  )

  test.each([
    ['https://forms.example.com/api/', 'https://forms.example.com/api'],
    ['https://forms.example.com//', 'https://forms.example.com'],
    ['http://127.0.0.1:4010', 'http://127.0.0.1:4010'],
    ['http://127.9.9.9', 'http://127.9.9.9'],
    ['http://localhost:4010', 'http://localhost:4010'],
    ['http://[::1]:4010', 'http://[::1]:4010'],
  ])('may have the URL %s', (url, expected) => {
    expect(readConfig({ ...SERVICE, INTAKE_BASE_URL: url }).teams[0]?.baseUrl).toBe(expected)
  })

  test.each([
    `http://${CANARY}.example.com`,
    `http://127.0.0.1.${CANARY}.com`,
    'http://localhost.example.com',
    `ftp://${CANARY}`,
    `${CANARY}`,
    `https://user:${CANARY}@forms.example.com`,
    `https://forms.example.com/?key=${CANARY}`,
    `https://forms.example.com/#${CANARY}`,
  ])('may not have the URL %s', (url) => {
    expect(errorOf({ ...SERVICE, INTAKE_BASE_URL: url })).toMatchObject({ variable: 'INTAKE_BASE_URL' })
  })

  test('may have an unencrypted URL if that is allowed', () => {
    const env = { ...SERVICE, INTAKE_BASE_URL: 'http://forms.internal' }
    expect(readConfig({ ...env, INTAKE_ALLOW_HTTP: '1' }).teams[0]?.baseUrl).toBe('http://forms.internal')
    expect(errorOf({ ...env, INTAKE_ALLOW_HTTP: '0' }).hint).toContain('INTAKE_ALLOW_HTTP=1')
  })

  test.each([
    ['INTAKE_API_KEY', `${CANARY}\nx`],
    ['INTAKE_API_SECRET', `${CANARY}ü`],
    ['INTAKE_API_VERSION', `${CANARY}\r`],
    ['INTAKE_TEAM', `${CANARY} team`],
    ['INTAKE_TEAM', CANARY.repeat(7)],
    ['INTAKE_TIMEZONE', CANARY],
    ['INTAKE_CONCURRENCY', '0'],
    ['INTAKE_CONCURRENCY', '65'],
    ['INTAKE_CONCURRENCY', CANARY],
    ['INTAKE_CONCURRENCY', '4x'],
    ['INTAKE_CONCURRENCY', ' 4'],
    ['INTAKE_CONCURRENCY', '004'],
    ['INTAKE_GIVE_UP_AFTER', '0s'],
    ['INTAKE_GIVE_UP_AFTER', '15'],
    ['INTAKE_GIVE_UP_AFTER', '8d'],
    ['INTAKE_GIVE_UP_AFTER', CANARY],
    ['INTAKE_RATE_LIMIT', '20'],
    ['INTAKE_RATE_LIMIT', '0/s'],
    ['INTAKE_RATE_LIMIT', '2.5/s'],
    ['INTAKE_RATE_LIMIT', '-1/s'],
    ['INTAKE_RATE_LIMIT', '20/d'],
    ['INTAKE_RATE_LIMIT', '100001/h'],
    ['INTAKE_RATE_LIMIT', '59/h'],
    ['INTAKE_RATE_LIMIT', `20/s ${CANARY}`],
  ])('may not have %s %j', (name, value) => {
    expect(errorOf({ ...SERVICE, [name]: value })).toMatchObject({ variable: name })
  })
})

test.each([
  ['1/s', { requests: 1, seconds: 1 }],
  ['20/s', { requests: 20, seconds: 1 }],
  ['1000/min', { requests: 1000, seconds: 60 }],
  ['600/m', { requests: 600, seconds: 60 }],
  ['1/min', { requests: 1, seconds: 60 }],
  ['60/h', { requests: 60, seconds: 3_600 }],
  ['100000/h', { requests: 100_000, seconds: 3_600 }],
  ['learned', undefined],
  ['', undefined],
])('a request limit may be %j', (text, rateLimit) => {
  expect(readConfig({ ...SERVICE, INTAKE_RATE_LIMIT: text }).teams[0]?.rateLimit).toEqual(rateLimit)
})

describe('a file of teams', () => {
  const team = (more: object = {}) => ({
    name: 'north',
    baseUrl: 'https://forms.example.com',
    apiKey: 'key',
    apiSecret: 'secret',
    ...more,
  })
  const withTeams = (...teams: object[]): NodeJS.ProcessEnv => ({ INTAKE_CONFIG: fileOf({ teams }) })

  test('contains any number of them, each with its own settings, which take precedence over the environment', () => {
    const env = {
      ...SERVICE,
      ...withTeams(
        team({
          webhookSecrets: ['w'],
          timezone: 'America/New_York',
          concurrency: 2,
          pageSize: 50,
          paths: { forms: '/v3/forms' },
        }),
        team({ name: 'south', apiVersion: '', bodyKeys: { webhookTestId: 'config_id' } }),
      ),
      INTAKE_TIMEZONE: 'Europe/Berlin',
      INTAKE_CONCURRENCY: '8',
    }
    expect(readConfig(env).teams).toMatchObject([
      {
        name: 'north',
        webhookSecrets: ['w'],
        timezone: 'America/New_York',
        concurrency: 2,
        pageSize: 50,
        paths: { forms: '/v3/forms' },
      },
      {
        name: 'south',
        timezone: 'Europe/Berlin',
        apiVersion: '',
        concurrency: 8,
        bodyKeys: { webhookTestId: 'config_id' },
      },
    ])
  })

  test('may have settings at each end of their ranges', () => {
    const least = { name: 'n', concurrency: 1, pageSize: 1, apiVersion: 'v2' }
    const most = { name: 'n'.repeat(63), concurrency: 64, pageSize: 100_000 }
    const env = { ...withTeams(team(least), team(most)), INTAKE_GIVE_UP_AFTER: '7d' }
    expect(readConfig(env).teams).toMatchObject([
      { ...least, giveUpAfterMs: 604_800_000 },
      { ...most, apiVersion: 'v2.1' },
    ])
    expect(readConfig({ ...env, INTAKE_GIVE_UP_AFTER: '1s' }).teams[0]?.giveUpAfterMs).toBe(1_000)
  })

  test('has request limits of its own, which take precedence over the environment', () => {
    const env = {
      ...withTeams(
        team({ rateLimit: '5/s' }),
        team({ name: 'south' }),
        team({ name: 'west', rateLimit: 'learned' }),
      ),
      INTAKE_RATE_LIMIT: '600/min',
    }
    expect(readConfig(env).teams.map(({ rateLimit }) => rateLimit)).toEqual([
      { requests: 5, seconds: 1 },
      { requests: 600, seconds: 60 },
      undefined,
    ])
  })

  test('may take values from the environment and from files', () => {
    const env = {
      ...withTeams(
        team({
          apiKey: 'env:NORTH_KEY',
          apiSecret: `file:${fileOf('from a file\n')}`,
          webhookSecrets: ['env:NORTH_HOOK'],
        }),
      ),
      NORTH_KEY: 'from the environment',
      NORTH_HOOK_FILE: fileOf('from a secret\n'),
    }
    expect(readConfig(env).teams).toMatchObject([
      { apiKey: 'from the environment', apiSecret: 'from a file', webhookSecrets: ['from a secret'] },
    ])
  })

  test.each<[string, unknown, RegExp]>([
    ['that is not JSON', `{"teams":[{"apiKey":"${CANARY}"`, /not JSON/],
    ['that is empty', '', /not JSON/],
    ['without teams', { teams: [] }, /teams: too small/],
    ['that is a list', [team({ apiKey: CANARY })], /^INTAKE_CONFIG: the file: invalid type$/],
    ['without any team', { teams: null }, /^INTAKE_CONFIG: teams: invalid type$/],
    [
      'with settings of its own',
      { settings: { LOG_LEVEL: CANARY }, teams: [team()] },
      /settings\.LOG_LEVEL is not read, because the file is not the settings file/,
    ],
    ['with an unknown key', { teams: [team({ apikey: CANARY })] }, /teams\.0: unrecognized keys \(apikey\)/],
    [
      'with an unknown key next to the teams',
      { teams: [team()], team: CANARY },
      /unrecognized keys \(team\)/,
    ],
    [
      'with a key that is missing',
      { teams: [{ ...team(), apiKey: undefined }] },
      /INTAKE_CONFIG teams\.0\.apiKey must be set too/,
    ],
    [
      'with an empty address and without a key',
      { teams: [team({ baseUrl: '', apiKey: undefined })] },
      /^INTAKE_CONFIG teams\.0\.apiKey must be set too$/,
    ],
    ['with an access that is empty', { teams: [team({ apiKey: '' })] }, /teams\.0\.apiKey: too small/],
    ['with a number for text', { teams: [team({ apiSecret: 7 })] }, /teams\.0\.apiSecret/],
    ['with a name that is none', { teams: [team({ name: `${CANARY}/` })] }, /teams\.0\.name/],
    [
      'with a limit that is none',
      { teams: [team({ rateLimit: `${CANARY}/s` })] },
      /teams\.0\.rateLimit is not/,
    ],
    ['with a limit that is a number', { teams: [team({ rateLimit: 20 })] }, /teams\.0\.rateLimit: invalid/],
    ['with two of one name', { teams: [team(), team({ apiKey: CANARY })] }, /two teams have the same name/],
    [
      'with two others of one name',
      { teams: [team(), team({ name: 'south' }), team({ name: 'south', apiKey: CANARY })] },
      /two teams have the same name/,
    ],
    [
      'with an open address',
      { teams: [team({ baseUrl: `http://${CANARY}.example.com` })] },
      /teams\.0\.baseUrl/,
    ],
    [
      'with an unknown path',
      { teams: [team(), team({ name: 'south', paths: { patient: '/v2/p/{id}', chart: CANARY } })] },
      /INTAKE_CONFIG teams\.1\.paths\.chart is not a path of the service/,
    ],
    [
      'with a path that is none',
      { teams: [team({ paths: { forms: CANARY } })] },
      /INTAKE_CONFIG teams\.0\.paths\.forms must begin with one slash/,
    ],
    [
      'with a path that lacks its id',
      { teams: [team({ paths: { form: `/${CANARY}` } })] },
      /INTAKE_CONFIG teams\.0\.paths\.form must contain \{id\}/,
    ],
    [
      'with a value for the name of a path',
      { teams: [team({ paths: { [`/${CANARY}`]: '/v2/forms' } })] },
      /INTAKE_CONFIG teams\.0\.paths\.an unknown key is not a path/,
    ],
    [
      'with a value for a key',
      { teams: [team({ [`${CANARY} x`]: 1, [CANARY.repeat(4)]: 2, apikey: 3 })] },
      /unrecognized keys \(an unknown key, an unknown key, apikey\)/,
    ],
    [
      'with a value for the name of a path that is a number',
      { teams: [team({ paths: { [`/${CANARY}`]: 7 } })] },
      /teams\.0\.paths\.an unknown key: invalid type/,
    ],
    [
      'with a body key that the service does not have',
      { teams: [team({ bodyKeys: { test: 'config_id' } })] },
      /teams\.0\.bodyKeys\.test is not a body key of the service/,
    ],
    [
      'with an empty body key',
      { teams: [team({ bodyKeys: { exportId: '' } })] },
      /teams\.0\.bodyKeys\.exportId is empty/,
    ],
    [
      'with a value for a key that names a variable which is not set',
      { teams: [team({ bodyKeys: { [`${CANARY}@`]: 'env:NOTHING' } })] },
      /teams\.0\.bodyKeys\.an unknown key names a variable/,
    ],
    ['with a page size of none', { teams: [team({ pageSize: 0 })] }, /teams\.0\.pageSize: too small/],
    ['with too large a page', { teams: [team({ pageSize: 100_001 })] }, /teams\.0\.pageSize: too big/],
    ['with half a page', { teams: [team({ pageSize: 1.5 })] }, /teams\.0\.pageSize: invalid type/],
    ['with no request at a time', { teams: [team({ concurrency: 0 })] }, /concurrency: too small/],
    ['with too many requests at a time', { teams: [team({ concurrency: 65 })] }, /concurrency: too big/],
    ['with half a request at a time', { teams: [team({ concurrency: 1.5 })] }, /concurrency: invalid type/],
    ['with an empty secret', { teams: [team({ webhookSecrets: [''] })] }, /webhookSecrets\.0: too small/],
    ['with too long a name', { teams: [team({ name: 'n'.repeat(64) })] }, /teams\.0\.name/],
    ['with a zone that is none', { teams: [team({ timezone: CANARY })] }, /teams\.0\.timezone/],
    ['with a key that cannot be sent', { teams: [team({ apiKey: `${CANARY}\n` })] }, /teams\.0\.apiKey/],
    [
      'that names a variable which is not set',
      { teams: [team({ apiKey: `env:${CANARY}` })] },
      /^INTAKE_CONFIG: teams\.0\.apiKey names a variable that is not set$/,
    ],
    [
      'that names a file which is not there',
      { teams: [team({ apiKey: `file:/${CANARY}` })] },
      /^INTAKE_CONFIG teams\.0\.apiKey names a file.*ENOENT/,
    ],
  ])('%s is rejected, and its content is not shown', (_, content, message) => {
    // A variable that is empty counts as not set.
    const error = errorOf({ INTAKE_CONFIG: fileOf(content), [CANARY]: '' })
    expect(error.message).toMatch(message)
    expect(error.message).toContain('INTAKE_CONFIG')
    expect(error.variable).toMatch(/^INTAKE_CONFIG/)
    expect(error.code).toMatch(/^setting_|^file_unreadable$/)
    expect(error.hint).toMatch(/\w/)
  })

  test.each(['CONFIG', 'TEAM', 'BASE_URL', 'API_KEY', 'API_SECRET', 'WEBHOOK_SECRETS'])(
    'has no setting INTAKE_%s: teams have it themselves',
    (name) => {
      const path = fileOf({ settings: { [`INTAKE_${name}`]: CANARY }, teams: [team()] })
      const env = { INTAKE_CONFIG: path, [`INTAKE_${name}`]: name === 'CONFIG' ? path : CANARY }
      expect(errorOf(env).message).toBe(`INTAKE_CONFIG: settings: unrecognized keys (INTAKE_${name})`)
    },
  )

  test('with settings is read where the environment has them too', () => {
    const file = fileOf({ settings: { LOG_LEVEL: 'warn' }, teams: [team()] })
    expect(readConfig({ INTAKE_CONFIG: file, LOG_LEVEL: 'warn' }).logLevel).toBe('warn')
    const refused = () => readConfig({ INTAKE_CONFIG: file, LOG_LEVEL: '' })
    expect(refused).toThrow(expect.objectContaining({ variable: 'INTAKE_CONFIG' }))
  })

  test('may be given as a document, in place of what the environment describes', () => {
    const document = { teams: [team({ name: 'east', apiKey: 'env:KEY' }), team({ name: 'west' })] }
    const config = readConfig({ ...SERVICE, KEY: 'of east' }, document)
    expect(config.teams.map(({ name, apiKey }) => [name, apiKey])).toEqual([
      ['east', 'of east'],
      ['west', 'key'],
    ])
    expect(requireTeams(config)).toEqual(config.teams)
    expect(requireTeams(config, 'west')).toEqual([config.teams[1]])
    expect('pageSize' in config.teams[0]!).toBe(false)
    expect(() => readConfig({ KEY: '' }, document)).toThrow(/names a variable that is not set/)
  })

  test('may begin with a byte order mark', () => {
    const path = fileOf(`\ufeff${JSON.stringify({ teams: [team()] })}`)
    expect(readConfig({ INTAKE_CONFIG: path }).teams).toMatchObject([{ name: 'north' }])
  })

  test('that does not exist is rejected', () => {
    expect(errorOf({ INTAKE_CONFIG: join(folder, CANARY) })).toMatchObject({ variable: 'INTAKE_CONFIG' })
  })
})

describe('a team without API credentials', () => {
  test('still has its name and its webhook secrets', () => {
    const env = { INTAKE_TEAM: 'north', INTAKE_WEBHOOK_SECRETS: 'one,two' }
    const { teams, ingestTeams } = readConfig(env)
    expect(teams).toEqual([])
    expect(ingestTeams).toEqual([{ name: 'north', webhookSecrets: ['one', 'two'] }])
    expect(readConfig({ ...SERVICE, ...env }).ingestTeams).toEqual(ingestTeams)
  })

  test('may be in the file with others, and is rejected by commands that call the service', () => {
    const { name, ...access } = { name: 'north', baseUrl: 'https://a.example', apiKey: 'k', apiSecret: 's' }
    const file = {
      teams: [
        { name, ...access },
        { name: 'south', webhookSecrets: [CANARY] },
      ],
    }
    const config = readConfig({ INTAKE_CONFIG: fileOf(file) })
    expect(config.teams.map((team) => team.name)).toEqual(['north'])
    expect(config.ingestTeams).toEqual([
      { name: 'north', webhookSecrets: [] },
      { name: 'south', webhookSecrets: [CANARY] },
    ])
    expect(requireTeams(config, 'north')).toEqual(config.teams)
    for (const asked of [undefined, 'south']) {
      expect(() => requireTeams(config, asked)).toThrow(/no baseUrl, apiKey and apiSecret for south$/)
      const missing = { variable: 'INTAKE_CONFIG', code: 'setting_missing' }
      expect(() => requireTeams(config, asked)).toThrow(expect.objectContaining(missing))
    }
    expect(() => requireTeams(config, 'east')).toThrow(/the configuration has no team "east"/)
  })
})
