/** `config`: where each setting comes from; no secret is shown, and no value of a configuration that is not valid. */
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../../src/config/config.ts'
import { SETTINGS } from '../../../src/config/settings.ts'
import { runCli } from '../../support/cli.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

let folder: string
const write = (name: string, text: string, mode = 0o600) => {
  const path = join(folder, name)
  writeFileSync(path, text)
  chmodSync(path, mode)
  return path
}

beforeAll(() => {
  folder = makeFolder('config-')
})
afterAll(() => removeFolder(folder))

const SECRETS = {
  DATABASE_URL: 'postgres://ana:hunter2@db.example.com/forms?sslmode=verify-full',
  INTAKE_API_SECRET: 'hunter3-hunter3',
  INTAKE_ENCRYPTION_KEY: 'aHVudGVyNGh1bnRlcjRodW50ZXI0aHVudGVyNGh1bnQ=',
  INTAKE_ANALYTICS_KEY: 'hunter5-hunter5-hunter5',
  INTAKE_WEBHOOK_SECRETS: 'hunter6',
  INTAKE_ALERT_URL: 'https://alerts.example.com/hunter7',
  INTAKE_ALERT_SECRET: 'hunter8-hunter8-hunter8',
} as const

describe('config show', () => {
  it('shows every setting with its source and hides secrets, whether it is JSON, piped or at 80 columns', async () => {
    const key = write('key', 'hunter1\n')
    const env = {
      ...SECRETS,
      INTAKE_BASE_URL: 'https://forms.example.com',
      INTAKE_API_KEY_FILE: key,
      INTAKE_CONCURRENCY: '8',
      INTAKE_CRN: '1 * * * *',
      INTAKE_CRN_FILE: '/x',
      INTAKE_ALERTS: 'x',
      INTAKE_EMPTY: '',
      INTAKE_API_VERSION: '',
    }
    const shown = await runCommand(['config', 'show', '--json'], { ...env, INTAKE_DATA_DIR: undefined })
    expect(shown.code).toBe(0)
    const { valid, error, settings, unknown } = JSON.parse(shown.stdout)
    expect([valid, error, unknown]).toEqual([true, null, ['INTAKE_ALERTS', 'INTAKE_CRN', 'INTAKE_CRN_FILE']])
    expect(settings.map(({ name }: { name: string }) => name)).toEqual(Object.keys(SETTINGS))
    const of = (wanted: string) => settings.find(({ name }: { name: string }) => name === wanted)
    const set = { source: 'environment', is_secret: true }
    expect(of('DATABASE_URL')).toMatchObject({ ...set, value: 'forms at db.example.com:5432' })
    expect(of('INTAKE_ALERT_URL')).toMatchObject({ ...set, value: 'https://alerts.example.com' })
    expect(of('INTAKE_API_SECRET')).toMatchObject({ ...set, value: null, place: 'INTAKE_API_SECRET' })
    expect(of('INTAKE_API_KEY')).toMatchObject({
      source: 'file',
      place: `INTAKE_API_KEY_FILE=${key}`,
      value: null,
    })
    expect(of('INTAKE_CONCURRENCY')).toMatchObject({ source: 'environment', value: '8', is_secret: false })
    // An empty version is a choice: none is sent.
    expect(of('INTAKE_API_VERSION')).toMatchObject({ source: 'environment', value: '' })
    expect(of('INTAKE_CRON')).toMatchObject({ source: 'default', value: '0 2 * * *', place: null })
    const piped = await runCommand(['config', 'show'], env)
    expect(piped.stdout).toMatch(/^INTAKE_CONCURRENCY +8 +environment$/m)
    expect(piped.stdout).toMatch(/^INTAKE_WEBHOOK_HOST +\S+ +default$/m)
    expect(piped.stdout).toMatch(/^INTAKE_TEAM +(\S+) +default$/m)
    expect(piped.stdout).toMatch(/^INTAKE_API_KEY +\(hidden\) +INTAKE_API_KEY_FILE=/m)
    expect(piped.stdout).toContain('INTAKE_CRN is set, and is no setting of this version')
    const narrow = await runCommand(['config', 'show'], env, { columns: 80 })
    for (const line of narrow.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80)
    for (const { output } of [shown, piped, narrow]) expect(output).not.toMatch(/hunter|aHVudGVy/)
  })

  it('shows no value of a configuration that is not valid, but what is wrong: exit code 2', async () => {
    const env = { INTAKE_TEAM: 'hunter2', INTAKE_CRON: 'hunter3 hunter3', INTAKE_CRN: 'hunter4' }
    const { code, output, stdout: text } = await runCommand(['config', 'show'], env)
    expect([code, output]).toEqual([
      2,
      expect.stringContaining('error: INTAKE_CRON is not a cron expression'),
    ])
    // A setting that is misspelled may be why.
    expect(text).toContain('INTAKE_CRN is set, and is no setting of this version')
    const { stdout, ...json } = await runCommand(['config', 'show', '--json'], env)
    const { valid, error, unknown } = JSON.parse(stdout)
    expect([json.code, valid, error.variable, unknown]).toEqual([2, false, 'INTAKE_CRON', ['INTAKE_CRN']])
    expect(output + stdout).not.toContain('hunter')
  })

  it('shows the teams of a file, and what they refer to', async () => {
    const teams = [
      {
        name: 'north',
        baseUrl: 'https://n.example.com',
        apiKey: 'env:KEY',
        apiSecret: 'hunter2',
        concurrency: 2,
      },
    ]
    const file = write(
      'teams.json',
      // As Windows saves it.
      `\ufeff${JSON.stringify({ $schema: './intake-sync.schema.json', teams })}`,
    )
    const { stdout } = await runCommand(['config', 'show', '--json'], { INTAKE_CONFIG: file, KEY: 'hunter1' })
    const rows = JSON.parse(stdout).settings.filter(
      ({ source }: { source: string }) => source === 'teams_file',
    )
    expect(rows.map(({ name, value, place }: Record<string, unknown>) => [name, value, place])).toEqual([
      ['teams.0.name', 'north', file],
      ['teams.0.baseUrl', 'https://n.example.com', file],
      ['teams.0.apiKey', null, 'env:KEY'],
      ['teams.0.apiSecret', null, file],
      ['teams.0.concurrency', '2', file],
    ])
    expect(stdout).not.toContain('hunter')
  })

  it('README.md lists the same settings with the same defaults', () => {
    const readme = readFileSync(join(import.meta.dirname, '../../../README.md'), 'utf8')
    const table = readme.split('### Configuration')[1]!.split('\n## ')[0]!
    const rows = [...table.matchAll(/^\| (`[A-Z][^|]*) \|([^|]*)\|/gm)].flatMap(([, names, defaults]) => {
      const texts = [...defaults!.matchAll(/`([^`]*)`/g)].map(([, text]) => text!)
      return [...names!.matchAll(/`([A-Z_]+)`/g)].map(([, name], at) => [
        name!,
        texts[at] ?? (defaults!.trim() || null),
      ])
    })
    const own = Object.entries(SETTINGS).map(([name, { without }]) => [name, without])
    expect(rows).toEqual(own)
  })

  it('the defaults that it shows are those that commands use', () => {
    const defaults = Object.fromEntries(
      Object.entries(SETTINGS).flatMap(([name, { without, secret }]) =>
        without && !secret ? [[name, without]] : [],
      ),
    )
    const access = { INTAKE_BASE_URL: 'https://f.example.com', INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }
    const { namesTeams: _, ...plain } = readConfig(access)
    const { namesTeams: __, ...given } = readConfig({ ...access, ...defaults })
    expect(given).toEqual(plain)
  })
})

describe('the settings file', () => {
  const show = async (env: Record<string, string>) => {
    const { code, stdout, stderr } = await runCli(['config', 'show', '--json'], env)
    return { code, stderr, settings: stdout === '' ? [] : JSON.parse(stdout).settings, stdout }
  }
  const named = (settings: readonly Record<string, unknown>[], name: string) =>
    settings.find((each) => each.name === name)

  it('adds what the environment does not set, as NAME or as NAME_FILE', async () => {
    const secret = write('secret', 'from-a-file')
    const file = write(
      'intake-sync.env',
      `# settings\nINTAKE_TEAM='north'\nINTAKE_CONCURRENCY=7\nINTAKE_API_SECRET=hunter2\nINTAKE_API_KEY=k\nINTAKE_BASE_URL=https://f.example.com\nINTAKE_TIMEZONE=\n`,
    )
    const { code, settings, stdout } = await show({
      INTAKE_ENV_FILE: file,
      INTAKE_CONCURRENCY: '2',
      INTAKE_API_SECRET_FILE: secret,
    })
    expect(code).toBe(0)
    expect(named(settings, 'INTAKE_TEAM')).toMatchObject({
      value: 'north',
      source: 'settings_file',
      place: file,
    })
    expect(named(settings, 'INTAKE_CONCURRENCY')).toMatchObject({ value: '2', source: 'environment' })
    expect(named(settings, 'INTAKE_API_SECRET')).toMatchObject({ source: 'file' })
    expect(named(settings, 'INTAKE_TIMEZONE')).toMatchObject({ source: 'default' })
    expect(JSON.parse(stdout).unknown).toEqual([])
    expect(stdout).not.toContain('hunter')
  })

  it('that another user could have written, or that is not there, stops every command with exit code 2', async () => {
    const file = write('shared.env', 'INTAKE_TEAM=north\n', 0o666)
    for (const path of [file, join(folder, 'nowhere.env')]) {
      const { code, stdout, stderr } = await show({ INTAKE_ENV_FILE: path })
      expect([code, JSON.parse(stdout).error.code]).toEqual([
        2,
        expect.stringMatching(/^(setting_invalid|file_unreadable)$/),
      ])
      expect(stderr).toMatch(/could have been written by another user|cannot be read \(ENOENT\)/)
    }
  })
})

it('config schema accepts the files that are read, and no others', async () => {
  const { stdout } = await runCommand(['config', 'schema'], {})
  const check = new Ajv2020().compile(JSON.parse(stdout))
  expect(check({ teams: [{ name: 'north', webhookSecrets: ['x'] }] })).toBe(true)
  expect(
    check({ $schema: 'x', teams: [{ baseUrl: 'https://x', apiKey: 'env:A', apiSecret: 'file:B' }] }),
  ).toBe(true)
  for (const wrong of [
    {},
    { teams: [] },
    { teams: [{ nam: 'x' }] },
    { teams: [{ concurrency: 0 }] },
    { team: [{}] },
  ])
    expect(check(wrong)).toBe(false)
})
