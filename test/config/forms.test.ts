/** Every setting with each way of writing a value: what is not exactly the value is refused, and names its setting. */
import { expect, test } from 'vitest'
import { readConfig, requireTeams } from '../../src/config/config.ts'
import { SETTINGS } from '../../src/config/settings.ts'
import { UsageError } from '../../src/core/errors.ts'

const SERVICE = {
  INTAKE_BASE_URL: 'https://forms.example.com',
  INTAKE_API_KEY: 'key',
  INTAKE_API_SECRET: 'secret',
} as const

/** The variable that an error names, or null. */
function refusalOf(env: NodeJS.ProcessEnv, document?: object): string | null {
  try {
    readConfig(env, document)
    return null
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError)
    return (error as UsageError).variable ?? 'none'
  }
}

/** A value of each setting that has a form. */
const VALUES: Readonly<Record<string, string>> = {
  INTAKE_ALLOW_HTTP: '1',
  INTAKE_ALLOW_INSECURE_DATABASE: '1',
  INTAKE_INBOX_DAYS: '7',
  INTAKE_HISTORY_DAYS: 'off',
  INTAKE_RUN_DAYS: 'off',
  INTAKE_WEBHOOK_PORT: '8080',
  INTAKE_ADMIN_PORT: '9090',
  INTAKE_CONSOLE_PORT: '9091',
  INTAKE_CONSOLE_URL: 'https://console.example.org',
  INTAKE_CONSOLE_VALUES: '1',
  INTAKE_CRON: '0 2 * * *',
  INTAKE_CRON_MISSED: 'run',
  INTAKE_LOOKBACK_DAYS: '2',
  INTAKE_SWEEP_DAYS: '7',
  INTAKE_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString('base64'),
  INTAKE_ALERT_INBOX_AGE: '5m',
  INTAKE_ALERT_MAX_AGE: '26h',
  INTAKE_CONSOLE_GROUPS_HEADER: 'X-Groups',
  INTAKE_CONCURRENCY: '4',
  INTAKE_RATE_LIMIT: '20/s',
  INTAKE_GIVE_UP_AFTER: '15m',
  LOG_LEVEL: 'info',
}

/** What else is a value of that form. */
const TAKEN: Readonly<Record<string, readonly string[]>> = {
  INTAKE_INBOX_DAYS: ['777'],
  INTAKE_LOOKBACK_DAYS: ['222'],
  INTAKE_SWEEP_DAYS: ['777'],
  // What browsers take for a host, too.
  INTAKE_CONSOLE_URL: ['\n', ' ', ',', ';', 'D'].map((end) => `https://console.example.org${end}`),
  INTAKE_CONSOLE_GROUPS_HEADER: ['-', 'null', 'X-GroupsX-GroupsX-Groups', 'X-GroupsD'],
}

/** Ways of writing it that are mistakes: spaces, line ends, quotes, separators, another unit, a word for another setting. */
const mistakes = (value: string) => [
  ...[' ', '-', 'null', ` ${value}`, `\t${value}`, `"${value}"`, `'${value}'`, `${value}${value}${value}`],
  ...['\n', ' ', ',', ';', 'D'].map((end) => value + end),
]

test.each(Object.entries(VALUES))('%s may be %j, and nothing that is written otherwise', (name, value) => {
  expect(refusalOf({ [name]: value }, {})).not.toBe(name)
  const taken = mistakes(value).filter((text) => refusalOf({ ...SERVICE, [name]: text }) !== name)
  expect(taken).toEqual(TAKEN[name] ?? [])
})

test('the default that is shown of a setting is the value that is used without it', () => {
  const env = { ...SERVICE, INTAKE_ALERT_URL: 'https://alerts.example.com' }
  const inWords = ['embedded', 'generated once']
  const shown = Object.entries(SETTINGS).filter(
    ([, { without }]) => without !== null && !inWords.includes(without),
  )
  expect(shown.length).toBeGreaterThan(20)
  for (const [name, { without }] of shown)
    expect([name, readConfig({ ...env, [name]: without! })]).toEqual([name, readConfig(env)])
})

test.each(['90S', '15M', '2H', '8D', '1ms', '1min', '1 h', '1h0', '٣h'])(
  'no duration is written as %j',
  (text) => {
    for (const name of ['INTAKE_ALERT_INBOX_AGE', 'INTAKE_ALERT_MAX_AGE', 'INTAKE_GIVE_UP_AFTER'])
      expect(refusalOf({ ...SERVICE, [name]: text })).toBe(name)
  },
)

test.each(['20/S', '20/sec', '20/ s', '20 /s', '/s', '20/', '20//s', '20/m/m'])('no limit is %j', (text) => {
  expect(refusalOf({ ...SERVICE, INTAKE_RATE_LIMIT: text })).toBe('INTAKE_RATE_LIMIT')
})

test('each permission permits what it names, if it is 1', () => {
  const open: Readonly<Record<string, string>> = {
    INTAKE_BASE_URL: 'http://forms.internal',
    INTAKE_ALERT_URL: 'http://alerts.internal/a',
    DATABASE_URL: 'postgres://db.internal/w',
  }
  const permissions = ['INTAKE_ALLOW_HTTP', 'INTAKE_ALLOW_INSECURE_DATABASE', 'INTAKE_CONSOLE_VALUES']
  const found = Object.entries(open).map(([name, url]) => [
    name,
    permissions.flatMap((permission) =>
      ['', '0', '1']
        .filter((value) => refusalOf({ ...SERVICE, [name]: url, [permission]: value }) === null)
        .map((value) => `${permission}=${value}`),
    ),
  ])
  expect(found).toEqual([
    ['INTAKE_BASE_URL', ['INTAKE_ALLOW_HTTP=1']],
    ['INTAKE_ALERT_URL', ['INTAKE_ALLOW_HTTP=1']],
    ['DATABASE_URL', ['INTAKE_ALLOW_INSECURE_DATABASE=1']],
  ])
})

test('webhook secrets are separated by commas, and may contain spaces and anything else', () => {
  const secretsOf = (text: string) =>
    readConfig({ INTAKE_WEBHOOK_SECRETS: text }).ingestTeams[0]?.webhookSecrets
  expect(secretsOf(' one two ,three;four\t,, "five",six\n')).toEqual([
    ...['one two', 'three;four', '"five"', 'six'],
  ])
  expect(secretsOf(' , ')).toEqual([])
})

test('each setting that describes a team names one, and no other setting does', () => {
  const team = { INTAKE_CONFIG: 'x', INTAKE_TEAM: 'x', INTAKE_WEBHOOK_SECRETS: 'x', ...SERVICE }
  const document = { teams: [{ name: 'north' }] }
  for (const [name, value] of Object.entries({ ...team, ...VALUES, INTAKE_DATA_DIR: 'x' })) {
    const { namesTeams, ingestTeams } = readConfig({ [name]: value }, document)
    expect([name, namesTeams]).toEqual([name, name in team])
    expect(ingestTeams).toEqual([{ name: 'north', webhookSecrets: [] }])
  }
})

test('of several teams the one that is asked for is used; all those without access are named', () => {
  const access = { baseUrl: 'https://forms.example.com', apiKey: 'k', apiSecret: 's' }
  const teamsOf = (document: { readonly teams: readonly object[] }, name?: string) =>
    requireTeams(readConfig({}, document), name).map((team) => team.name)
  const [a, b, c] = ['a', 'b', 'c'].map((name) => ({ name, ...access })) as [object, object, object]
  const [d, e] = [{ name: 'd' }, { name: 'e' }]
  expect(teamsOf({ teams: [a, b, c] })).toEqual(['a', 'b', 'c'])
  for (const name of ['a', 'b', 'c']) expect(teamsOf({ teams: [d, a, b, c] }, name)).toEqual([name])
  for (const [teams, name, without] of [
    [[d, a, e], undefined, 'd, e'],
    [[d, a, e], 'e', 'e'],
    [[d, e], undefined, 'd, e'],
    [[d, e], 'd', 'd'],
  ] as const)
    expect(() => teamsOf({ teams }, name)).toThrow(
      expect.objectContaining({
        ...{ variable: 'INTAKE_CONFIG', code: 'setting_missing', verdict: 'stop' },
        message: `INTAKE_CONFIG: no baseUrl, apiKey and apiSecret for ${without}`,
        hint: 'set the three, or name a team that has them with --team',
      }),
    )
})

test('no part of the configuration can be changed', () => {
  const proxy = {
    INTAKE_CONSOLE_LOGIN_HEADER: 'X-Login',
    ...{ INTAKE_CONSOLE_PROXIES: '10.0.0.1', INTAKE_CONSOLE_ROLES: '*=viewer' },
  }
  const config = readConfig({ ...SERVICE, ...proxy, INTAKE_ALERT_URL: 'https://alerts.example.com' })
  const parts = [
    config,
    config.teams,
    config.ingestTeams,
    config.alerts,
    ...config.teams,
    ...config.ingestTeams,
  ]
  expect(parts.map((part) => Object.isFrozen(part))).toEqual(parts.map(() => true))
})

test('roles distinguish capitals in logins and groups, and of several roles for one name the last counts', () => {
  const proxyOf = (roles: string, header = 'X-Login') =>
    readConfig({
      ...{ INTAKE_CONSOLE_LOGIN_HEADER: header, INTAKE_CONSOLE_GROUPS_HEADER: 'X-Auth-2-Groups' },
      ...{ INTAKE_CONSOLE_PROXIES: '10.0.0.1', INTAKE_CONSOLE_ROLES: roles },
    }).consoleProxy
  const twice = 'Ada@Example.org=viewer,ada@example.org=operator,Ada@Example.org=steward'
  expect(
    proxyOf(`${twice},group:Ops=viewer,group:ops=steward,group:ops=operator,*=steward,*=viewer`),
  ).toEqual({
    ...{ addresses: expect.anything(), loginHeader: 'x-login', groupsHeader: 'x-auth-2-groups' },
    roles: {
      logins: new Map([
        ['Ada@Example.org', 'steward'],
        ['ada@example.org', 'operator'],
      ]),
      groups: new Map([
        ['Ops', 'viewer'],
        ['ops', 'operator'],
      ]),
      others: 'viewer',
    },
  })
  expect(proxyOf('*=viewer', `X-${'7'.repeat(62)}`)?.loginHeader).toBe(`x-${'7'.repeat(62)}`)
})

test.each(['postgres://a:5432,b:5432/w', 'postgres://a,b:5432/w', 'postgres://u:p@q@a:5432,b:5432/w'])(
  'several hosts are named as the mistake, with a user or without: %s',
  (url) => {
    expect(() => readConfig({ DATABASE_URL: url })).toThrow(/several hosts/)
  },
)

test('a time zone has its usual name, also where it is written without capitals', () => {
  const zoneOf = (text: string) => readConfig({ ...SERVICE, INTAKE_TIMEZONE: text }).teams[0]?.timezone
  expect(['europe/berlin', 'UTC', 'utc', ''].map(zoneOf)).toEqual(['Europe/Berlin', 'UTC', 'UTC', 'UTC'])
})

test.each(['INTAKE_BASE_URL', 'INTAKE_API_KEY', 'INTAKE_API_SECRET'])(
  'of a team that has only %s the other settings are named, in the environment and in a file',
  (name) => {
    const names = Object.keys(SERVICE)
    const missing = names.filter((each) => each !== name)
    const failure = {
      variable: missing[0],
      code: 'setting_missing',
      hint: `set ${names.join(', ')} together`,
    }
    expect(() => readConfig({ [name]: 'https://a' })).toThrow(
      expect.objectContaining({ ...failure, message: `${missing.join(' and ')} must be set too` }),
    )
    const keys = { INTAKE_BASE_URL: 'baseUrl', INTAKE_API_KEY: 'apiKey', INTAKE_API_SECRET: 'apiSecret' }
    const place = (of: string) => `INTAKE_CONFIG teams.1.${keys[of as keyof typeof keys]}`
    const document = { teams: [{ name: 'a' }, { name: 'b', [keys[name as keyof typeof keys]]: 'https://a' }] }
    expect(() => readConfig({}, document)).toThrow(
      expect.objectContaining({
        ...{ variable: place(missing[0]!), code: 'setting_missing' },
        hint: `set ${names.map(place).join(', ')} together`,
      }),
    )
  },
)

test('a mistake in a team of a file is placed there, and one of a setting of all teams at the setting', () => {
  const team = { baseUrl: 'https://forms.example.com', apiKey: 'k', apiSecret: 's' }
  const refused = (mistake: object, env: NodeJS.ProcessEnv = {}) =>
    refusalOf(env, {
      teams: [
        { name: 'a', ...team },
        { name: 'b', ...team, ...mistake },
      ],
    })
  const mistakes = {
    ...{ baseUrl: 'ftp://a', apiKey: 'ü', apiSecret: '\n', apiVersion: 'ü', timezone: 'Nowhere' },
    rateLimit: '7',
  }
  for (const [key, value] of Object.entries(mistakes))
    expect(refused({ [key]: value })).toBe(`INTAKE_CONFIG teams.1.${key}`)
  for (const key of ['baseUrl', 'timezone', 'rateLimit'])
    expect(refused({ [key]: '' })).toBe(`INTAKE_CONFIG teams.1.${key}`)
  for (const name of ['INTAKE_API_VERSION', 'INTAKE_TIMEZONE', 'INTAKE_RATE_LIMIT', 'INTAKE_GIVE_UP_AFTER'])
    expect(refused({}, { [name]: '\n' })).toBe(name)
  // What the team has itself is not looked for in the environment.
  expect(refused({ timezone: 'UTC' }, { INTAKE_TIMEZONE: '' })).toBeNull()
})

test('a setting of a file without a text is refused with its place', () => {
  const settings = (value: unknown) =>
    readConfig({ LOG_LEVEL: 'warn' }, { settings: { LOG_LEVEL: value }, teams: [{ name: 'a' }] })
  expect(settings('warn').logLevel).toBe('warn')
  expect(() => settings('')).toThrow(/^INTAKE_CONFIG: settings\.LOG_LEVEL: too small$/)
  expect(() => settings(7)).toThrow(/^INTAKE_CONFIG: settings\.LOG_LEVEL: invalid type$/)
})
