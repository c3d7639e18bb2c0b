/** Any environment and any file is a valid configuration, or is rejected with one sentence that shows none of its content. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, expect, it } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { UsageError } from '../../src/core/errors.ts'
import { runCommand } from '../support/run-command.ts'
import { expectNoStack, holds, PATIENCE } from './budget.ts'
import { anyText, damaged } from './corpora.ts'

const folder = mkdtempSync(join(tmpdir(), 'intake-sync-fuzz-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** In every drawn value, and in no message. It does not look like a key, because names of keys may be shown. */
const CANARY = 'qz§7canary'

let files = 0
function fileOf(content: string | Buffer): string {
  const path = join(folder, `file-${files++ % 200}`)
  writeFileSync(path, content)
  return path
}

const GOOD: Readonly<Record<string, readonly string[]>> = {
  DATABASE_URL: [
    'postgres://user:word@db.invalid:5432/base?sslmode=verify-full',
    'postgresql://localhost/base?sslmode=no-verify',
  ],
  INTAKE_BASE_URL: ['https://forms.example.com', 'http://127.0.0.1:4010/', 'https://h/prefix'],
  INTAKE_API_KEY: ['a-key'],
  INTAKE_API_SECRET: ['a-secret'],
  INTAKE_ALLOW_HTTP: ['0', '1'],
  INTAKE_ALLOW_INSECURE_DATABASE: ['0'],
  INTAKE_DATA_DIR: ['.intake-sync', '/var/lib/intake'],
  INTAKE_INBOX_DAYS: ['1', '30'],
  INTAKE_HISTORY_DAYS: ['off', '400'],
  INTAKE_RUN_DAYS: ['off', '400'],
  INTAKE_API_VERSION: ['v2.1', ''],
  INTAKE_TEAM: ['default', 'north.1'],
  INTAKE_WEBHOOK_SECRETS: ['one', 'one, two'],
  INTAKE_WEBHOOK_HOST: ['127.0.0.1'],
  INTAKE_WEBHOOK_PORT: ['0', '8080'],
  INTAKE_TRUSTED_PROXIES: ['10.0.0.1', '10.0.0.0/8,fd00::/8'],
  INTAKE_ADMIN_HOST: ['127.0.0.1'],
  INTAKE_ADMIN_PORT: ['0', '9090'],
  INTAKE_CRON: ['0 2 * * *', 'off'],
  INTAKE_CRON_MISSED: ['run', 'skip'],
  INTAKE_LOOKBACK_DAYS: ['0', '2'],
  INTAKE_SWEEP_DAYS: ['0', '7'],
  INTAKE_CONCURRENCY: ['1', '4'],
  INTAKE_GIVE_UP_AFTER: ['90s', '15m'],
  INTAKE_RATE_LIMIT: ['20/s', '1000/min', 'learned'],
  INTAKE_TIMEZONE: ['UTC', 'Europe/Berlin'],
  INTAKE_ENCRYPTION_KEY: [Buffer.alloc(32, 7).toString('base64')],
  INTAKE_ANALYTICS_KEY: ['sixteen characters'],
  LOG_LEVEL: ['info', 'silent'],
}
const NAMES = Object.keys(GOOD)

/** A valid value, a nearly valid one, or anything; all except valid ones contain the canary. */
function valueFor(name: string): fc.Arbitrary<string> {
  const good = fc.constantFrom(...GOOD[name]!)
  const marked = fc.tuple(anyText, anyText).map(([before, after]) => `${before}${CANARY}${after}`)
  const nearly = fc.tuple(good, fc.nat(60)).map(([text, at]) => text.slice(0, at) + CANARY + text.slice(at))
  return fc.oneof({ weight: 3, arbitrary: good }, nearly, marked)
}

type Way = 'plain' | 'file' | 'both' | 'absent'

const settings = fc.subarray(NAMES, { maxLength: 8 }).chain((names) =>
  fc.tuple(
    ...names.map((name) =>
      fc.record({
        name: fc.constant(name),
        value: valueFor(name),
        way: fc.constantFrom<Way>('plain', 'plain', 'plain', 'file', 'file', 'both', 'absent'),
      }),
    ),
  ),
)

function environmentOf(drawn: readonly { name: string; value: string; way: Way }[]): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = {}
  for (const { name, value, way } of drawn) {
    // No process can be given a variable with a NUL in it.
    if (way === 'plain' || way === 'both') env[name] = value.replaceAll('\0', '')
    if (way === 'file' || way === 'both') env[`${name}_FILE`] = fileOf(value)
    if (way === 'absent') env[`${name}_FILE`] = join(folder, CANARY)
  }
  return env
}

/** Null for a valid configuration; otherwise the rejection, which is checked here. */
function refusalOf(env: NodeJS.ProcessEnv): UsageError | null {
  try {
    const config = readConfig(env)
    expect(Object.isFrozen(config)).toBe(true)
    for (const port of [config.webhookPort, config.adminPort]) expect(port >= 0 && port < 65_536).toBe(true)
    expect(config.ingestTeams.length).toBeGreaterThan(0)
    for (const { baseUrl } of config.teams) expect(URL.canParse(baseUrl)).toBe(true)
    return null
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError)
    const { message, hint, variable, verdict, cause } = error as UsageError
    expect(verdict).toBe('stop')
    expect(cause).toBeUndefined()
    expect(variable).toMatch(/\S/)
    expect(message).toContain(variable!.split(' ')[0])
    expect(hint).toMatch(/\S/)
    expect(`${message} ${hint} ${variable} ${(error as Error).stack}`).not.toContain(CANARY)
    expect(`${message}${hint}`).not.toMatch(/[\n\0]/)
    return error as UsageError
  }
}

it('variables, and the files that they name, give a configuration or one usage error', PATIENCE, async () => {
  await holds(
    fc.property(settings, (drawn) => {
      const env = environmentOf(drawn)
      const refusal = refusalOf(env)
      if (refusal !== null) expect(NAMES.some((name) => refusal.message.includes(name))).toBe(true)
      if (drawn.some(({ way }) => way === 'absent' || way === 'both')) return
      // The same from a file, except for one line end at its end.
      const other = environmentOf(
        drawn.map((each) => ({ ...each, way: each.way === 'plain' ? 'file' : 'plain' })),
      )
      const plain = drawn.every(({ value }) => !/[\0\r\n]|[\ud800-\udfff]|^$/.test(value))
      if (plain) expect(refusalOf(other)?.message).toBe(refusal?.message)
    }),
    400,
  )
})

const text = fc.oneof(
  fc.constantFrom('env:GIVEN', 'env:MISSING', 'file:/dev/null', `file:/${CANARY}`, 'https://h', 'key', ''),
  anyText.map((any) => any + CANARY),
)
const team = fc.record(
  {
    name: fc.oneof(fc.constantFrom('north', 'south'), text),
    baseUrl: fc.oneof(fc.constantFrom('https://forms.example.com', 'http://10.0.0.1'), text),
    apiKey: text,
    apiSecret: text,
    apiVersion: text,
    webhookSecrets: fc.oneof(fc.array(text, { maxLength: 3 }), text, fc.constant(null)),
    timezone: fc.oneof(fc.constant('Europe/Paris'), text),
    concurrency: fc.oneof(fc.integer({ min: -1, max: 70 }), text, fc.double()),
    pageSize: fc.oneof(fc.integer(), text),
    paths: fc.oneof(
      fc.dictionary(fc.oneof(fc.constantFrom('patients', 'patient', '__proto__'), text), text),
      text,
    ),
    bodyKeys: fc.oneof(
      fc.dictionary(fc.oneof(fc.constantFrom('id', 'constructor'), text), text),
      fc.jsonValue(),
    ),
    [`${CANARY} mistyped`]: text,
  },
  { requiredKeys: [] },
)
const fileText = fc.oneof(
  fc.record({ teams: fc.array(team, { maxLength: 3 }) }).map((value) => JSON.stringify(value)),
  team.map((one) => JSON.stringify({ teams: [one], [CANARY]: 1 })),
  fc.jsonValue().map((value) => JSON.stringify({ [CANARY]: value })),
)
const configFile = fc.oneof(
  fileText.map((whole) => Buffer.from(whole)),
  damaged(fileText.map((whole) => Buffer.from(whole))),
)

it(
  'a file with several teams, intact or damaged, gives a configuration or one usage error',
  PATIENCE,
  async () => {
    let read = 0
    await holds(
      fc.property(configFile, (bytes) => {
        // Damage may split the canary; then its absence proves nothing, and the other checks remain.
        if (refusalOf({ INTAKE_CONFIG: fileOf(bytes), GIVEN: 'given' }) === null) read += 1
      }),
      400,
      [[Buffer.from('{"teams":[{"baseUrl":"https://h","apiKey":"k","apiSecret":"env:GIVEN"}]}')]],
    )
    expect(read).toBeGreaterThan(0)
  },
)

it('a bad configuration exits with 2, one error and its hint, and no stack trace', PATIENCE, async () => {
  await holds(
    fc.asyncProperty(
      settings,
      fc.constantFrom(['status'], ['backfill', '--json'], ['serve']),
      async (drawn, words) => {
        const env = environmentOf(drawn)
        fc.pre(refusalOf(env) !== null)
        const ended = await runCommand(words, env as Record<string, string>)
        expect(ended.output).not.toContain(CANARY)
        expectNoStack(ended.output)
        expect(ended.code).toBe(2)
        expect(ended.stderr).toMatch(/^error: .+\n {2}hint: .+\n(?:code: .+\n)?$/)
      },
    ),
    40,
  )
})
