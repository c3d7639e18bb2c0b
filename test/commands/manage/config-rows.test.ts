/** `config show` as a whole: each row with its source and place, of every kind of setting, and of a configuration that is wrong. */
import { chmodSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { runProgram } from '../../../src/commands/program.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const folder = makeFolder('config-rows-')
afterAll(() => removeFolder(folder))
const write = (name: string, text: string) => {
  const path = join(folder, name)
  writeFileSync(path, text)
  chmodSync(path, 0o600)
  return path
}

async function show(env: NodeJS.ProcessEnv, ...words: string[]) {
  const said = { stdout: '', stderr: '' }
  const code = await runProgram(
    ['config', 'show', ...words],
    {
      env,
      stdout: { write: (text) => (said.stdout += String(text)) },
      stderr: { write: (text) => (said.stderr += String(text)) },
      ...{ signal: new AbortController().signal, version: '' },
    },
    folder,
  )
  return { code, ...said }
}

interface Row {
  readonly name: string
  readonly source: string
}
/** The rows that are not defaults. */
const rowsOf = (stdout: string) =>
  (JSON.parse(stdout).settings as Row[]).filter(({ source }) => source !== 'default')

const row = (name: string, value: string | null, source: string, place: string, is_secret = false) => ({
  ...{ name, value, source, place, is_secret },
})

it('settings come from the environment, a file of one, or the settings file, which the environment overrides', async () => {
  const file = write(
    'intake-sync.env',
    'INTAKE_API_KEY=k\nINTAKE_TEAM=of-the-file\nINTAKE_CONCURRENCY=7\nINTAKE_CRON=1 2 * * *\n',
  )
  const secret = write('secret', 'hunter1')
  const env = {
    ...{
      INTAKE_CONCURRENCY: '2',
      INTAKE_API_SECRET_FILE: secret,
      INTAKE_BASE_URL: 'https://f.example.com/x',
    },
    ...{
      INTAKE_ALERT_URL: 'https://a.example.com:8443/hunter2?x=1',
      INTAKE_ALERT_SECRET: 'hunter3 hunter3 hunter3',
    },
    ...{
      DATABASE_URL: 'postgres://u:hunter4@127.0.0.1:6/d',
      INTAKE_ENV_FILE: file,
      INTAKE_API_VERSION: '',
      INTAKE_OTHER: 'x',
    },
  }
  const { code, stdout } = await show(env, '--json')
  expect([code, JSON.parse(stdout).unknown]).toEqual([0, ['INTAKE_OTHER']])
  const own = (name: string, value: string | null, isSecret = false) =>
    row(name, value, 'environment', name, isSecret)
  const rows = [
    own('DATABASE_URL', 'd at 127.0.0.1:6', true),
    own('INTAKE_ALERT_SECRET', null, true),
    own('INTAKE_ALERT_URL', 'https://a.example.com:8443', true),
    row('INTAKE_API_KEY', null, 'settings_file', file, true),
    row('INTAKE_API_SECRET', null, 'file', `INTAKE_API_SECRET_FILE=${secret}`, true),
    own('INTAKE_API_VERSION', ''),
    own('INTAKE_BASE_URL', 'https://f.example.com/x'),
    own('INTAKE_CONCURRENCY', '2'),
    row('INTAKE_CRON', '1 2 * * *', 'settings_file', file),
    row('INTAKE_TEAM', 'of-the-file', 'settings_file', file),
  ]
  expect(rowsOf(stdout).toSorted((a, b) => a.name.localeCompare(b.name))).toEqual(rows)
  const text = await show(env)
  const lines = text.stdout.split('\n').map((line) => line.split(/ {2,}/))
  for (const [name, value, from] of [
    ['INTAKE_API_KEY', '(hidden)', file],
    ['INTAKE_API_SECRET', '(hidden)', `INTAKE_API_SECRET_FILE=${secret}`],
    ['INTAKE_CONCURRENCY', '2', 'environment'],
    ['INTAKE_CRON', '1 2 * * *', file],
    ['INTAKE_ENCRYPTION_KEY', '-', 'default'],
  ])
    expect(lines).toContainEqual([name, value, from])
  expect(text).toMatchObject({ code: 0, stderr: '' })
  expect(text.stdout.trimEnd().split('\n').at(-1)).toBe(
    'INTAKE_OTHER is set, and is no setting of this version',
  )
  expect(stdout + text.stdout).not.toContain('hunter')
})

it('teams of a file are listed key by key; what refers to another place, and what is secret, has no value', async () => {
  const key = write('key', 'hunter1')
  const teams = [
    {
      name: 'north',
      baseUrl: 'env:URL',
      apiKey: `file:${key}`,
      apiSecret: 'hunter2',
      webhookSecrets: ['hunter3'],
      paths: { forms: '/f' },
    },
    { name: 'south', baseUrl: 'https://s.example.com', apiKey: 'hunter4', apiSecret: 'env:S', pageSize: 5 },
  ]
  const file = write('teams.json', JSON.stringify({ teams }))
  const env = {
    INTAKE_CONFIG: file,
    URL: 'https://hunter5.example.com',
    S: 'hunter6',
    INTAKE_ENV_FILE: write('none.env', ''),
  }
  const { code, stdout } = await show(env, '--json')
  const of = (name: string, value: string | null, place = file, isSecret = false) =>
    row(`teams.${name}`, value, 'teams_file', place, isSecret)
  expect([code, rowsOf(stdout).filter(({ name }) => name.startsWith('teams.'))]).toEqual([
    0,
    [
      ...[of('0.name', 'north'), of('0.baseUrl', null, 'env:URL'), of('0.apiKey', null, `file:${key}`, true)],
      ...[
        of('0.apiSecret', null, file, true),
        of('0.webhookSecrets', null, file, true),
        of('0.paths', '{"forms":"/f"}'),
      ],
      ...[of('1.name', 'south'), of('1.baseUrl', 'https://s.example.com'), of('1.apiKey', null, file, true)],
      ...[of('1.apiSecret', null, 'env:S', true), of('1.pageSize', '5')],
    ],
  ])
  const { stdout: text } = await show(env)
  const lines = text.split('\n').map((line) => line.split(/ {2,}/))
  expect(lines).toContainEqual(['teams.0.baseUrl', '(not shown)', 'env:URL'])
  expect(lines).toContainEqual(['teams.0.webhookSecrets', '(hidden)', file])
  expect(stdout + text).not.toContain('hunter')
})

it('of a configuration that is wrong no value is shown, its place is, and the mistake is in the document or on standard error', async () => {
  const env = {
    INTAKE_TEAM: 'hunter1',
    INTAKE_CRON: 'hunter2',
    INTAKE_CONFIG_: 'x',
    INTAKE_ENV_FILE: write('none.env', ''),
  }
  const json = await show(env, '--json')
  const { valid, error } = JSON.parse(json.stdout)
  expect([json.code, json.stderr, valid, error]).toEqual([
    ...[2, '', false],
    {
      message: expect.stringContaining('INTAKE_CRON'),
      hint: expect.any(String),
      variable: 'INTAKE_CRON',
    },
  ])
  expect(rowsOf(json.stdout).map(({ name, ...rest }) => [name, rest])).toEqual(
    ['INTAKE_TEAM', 'INTAKE_CRON'].map((name) => [
      ...[name, { value: null, source: 'environment', place: name, is_secret: false }],
    ]),
  )
  const text = await show(env)
  expect([text.code, text.stderr]).toEqual([
    2,
    expect.stringMatching(/^error: INTAKE_CRON[\s\S]*\ncode: setting_invalid/),
  ])
  expect(text.stdout).toMatch(/^INTAKE_TEAM +\(not shown\) +environment$/m)
  expect(json.stdout + text.stdout + text.stderr).not.toContain('hunter')
})

it('variables that look like settings are named in alphabetical order, and only those that are none', async () => {
  const env = {
    ...{ INTAKE_ZEBRA: '1', INTAKE_CORN: '1', INTAKE_CRON: 'off', INTAKE_CRON_FILE: '', INTAKE_EMPTY: '' },
    ...{
      INTAKE_APPLE_FILE: 'x',
      INTAKE_lower: 'x',
      OTHER: 'x',
      INTAKE_7: 'x',
      INTAKE_TEAM: '',
      LOG_LEVEL: '',
    },
    ...{ DATABASE_URL: 'postgres://u@127.0.0.1', INTAKE_ENV_FILE: write('none.env', '') },
  }
  const { stdout } = await show(env, '--json')
  expect(JSON.parse(stdout).unknown).toEqual(['INTAKE_APPLE_FILE', 'INTAKE_CORN', 'INTAKE_ZEBRA'])
  expect(rowsOf(stdout)).toEqual([
    row('DATABASE_URL', 'u at 127.0.0.1:5432', 'environment', 'DATABASE_URL', true),
    row('INTAKE_CRON', 'off', 'environment', 'INTAKE_CRON'),
  ])
})

it('values and places are shown without control characters, and an empty version as one', async () => {
  const key = write('key\u001b', 'k')
  const env = {
    ...{
      INTAKE_DATA_DIR: 'data\u001b',
      INTAKE_API_KEY_FILE: key,
      INTAKE_API_SECRET: 's',
      INTAKE_API_VERSION: '',
    },
    ...{ INTAKE_BASE_URL: 'https://f.example.com', INTAKE_ENV_FILE: write('none.env', '') },
  }
  const { code, stdout } = await show(env)
  const lines = stdout.split('\n').map((line) => line.split(/ {2,}/))
  const place = `INTAKE_API_KEY_FILE=${key.replace('\u001b', '\\x1b')}`
  for (const line of [
    ['INTAKE_DATA_DIR', 'data\\x1b', 'environment'],
    ['INTAKE_API_KEY', '(hidden)', place],
    ['INTAKE_API_VERSION', 'environment'],
  ])
    expect(lines).toContainEqual(line)
  expect([code, stdout.includes('\u001b')]).toEqual([0, false])
  expect(rowsOf((await show(env, '--json')).stdout)).toContainEqual(
    row('INTAKE_DATA_DIR', 'data\u001b', 'environment', 'INTAKE_DATA_DIR'),
  )
})
