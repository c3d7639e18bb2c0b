/** `init` without its parts: what counts, what is tried, asked, written and printed, in which order. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import type { Context } from '../../../src/commands/context.ts'
import { initCommand } from '../../../src/commands/init/init.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { KEY, PROBE, world } from './fakes.ts'

const fakes = vi.hoisted(() => async (name: string, original: () => Promise<object>) => ({
  ...(await original()),
  ...(await import('./fakes.ts'))[name as 'text'],
}))
vi.mock('../../../src/commands/init/probe.ts', (original) => fakes('probe', original<object>))
vi.mock('../../../src/commands/webhooks/create.ts', (original) => fakes('create', original<object>))
vi.mock('../../../src/commands/inspect/doctor.ts', (original) => fakes('doctor', original<object>))
vi.mock('../../../src/commands/init/init-text.ts', (original) => fakes('text', original<object>))

const folder = makeFolder('init-order-')
afterAll(() => removeFolder(folder))
let files = 0
beforeEach(() => {
  const path = join(folder, `${++files}`, 'own.env')
  mkdirSync(resolve(path, '..'))
  Object.assign(world, { happened: [], path, failures: [], prepare: async () => {} })
  Object.assign(world, { questions: null, status: 'ok' })
})

const ACCESS = { INTAKE_BASE_URL: 'http://127.0.0.1:1', INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }

async function init(words: readonly string[], env: NodeJS.ProcessEnv, more: Partial<Context> = {}) {
  let stdout = ''
  const context: Context = {
    ...{ env, signal: new AbortController().signal, version: '1' },
    ...{ stdout: { write: (text) => (stdout += String(text)) }, stderr: { write: () => true } },
    ...more,
  }
  const file = words.includes('--file') || more.envFile ? [] : ['--file', world.path]
  const error = await initCommand(context)
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
    .parseAsync([...file, ...words], { from: 'user' })
    .then(
      () => null,
      (thrown: unknown) => thrown,
    )
  return { error, stdout }
}
const written = (path = world.path) => parseEnv(readFileSync(path, 'utf8'))
const steps = () => world.happened.map((each) => (each as string[]).slice(0, 2).join(', '))

it('nothing is written before service and warehouse were tried, and all that follows uses what is written', async () => {
  const env = { ...ACCESS, HOME: '/h', LOG_LEVEL: 'warn' }
  const { error, stdout } = await init(['--json', '--webhook-url', 'http://h/webhooks'], env)
  const all = { ...ACCESS, ...KEY, LOG_LEVEL: 'warn', INTAKE_DATA_DIR: resolve('.intake-sync') }
  expect(error).toBeNull()
  expect(world.happened).toEqual([
    ['service', 'not written', 'k'],
    ['probe', 'not written'],
    ['warehouse', 'not written', { ...all, HOME: '/h' }, resolve('.intake-sync')],
    ['webhook', 'written', 'http://h/webhooks', true],
    ['checks', 'written', 'http://127.0.0.1:1'],
  ])
  expect(written()).toEqual(all)
  expect(JSON.parse(stdout)).toEqual({
    settings_file: world.path,
    changed: [
      ...['INTAKE_BASE_URL', 'INTAKE_API_KEY', 'INTAKE_API_SECRET', 'LOG_LEVEL', 'INTAKE_ENCRYPTION_KEY'],
      'INTAKE_DATA_DIR',
    ],
    teams: [PROBE],
    webhook: { id: 'c-1', created: true },
    notes: ['a note'],
    checks: [{ name: 'disk', status: 'ok', detail: 'free', hint: null }],
  })
})

it('a check that fails at the end is shown, and is exit code 1', async () => {
  world.status = 'failed'
  const { error, stdout } = await init([], ACCESS)
  expect(error).toMatchObject({ exitCode: 1 })
  expect(stdout).toContain('1 failed\n\nnext:\n')
  expect(steps()).toEqual([
    ...['terminal, not written', 'service, not written', 'probe, not written'],
    ...['warehouse, not written', 'checks, written'],
  ])
})

it('a warehouse that cannot be used, or no team: nothing is written', async () => {
  world.prepare = () => Promise.reject(new Error('full'))
  expect((await init([], ACCESS)).error).toMatchObject({ message: 'full' })
  expect((await init([], { INTAKE_BASE_URL: '' })).error).toMatchObject({
    ...{ code: 'setting_missing', variable: '--base-url', verdict: 'stop' },
    message: 'the service is not known: its address, key and secret are needed',
    hint: 'give --base-url, and INTAKE_API_KEY and INTAKE_API_SECRET in the environment; intake-sync emulator prints a set to try with',
  })
  world.failures = [{ name: 'clock', status: 'failed', detail: 'wrong', hint: null }]
  const { error } = await init([], ACCESS)
  expect(error).toMatchObject({
    ...{ code: 'init_refused', verdict: 'stop', message: 'clock: wrong; nothing was written' },
  })
  expect((error as { hint?: string }).hint).toBeUndefined()
  expect((await init(['--deploy', 'kubernetes'], ACCESS)).error).toMatchObject({ exitCode: 1 })
  expect(existsSync(world.path)).toBe(false)
})

it.each([
  [
    'a key in a file stays there',
    { INTAKE_ENCRYPTION_KEY_FILE: 'key', DATABASE_URL: 'postgres://127.0.0.1/d' },
  ],
  ['so does the address of the warehouse', { ...KEY, DATABASE_URL_FILE: 'url' }],
  ['and the place of an embedded one', { ...KEY, INTAKE_DATA_DIR_FILE: 'place' }],
])('%s', async (_, env) => {
  const values = { key: KEY.INTAKE_ENCRYPTION_KEY, url: 'postgres://127.0.0.1/d', place: '/srv/data' }
  const own: Record<string, string> = { ...ACCESS }
  for (const [name, value] of Object.entries(env)) {
    own[name] = value
    if (!name.endsWith('_FILE')) continue
    own[name] = join(folder, value)
    writeFileSync(own[name], values[value as 'key'])
  }
  expect((await init([], own)).error).toBeNull()
  expect(written()).toEqual(own)
})

it('--database takes the place of an address in a file; embedded, of each', async () => {
  writeFileSync(join(folder, 'old'), 'postgres://127.0.0.1/old')
  const env = { ...ACCESS, ...KEY, DATABASE_URL_FILE: join(folder, 'old') }
  await init(['--database', 'postgres://127.0.0.1/new'], env)
  expect(written()).toEqual({ ...ACCESS, ...KEY, DATABASE_URL: 'postgres://127.0.0.1/new' })
  await init(['--database', 'embedded'], { INTAKE_DATA_DIR: 'mine' })
  expect(written()).toEqual({ ...ACCESS, ...KEY, INTAKE_DATA_DIR: resolve('mine') })
  const { stdout } = await init(['--json'], { DATABASE_URL: '' })
  expect(JSON.parse(stdout)).toMatchObject({ changed: [], webhook: null })
})

it('in a JSON file a place that a variable names stays a reference to it', async () => {
  const file = join(resolve(world.path, '..'), 'own.json')
  const settings = { ...KEY, INTAKE_DATA_DIR: 'env:PLACE' }
  const team = { baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' }
  writeFileSync(file, JSON.stringify({ settings, teams: [team] }))
  const { stdout } = await init(['--json', '--file', file], {
    ...{ PLACE: '/srv/data', INTAKE_CONFIG: relative(process.cwd(), file) },
  })
  expect(JSON.parse(stdout)).toMatchObject({ settings_file: file, changed: [] })
  expect(world.happened.at(2)).toEqual([
    ...['warehouse', 'not written'],
    { PLACE: '/srv/data', ...KEY, INTAKE_DATA_DIR: '/srv/data', INTAKE_CONFIG: file },
    '/srv/data',
  ])
})

it('the settings file of the commands is changed where none is named; only what the environment says itself counts more', async () => {
  const before = `INTAKE_BASE_URL=http://127.0.0.1:1\nINTAKE_API_KEY='$k'\nINTAKE_API_SECRET=s\n`
  writeFileSync(
    world.path,
    `${before}LOG_LEVEL=info\nINTAKE_TEAM=north\nDATABASE_URL=postgres://127.0.0.1/d\n`,
  )
  const values = { ...ACCESS, INTAKE_API_KEY: '$k', LOG_LEVEL: 'info', INTAKE_TEAM: 'north' }
  const env = { ...values, LOG_LEVEL: 'warn', INTAKE_TEAM: 'south', DATABASE_URL: 'postgres://127.0.0.1/d' }
  const { error } = await init(['--team', 'east'], env, { envFile: { path: world.path, values } })
  expect(error).toBeNull()
  expect(readFileSync(world.path, 'utf8')).toBe(
    `${before}LOG_LEVEL=warn\nINTAKE_TEAM=east\nDATABASE_URL=postgres://127.0.0.1/d\n${Object.entries(KEY)[0]!.join('=')}\n`,
  )
})

const asked: unknown[] = []
const questions = (answers: readonly (object | null)[]) => ({
  missing: async (...words: unknown[]) => {
    asked.push(['missing', ...words])
    return { INTAKE_API_SECRET: 'typed' }
  },
  again: async (failure: object) => {
    asked.push(['again', failure])
    return answers[asked.length - 2] ?? null
  },
  further: async () => {
    asked.push(['further'])
    return { webhookUrl: 'http://asked/webhooks', deploy: 'cron' }
  },
  [Symbol.asyncDispose]: async () => void asked.push(['closed']),
})

it('at a terminal it asks until the service accepts; what follows is asked the first time only', async () => {
  asked.length = 0
  const failures = [1, 2].map((n) => ({ name: 'credentials', status: 'failed', detail: `${n}`, hint: null }))
  world.failures = [...failures]
  world.questions = questions([{ INTAKE_API_KEY: 'k2' }, { INTAKE_API_KEY: 'k3' }])
  const { INTAKE_API_SECRET: _, ...env } = ACCESS
  const first = await init([], env)
  expect(first.stdout).toContain('\n# crontab -e\n')
  expect(asked).toEqual([
    ...[['missing', env, true], ['again', failures[0]], ['again', failures[1]], ['further'], ['closed']],
  ])
  const tried = world.happened.flatMap((each) => ((each as string[])[0] === 'service' ? [each] : []))
  expect(tried.map((each) => (each as string[])[2])).toEqual(['k', 'k2', 'k3'])
  expect(world.happened.flatMap((each) => ((each as string[])[0] === 'webhook' ? [each] : []))).toEqual([
    ['webhook', 'written', 'http://asked/webhooks', true],
  ])
  expect(written()).toMatchObject({ INTAKE_API_KEY: 'k3', INTAKE_API_SECRET: 'typed' })
  asked.length = 0
  const second = await init([], {})
  expect(asked).toEqual([['missing', written(), false], ['closed']])
  expect(second.stdout).not.toContain('crontab')
  asked.length = 0
  await init(['--json'], {})
  expect(asked).toEqual([])
})

it('flags come before answers; whoever gives up gets the reason, and nothing is written', async () => {
  asked.length = 0
  world.questions = questions([])
  const { stdout } = await init(['--deploy', 'systemd', '--webhook-url', 'http://flag/webhooks'], ACCESS)
  expect(stdout).toContain('\n# /etc/systemd/system/intake-sync.service\n')
  expect(world.happened).toContainEqual(['webhook', 'written', 'http://flag/webhooks', true])
  asked.length = 0
  world.path = join(resolve(world.path, '..'), 'other.env')
  world.failures = [{ name: 'credentials', status: 'failed', detail: 'no', hint: 'copy both again' }]
  const { error } = await init([], ACCESS)
  expect(error).toMatchObject({ message: 'credentials: no; nothing was written', hint: 'copy both again' })
  expect([asked.map((each) => (each as string[])[0]), existsSync(world.path)]).toEqual([
    ['missing', 'again', 'closed'],
    false,
  ])
})
