/** Every setting is checked before anything is opened, and no message shows a value. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { BlockList } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, describe, expect, test } from 'vitest'
import { readConfig, requireTeams } from '../../src/config/config.ts'
import { UsageError } from '../../src/core/errors.ts'

const folder = mkdtempSync(join(tmpdir(), 'intake-sync-config-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0
function fileOf(content: string | object): string {
  const path = join(folder, `file-${++files}`)
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

const SERVICE = {
  INTAKE_BASE_URL: 'https://forms.example.com',
  INTAKE_API_KEY: 'key',
  INTAKE_API_SECRET: 'secret',
} as const

function errorOf(env: NodeJS.ProcessEnv): UsageError {
  try {
    readConfig(env)
  } catch (error) {
    if (error instanceof UsageError) return error
    throw error
  }
  throw new Error('the configuration was accepted')
}

test('a header of logins needs addresses that may send it, and roles', () => {
  const env = {
    INTAKE_CONSOLE_LOGIN_HEADER: 'X-Forwarded-Email',
    INTAKE_CONSOLE_GROUPS_HEADER: 'X-Forwarded-Groups',
    INTAKE_CONSOLE_PROXIES: '192.0.2.7',
    INTAKE_CONSOLE_ROLES: 'ada@example.org=operator, group:/care:team=viewer,*=viewer',
  }
  expect(readConfig(env).consoleProxy).toEqual({
    addresses: expect.any(BlockList),
    ...{ loginHeader: 'x-forwarded-email', groupsHeader: 'x-forwarded-groups' },
    roles: {
      logins: new Map([['ada@example.org', 'operator']]),
      groups: new Map([['/care:team', 'viewer']]),
      others: 'viewer',
    },
  })
  for (const name of ['INTAKE_CONSOLE_PROXIES', 'INTAKE_CONSOLE_ROLES'])
    expect(() => readConfig({ ...env, [name]: undefined })).toThrow(/needs the addresses .* and the role/)
  expect(readConfig({ ...env, INTAKE_CONSOLE_LOGIN_HEADER: undefined }).consoleProxy).toBeNull()
  expect(() => readConfig({ ...env, INTAKE_CONSOLE_GROUPS_HEADER: undefined })).toThrow(
    /gives roles to groups/,
  )
})

test('roles are those of each login and group; other logins are refused unless they have one too', () => {
  const env = { INTAKE_CONSOLE_LOGIN_HEADER: 'X-Login', INTAKE_CONSOLE_PROXIES: ' 192.0.2.7 , 10.0.0.0/8' }
  const rolesOf = (text: string, more: object = {}) =>
    readConfig({ ...env, INTAKE_CONSOLE_ROLES: text, ...more }).consoleProxy!
  const { roles, groupsHeader, addresses } = rolesOf(' ada@example.org = steward ,b+c.d-e_f=operator')
  expect(roles).toEqual({
    logins: new Map([
      ['ada@example.org', 'steward'],
      ['b+c.d-e_f', 'operator'],
    ]),
    groups: new Map(),
    others: null,
  })
  expect(groupsHeader).toBeNull()
  expect(['192.0.2.7', '10.9.9.9', '192.0.2.8'].map((address) => addresses.check(address))).toEqual([
    ...[true, true, false],
  ])
  // A login is never read as a group: their names are apart.
  const both = rolesOf('ops=viewer,group:ops=operator,*=viewer', { INTAKE_CONSOLE_GROUPS_HEADER: 'X-Groups' })
  expect([both.roles.logins.get('ops'), both.roles.groups.get('ops')]).toEqual(['viewer', 'operator'])
  expect(both.groupsHeader).toBe('x-groups')
  const unnamed = { ...env, INTAKE_CONSOLE_ROLES: 'group:ops=viewer' }
  expect(errorOf(unnamed).variable).toBe('INTAKE_CONSOLE_ROLES')
  expect(errorOf({ ...env, INTAKE_CONSOLE_ROLES: '*=viewer !' }).variable).toBe('INTAKE_CONSOLE_ROLES')
  const without = (name: string) => errorOf({ ...env, INTAKE_CONSOLE_ROLES: '*=viewer', [name]: '' })
  expect(without('INTAKE_CONSOLE_PROXIES').hint).toBe('set INTAKE_CONSOLE_PROXIES')
  expect(without('INTAKE_CONSOLE_ROLES').variable).toBe('INTAKE_CONSOLE_LOGIN_HEADER')
  expect(without('INTAKE_CONSOLE_ROLES').hint).toBe('set INTAKE_CONSOLE_ROLES')
  expect(rolesOf(`${'x'.repeat(100)}=viewer`).roles.logins.size).toBe(1)
  expect(errorOf({ ...env, INTAKE_CONSOLE_ROLES: `${'x'.repeat(101)}=viewer` }).variable).toBe(
    'INTAKE_CONSOLE_ROLES',
  )
})

test('without any variable everything has its default', () => {
  expect(readConfig({})).toEqual({
    databaseUrl: null,
    dataDir: '.intake-sync',
    inboxDays: 30,
    historyDays: 400,
    runDays: 400,
    webhookHost: '127.0.0.1',
    webhookPort: 8080,
    trustedProxies: null,
    adminHost: '127.0.0.1',
    adminPort: 9090,
    consoleHost: '127.0.0.1',
    consolePort: 9091,
    consoleUrl: null,
    consoleProxy: null,
    consoleValues: false,
    cron: '0 2 * * *',
    cronMissed: 'skip',
    lookbackDays: 2,
    sweepDays: 7,
    encryptionKey: null,
    analyticsKey: null,
    logLevel: 'info',
    alerts: null,
    teams: [],
    namesTeams: false,
    ingestTeams: [{ name: 'default', webhookSecrets: [] }],
  })
})

test('alerts are sent after 5 minutes in the inbox and 26 hours without a run, unless other times are given', () => {
  const url = 'https://alerts.example.org/x?y=1'
  const alerts = (more: object = {}) => readConfig({ INTAKE_ALERT_URL: url, ...more }).alerts
  const usual = { url, secret: null, inboxSeconds: 300, maxAgeHours: 26 }
  expect(alerts()).toEqual(usual)
  expect(alerts({ INTAKE_ALERT_SECRET: 's'.repeat(16), INTAKE_ALERT_INBOX_AGE: '90s' })).toEqual({
    ...{ ...usual, secret: 's'.repeat(16), inboxSeconds: 90 },
  })
  const ages = ['8d', '90m', 'off'].map((age) => alerts({ INTAKE_ALERT_MAX_AGE: age })?.maxAgeHours)
  expect(ages).toEqual([192, 1.5, null])
  // As the receiver will see it.
  expect(alerts({ INTAKE_ALERT_URL: 'HTTPS://Alerts.example.org:443' })?.url).toBe(
    'https://alerts.example.org/',
  )
})

test.each([
  [{ INTAKE_TEAM: 'default' }, true],
  [{ INTAKE_WEBHOOK_SECRETS: 'a-secret' }, true],
  [{}, false],
  [{ INTAKE_BASE_URL: 'https://x', INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }, true],
  [{ INTAKE_TEAM: '', LOG_LEVEL: 'error', INTAKE_CRON: 'off' }, false],
])('%j names a team: %j', (env, expected) => {
  expect(readConfig(env).namesTeams).toBe(expected)
})

test('a file of teams names them', () => {
  const path = fileOf({ teams: [{ name: 'north' }] })
  expect(readConfig({ INTAKE_CONFIG: path }).namesTeams).toBe(true)
})

test('an empty variable counts as not set', () => {
  const empty = Object.fromEntries(
    [
      'DATABASE_URL',
      'INTAKE_CRON',
      'INTAKE_WEBHOOK_PORT',
      'INTAKE_API_KEY',
      'INTAKE_CONFIG',
      'LOG_LEVEL',
    ].map((name) => [name, '']),
  )
  expect(readConfig(empty)).toEqual(readConfig({}))
})

test('the configuration is immutable', () => {
  const config = readConfig(SERVICE)
  expect(Object.isFrozen(config)).toBe(true)
  expect(Object.isFrozen(config.teams)).toBe(true)
  expect(config.teams.every(Object.isFrozen)).toBe(true)
})

const GOOD: readonly (readonly [string, string, string, unknown])[] = [
  [
    'DATABASE_URL',
    'postgres://u:p@db.example.com:5432/warehouse?sslmode=verify-full',
    'databaseUrl',
    'postgres://u:p@db.example.com:5432/warehouse?sslmode=verify-full',
  ],
  [
    'DATABASE_URL',
    'postgresql://db/warehouse?sslmode=verify-full',
    'databaseUrl',
    'postgresql://db/warehouse?sslmode=verify-full',
  ],
  ['DATABASE_URL', 'postgres://u@/w?host=/var/run', 'databaseUrl', 'postgres://u@/w?host=/var/run'],
  [
    'DATABASE_URL',
    'postgres://u:p%25%40%C3%A4@localhost/w?sslmode=no-verify',
    'databaseUrl',
    'postgres://u:p%25%40%C3%A4@localhost/w?sslmode=no-verify',
  ],
  ['DATABASE_URL', 'postgres://u@[::1]/w', 'databaseUrl', 'postgres://u@[::1]/w'],
  ['DATABASE_URL', 'postgres://u:a,b@127.0.0.1/w,x', 'databaseUrl', 'postgres://u:a,b@127.0.0.1/w,x'],
  ['DATABASE_URL', 'postgres://u@127.1.2.3/w', 'databaseUrl', 'postgres://u@127.1.2.3/w'],
  ['INTAKE_ALLOW_INSECURE_DATABASE', '1', 'teams', []],
  ['INTAKE_TRUSTED_PROXIES', '10.0.0.0/8, 192.0.2.7,fd00::/8', 'trustedProxies', expect.any(BlockList)],
  ['INTAKE_ALLOW_HTTP', '0', 'teams', []],
  ['INTAKE_ALLOW_HTTP', '1', 'teams', []],
  ['INTAKE_DATA_DIR', '/var/lib/with a space', 'dataDir', '/var/lib/with a space'],
  ['INTAKE_INBOX_DAYS', '7', 'inboxDays', 7],
  ['INTAKE_HISTORY_DAYS', '90', 'historyDays', 90],
  ['INTAKE_HISTORY_DAYS', 'off', 'historyDays', null],
  ['INTAKE_RUN_DAYS', '1', 'runDays', 1],
  ['INTAKE_RUN_DAYS', 'off', 'runDays', null],
  ['INTAKE_WEBHOOK_HOST', '0.0.0.0', 'webhookHost', '0.0.0.0'],
  ['INTAKE_WEBHOOK_PORT', '0', 'webhookPort', 0],
  ['INTAKE_WEBHOOK_PORT', '65535', 'webhookPort', 65_535],
  ['INTAKE_ADMIN_HOST', '::1', 'adminHost', '::1'],
  ['INTAKE_ADMIN_PORT', '9191', 'adminPort', 9191],
  ['INTAKE_CONSOLE_PORT', '9292', 'consolePort', 9292],
  ['INTAKE_CONSOLE_URL', 'https://console.example.org', 'consoleUrl', 'https://console.example.org'],
  ['INTAKE_CONSOLE_URL', 'http://127.0.0.1:9091/', 'consoleUrl', 'http://127.0.0.1:9091/'],
  ['INTAKE_CONSOLE_HOST', '0.0.0.0', 'consoleHost', '0.0.0.0'],
  ['INTAKE_CONSOLE_VALUES', '1', 'consoleValues', true],
  ['INTAKE_CONSOLE_VALUES', '0', 'consoleValues', false],
  ['INTAKE_CRON', '*/5 1-3 * * MON,FRI', 'cron', '*/5 1-3 * * MON,FRI'],
  ['INTAKE_CRON', 'off', 'cron', null],
  ['INTAKE_CRON_MISSED', '', 'cronMissed', 'skip'],
  ['INTAKE_CRON_MISSED', 'run', 'cronMissed', 'run'],
  ['INTAKE_LOOKBACK_DAYS', '0', 'lookbackDays', 0],
  ['INTAKE_SWEEP_DAYS', '1', 'sweepDays', 1],
  ['INTAKE_SWEEP_DAYS', '0', 'sweepDays', 0],
  ['INTAKE_LOOKBACK_DAYS', '3650', 'lookbackDays', 3650],
  ['INTAKE_INBOX_DAYS', '1', 'inboxDays', 1],
  ['INTAKE_HISTORY_DAYS', '3650', 'historyDays', 3650],
  // The other alphabet of base64, without padding.
  ['INTAKE_ENCRYPTION_KEY', '-_'.repeat(21).concat('A'), 'encryptionKey', '-_'.repeat(21).concat('A')],
  [
    'INTAKE_ENCRYPTION_KEY',
    Buffer.alloc(32, 7).toString('base64'),
    'encryptionKey',
    Buffer.alloc(32, 7).toString('base64'),
  ],
  ['INTAKE_ANALYTICS_KEY', 'sixteen symbols.', 'analyticsKey', 'sixteen symbols.'],
  ...['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'].map(
    (level) => ['LOG_LEVEL', level, 'logLevel', level] as const,
  ),
]

test.each(['a:5432,b:5432', 'a,b'])('the hint for %s says that one address is needed', (hosts) => {
  const read = () => readConfig({ DATABASE_URL: `postgres://u:p@${hosts}/w?target_session_attrs=read-write` })
  expect(read).toThrow(expect.objectContaining({ message: expect.stringContaining('several hosts') }))
})

const ENCODED = /user or password in DATABASE_URL is not percent-encoded/
const PORT = /port in DATABASE_URL is not a number from 1 to 65535/
const UNVERIFIED = /another machine without sslmode=verify-full/
const NO_URL = /DATABASE_URL is not a Postgres connection string/

test.each([
  ['postgres://u:p%zz@localhost/w', ENCODED],
  ['postgres://u%z:p@localhost/w', ENCODED],
  ['postgres://u:%ff@localhost/w', ENCODED],
  ['postgres://%ff:p@localhost/w', ENCODED],
  ['postgres://u:p@localhost:99999/w', PORT],
  ['postgres://u:p@localhost:x/w', PORT],
  ['postgres://u:p@localhost:0/w', PORT],
  ['postgres://u:p@localhost/w?port=65536', PORT],
  ['postgres://u:p@localhost/w?port=x', PORT],
  ['postgres://u:p@[localhost/w', NO_URL],
  ['postgres://u:p@localhost/%ff', NO_URL],
  ['postgres://u:p@localhost/w?sslmode=verify', /unknown sslmode/],
  ['postgres://localhost/w?sslmode=verify-full&sslrootcert=/none', /certificate or key .* \(ENOENT\)/],
  ['postgres://db/w', UNVERIFIED],
  ['postgres://db/w?sslmode=require', UNVERIFIED],
  ['postgres://db/w?sslmode=no-verify', UNVERIFIED],
  // Of two, the library takes the last.
  ['postgres://db/w?sslmode=verify-full&sslmode=no-verify', UNVERIFIED],
  ['postgres://db/w?sslmode=verify-full&sslmode=disable', UNVERIFIED],
])('the error for DATABASE_URL=%s says what is wrong', (url, message) => {
  expect(errorOf({ DATABASE_URL: url }).message).toMatch(message)
})

test.each([
  'postgres://db/w?sslmode=verify-full',
  'postgres://db/w?sslmode=verify-ca',
  'postgres://localhost:65535/w',
  'postgres://localhost:1/w',
  'postgres://u@/w?host=/var/run&port=5433',
])('a warehouse may be at %s', (url) => {
  expect(readConfig({ DATABASE_URL: url }).databaseUrl).toBe(url)
})

test('an unverified connection to another machine is a decision of its own', () => {
  const url = 'postgres://db/w?sslmode=no-verify'
  const allow = (value: string) => ({ DATABASE_URL: url, INTAKE_ALLOW_INSECURE_DATABASE: value })
  expect(readConfig(allow('1')).databaseUrl).toBe(url)
  for (const value of ['0', '']) expect(errorOf(allow(value)).message).toMatch(UNVERIFIED)
})

const NOT_HTTP = /is not an http\(s\) URL/

test.each([
  ['INTAKE_ALERT_URL', 'httpsx://a', NOT_HTTP, /https:\/\/host\/path/],
  ['INTAKE_ALERT_URL', 'xhttp://a', NOT_HTTP, /https:\/\/host\/path/],
  ['INTAKE_ALERT_URL', 'https://u@a', /holds a user/, /posts are signed/],
  ['INTAKE_ALERT_URL', 'https://:p@a', /holds a user/, /posts are signed/],
  ['INTAKE_ALERT_URL', 'https://a#b', /a fragment/, /posts are signed/],
  ['INTAKE_ALERT_URL', 'http://a', /anybody on the way can read/, /INTAKE_ALLOW_HTTP=1/],
  ['INTAKE_BASE_URL', 'httpsx://a', NOT_HTTP, /https:\/\/host/],
  ['INTAKE_BASE_URL', 'xhttp://a', NOT_HTTP, /https:\/\/host/],
  ['INTAKE_BASE_URL', 'https://u@a', /more than scheme, host and path/, /leave out user/],
  ['INTAKE_BASE_URL', 'https://:p@a', /more than scheme, host and path/, /leave out user/],
  ['INTAKE_BASE_URL', 'http://a', /health data in the clear/, /INTAKE_ALLOW_HTTP=1/],
])('the error for %s=%s says what is wrong and what to do', (name, url, message, hint) => {
  const error = errorOf({ ...SERVICE, [name]: url })
  expect(error.message).toMatch(message)
  expect(error.hint).toMatch(hint)
  expect(error.variable).toBe(name)
})

test.each(GOOD)('%s may be %j', (name, value, key, expected) => {
  // Each changes what it is for, and nothing else.
  const config = { ...readConfig({}), [key]: expected }
  expect(readConfig({ [name]: value })).toEqual(config)
  expect(readConfig({ [`${name}_FILE`]: fileOf(`${value}\n`) })).toEqual(config)
})

const CANARY = 'canary7f3a'

const BAD: readonly (readonly [string, string])[] = [
  ['DATABASE_URL', `mysql://u:${CANARY}@db/w`],
  ['DATABASE_URL', `${CANARY}`],
  ['DATABASE_URL', `postgres://u:${CANARY}@db:99999/w`],
  ['DATABASE_URL', `postgres://u:${CANARY}@[db/w`],
  ['DATABASE_URL', `postgres://u:${CANARY}%zz@db/w`],
  ['DATABASE_URL', `postgres://u:${CANARY}%@db/w`],
  ['DATABASE_URL', `postgres://${CANARY}%4:p@db/w`],
  ['DATABASE_URL', `postgres://u:${CANARY}%ff@db/w`],
  ['DATABASE_URL', `postgres://u:p@db/${CANARY}%ff`],
  ['DATABASE_URL', `postgres://u:p@/w?host=/run&sslmode=${CANARY}`],
  ['DATABASE_URL', `postgres://u:p@db/w?port=${CANARY}`],
  ['DATABASE_URL', `postgres://u:p@db/w?sslmode=verify-full&sslrootcert=/${CANARY}`],
  ['DATABASE_URL', `postgres://u:${CANARY}@db/w`],
  ['DATABASE_URL', `postgres://u:${CANARY}@db/w?sslmode=require`],
  ['DATABASE_URL', `postgres://u:${CANARY}@db/w?sslmode=no-verify`],
  ['DATABASE_URL', `postgres://u:${CANARY}@127.0.0.1/w?host=db`],
  ['DATABASE_URL', `postgres://u:${CANARY}@localhost.example.com/w`],
  ['DATABASE_URL', `postgres://u:${CANARY}@127.0.0.1,127.0.0.2/w`],
  ['DATABASE_URL', `postgres://u:p@/w?host=/var/run,/${CANARY}`],
  ['INTAKE_ALLOW_INSECURE_DATABASE', 'yes'],
  ['INTAKE_TRUSTED_PROXIES', `10.0.0.1, ${CANARY}`],
  ['INTAKE_TRUSTED_PROXIES', '10.0.0.0/33'],
  ['INTAKE_ALLOW_HTTP', 'true'],
  ['INTAKE_ALLOW_HTTP', CANARY],
  ['INTAKE_INBOX_DAYS', '0'],
  ['INTAKE_HISTORY_DAYS', '0'],
  ['INTAKE_HISTORY_DAYS', 'never'],
  ['INTAKE_RUN_DAYS', '1.5'],
  ['INTAKE_INBOX_DAYS', '-1'],
  ['INTAKE_INBOX_DAYS', '1.5'],
  ['INTAKE_INBOX_DAYS', `7${CANARY}`],
  ['INTAKE_INBOX_DAYS', `${CANARY}7`],
  ['INTAKE_INBOX_DAYS', '3651'],
  ['INTAKE_HISTORY_DAYS', '3651'],
  ['INTAKE_RUN_DAYS', '0'],
  ['INTAKE_SWEEP_DAYS', '3651'],
  ['INTAKE_WEBHOOK_PORT', '65536'],
  ['INTAKE_WEBHOOK_PORT', ' '],
  ['INTAKE_WEBHOOK_PORT', '0x50'],
  ['INTAKE_WEBHOOK_PORT', '1e3'],
  ['INTAKE_ADMIN_PORT', CANARY],
  ['INTAKE_CONSOLE_PORT', CANARY],
  ['INTAKE_CONSOLE_URL', `https://${CANARY}.invalid/path`],
  ['INTAKE_CONSOLE_URL', CANARY],
  ['INTAKE_CONSOLE_URL', `ftp://${CANARY}`],
  ['INTAKE_CONSOLE_URL', `xhttps://${CANARY}`],
  ['INTAKE_CONSOLE_URL', `https://${CANARY}@console.example.org`],
  ['INTAKE_CONSOLE_URL', `https://console.example.org?${CANARY}`],
  ['INTAKE_CONSOLE_URL', `https://console.example.org#${CANARY}`],
  ['INTAKE_CONSOLE_URL', `https://${CANARY}:x`],
  ['INTAKE_CONSOLE_LOGIN_HEADER', 'x'.repeat(65)],
  ['INTAKE_CONSOLE_ROLES', `${CANARY}=viewer,`],
  ['INTAKE_CONSOLE_ROLES', `${CANARY} of=viewer`],
  ['INTAKE_CONSOLE_ROLES', 'ada=Viewer'],
  ['INTAKE_CONSOLE_PROXIES', CANARY],
  ['INTAKE_CONSOLE_LOGIN_HEADER', `${CANARY} x`],
  ['INTAKE_CONSOLE_GROUPS_HEADER', `${CANARY}:`],
  ['INTAKE_CONSOLE_ROLES', `ada=${CANARY}`],
  ['INTAKE_CONSOLE_ROLES', CANARY],
  ['INTAKE_CONSOLE_ROLES', `group:=viewer,${CANARY}:x=viewer`],
  ['INTAKE_CONSOLE_VALUES', CANARY],
  ['INTAKE_CRON', 'daily'],
  ['INTAKE_CRON', '0 2 * *'],
  ['INTAKE_CRON', '0 0 2 * * *'],
  ['INTAKE_CRON', '61 2 * * *'],
  ['INTAKE_CRON', `a b c d ${CANARY}`],
  ['INTAKE_CRON_MISSED', 'all'],
  ['INTAKE_LOOKBACK_DAYS', '-1'],
  ['INTAKE_SWEEP_DAYS', 'weekly'],
  ['INTAKE_LOOKBACK_DAYS', ' '],
  ['INTAKE_LOOKBACK_DAYS', 'two'],
  ['INTAKE_ENCRYPTION_KEY', CANARY],
  ['INTAKE_ENCRYPTION_KEY', Buffer.alloc(31).toString('base64')],
  ['INTAKE_ENCRYPTION_KEY', 'A'.repeat(44)],
  ['INTAKE_ENCRYPTION_KEY', `${'A'.repeat(43)}==`],
  ['INTAKE_ANALYTICS_KEY', 'fifteen symbols'],
  ['DATABASE_URL', `x-postgres://u:${CANARY}@localhost/w`],
  ['INTAKE_CRON_MISSED', `run ${CANARY}`],
  ['LOG_LEVEL', `info ${CANARY}`],
  ['INTAKE_ENCRYPTION_KEY', `!${Buffer.alloc(32).toString('base64')}?`],
  ['INTAKE_ANALYTICS_KEY', CANARY],
  ['LOG_LEVEL', CANARY],
]

test.each(BAD)('%s may not be %j', (name, value) => {
  for (const env of [{ [name]: value }, { [`${name}_FILE`]: fileOf(value) }]) {
    const error = errorOf(env)
    expect(error).toMatchObject({ variable: name, verdict: 'stop' })
    expect(error.message).toContain(name)
    expect(error.hint).toContain(name)
    expect(`${error.message} ${error.hint} ${error.stack}`).not.toContain(CANARY)
  }
})

describe('NAME_FILE', () => {
  test('its last line end and a byte order mark are not part of the value, others are', () => {
    const team = (content: string) =>
      readConfig({ ...SERVICE, INTAKE_API_KEY: undefined, INTAKE_API_KEY_FILE: fileOf(content) }).teams[0]
    expect(team('abc')?.apiKey).toBe('abc')
    expect(team('abc\n')?.apiKey).toBe('abc')
    expect(team('abc\r\n')?.apiKey).toBe('abc')
    expect(team('\ufeffabc\r\n')?.apiKey).toBe('abc')
    expect(() => team('abc\n\n')).toThrow(/INTAKE_API_KEY contains characters that cannot be sent/)
  })

  test('together with NAME is rejected, with an empty NAME it is not', () => {
    const path = fileOf('30')
    expect(errorOf({ INTAKE_INBOX_DAYS: '7', INTAKE_INBOX_DAYS_FILE: path })).toMatchObject({
      message: 'INTAKE_INBOX_DAYS and INTAKE_INBOX_DAYS_FILE are both set',
      variable: 'INTAKE_INBOX_DAYS',
    })
    expect(readConfig({ INTAKE_INBOX_DAYS: '', INTAKE_INBOX_DAYS_FILE: path }).inboxDays).toBe(30)
  })

  test.each([
    ['that is not there', () => join(folder, CANARY), 'ENOENT'],
    ['that is a folder', () => folder, 'EISDIR'],
  ])('a file that %s is reported without its path', (_, path, code) => {
    const error = errorOf({ INTAKE_API_KEY_FILE: path() })
    expect(error).toMatchObject({
      variable: 'INTAKE_API_KEY_FILE',
      message: `INTAKE_API_KEY_FILE names a file that cannot be read (${code})`,
    })
    expect(`${error.message} ${error.hint}`).not.toContain(CANARY)
  })
})

test('no rejected value is shown, whatever it is', () => {
  const names = [
    ...new Set(BAD.map(([name]) => name)),
    ...Object.keys(SERVICE),
    'INTAKE_TEAM',
    'INTAKE_TIMEZONE',
    'INTAKE_CONCURRENCY',
  ]
  const refused = new Set<string | undefined>()
  for (const name of names) {
    const shown = fc.property(fc.string(), fc.string(), (before, after) => {
      try {
        readConfig({ ...SERVICE, [name]: `${before}${CANARY}${after}` })
      } catch (error) {
        expect(error).toBeInstanceOf(UsageError)
        const { message, hint, stack, variable } = error as UsageError
        expect(`${message} ${hint} ${stack}`).not.toContain(CANARY)
        expect(variable).toBe(name)
        refused.add(variable)
      }
    })
    fc.assert(shown, { numRuns: 30 })
  }
  expect([...refused]).toEqual(
    expect.arrayContaining(['INTAKE_BASE_URL', 'INTAKE_TIMEZONE', 'INTAKE_CONCURRENCY']),
  )
})

test('commands that call the service name missing settings, and an unknown team', () => {
  expect(() => requireTeams(readConfig({}))).toThrow(
    /INTAKE_BASE_URL, INTAKE_API_KEY and INTAKE_API_SECRET are not set/,
  )
  const config = readConfig({ ...SERVICE, INTAKE_TEAM: 'north' })
  expect(requireTeams(config)).toEqual(config.teams)
  expect(requireTeams(config, 'north')).toEqual(config.teams)
  expect(() => requireTeams(config, 'south')).toThrow(expect.objectContaining({ hint: 'use one of: north' }))
  expect(() => requireTeams(readConfig({}), 'south')).toThrow(/are not set/)
  const missing = { variable: 'INTAKE_BASE_URL', code: 'setting_missing' }
  expect(() => requireTeams(readConfig({}))).toThrow(expect.objectContaining(missing))
})
