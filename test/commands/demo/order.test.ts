/** The demo without its parts: what it opens, calls, prints and closes, in which order and with which settings. */
import { readFileSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { EVERYTHING } from '../../../src/extract/reading/window.ts'
import { STREAMS } from '../../../src/streams/catalogue.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'
import { world } from './fakes.ts'
import { summaryOf } from './stage.ts'

const fakes = vi.hoisted(() => async (name: string, original?: () => Promise<object>) => ({
  ...(await original?.()),
  ...(await import('./fakes.ts'))[name as 'text'],
}))
vi.mock('../../../src/embedded/server.ts', () => fakes('server'))
vi.mock('../../../src/warehouse/connect.ts', () => fakes('connect'))
vi.mock('../../../src/commands/demo/warehouse.ts', (original) => fakes('warehouse', original<object>))
vi.mock('../../../src/commands/demo/service.ts', (original) => fakes('service', original<object>))
vi.mock('../../../src/commands/demo/live.ts', () => fakes('live'))
vi.mock('../../../src/extract/backfill.ts', () => fakes('backfill'))
vi.mock('../../../src/commands/run/backfill-report.ts', () => fakes('report'))
vi.mock('../../../src/commands/demo/text.ts', (original) => fakes('text', original<object>))
vi.mock('../../../src/commands/demo/analyst.ts', () => fakes('analyst'))
vi.mock('../../../src/commands/run/console.ts', () => fakes('console'))

let seconds: number
beforeEach(() => {
  seconds = 0
  // A second passes between two looks at the clock.
  vi.spyOn(systemClock, 'now').mockImplementation(() => ++seconds * 1_000_000)
  Object.assign(world, { happened: [], servers: [], claims: [], lives: [], consoles: [], backfills: [] })
  Object.assign(world, { at: () => {}, summary: (run: number) => summaryOf(run, {}) })
})
afterEach(() => {
  vi.restoreAllMocks()
})

const stop = () => new AbortController()

async function run(words: readonly string[], env: NodeJS.ProcessEnv = {}, abort = stop()) {
  const own = { INTAKE_DATA_DIR: '/srv/data', DATABASE_URL: 'postgres://never', ...env }
  const { signal } = abort
  const { code, stdout, stderr } = await runCommand(['demo', ...words], own, { signal, version: '7.8.9' })
  return { code, stdout, stderr, signal }
}

const UNTIL_SHOWN = [
  ...['server', 'session of postgres://u@127.0.0.1:5477/d for demo', 'claim', 'service'],
  ...['backfill 1', 'rows since mark before backfill 1', 'a day'],
  ...['backfill 2', 'rows since mark before backfill 2', 'backfill 3', 'rows since mark before backfill 3'],
  ...['live', 'changes', 'backfill 4', 'rows since mark before backfill 4'],
  ...['query', 'query', 'query', 'query', 'query', 'analyst'],
]
const CLOSED = ['live closed', 'service closed', 'session closed', 'server closed']

const RECORDED = `${import.meta.dirname}/recorded`

it('shows one step after the other, and closes what it opened, the last first', async () => {
  const { code, stdout, stderr } = await run([])
  expect([code, stderr, world.happened]).toEqual([
    ...[0, 'the server says something\n', [...UNTIL_SHOWN, ...CLOSED]],
  ])
  await expect(stdout).toMatchFileSnapshot(`${RECORDED}/demo.txt`)
})

it('--stay keeps all of it until Ctrl-C, and shows how to use it', async () => {
  const abort = stop()
  world.at = (what) => {
    if (what === 'console') setImmediate(() => abort.abort('SIGINT'))
  }
  const { code, stdout } = await run(['--stay'], {}, abort)
  expect([code, world.happened]).toEqual([0, [...UNTIL_SHOWN, 'console', 'console closed', ...CLOSED]])
  const [shown, next] = stdout.split('All results are as expected, after 9.0 s.\n\n')
  expect(shown).toBe(readFileSync(`${RECORDED}/demo.txt`, 'utf8').split('All results')[0])
  await expect(next).toMatchFileSnapshot(`${RECORDED}/stay.txt`)
})

it('a signal that comes before the end is not lost: the demo does not stay', async () => {
  const abort = stop()
  world.at = (what) => {
    if (what === 'console') abort.abort('SIGINT')
  }
  expect((await run(['--stay'], {}, abort)).code).toBe(0)
  expect(world.happened.slice(-5)).toEqual(['console closed', ...CLOSED])
})

it('a signal while the server starts: it opens nothing more', async () => {
  const abort = stop()
  world.at = () => abort.abort('SIGTERM')
  expect(await run([], {}, abort)).toMatchObject({ code: 143, stdout: '' })
  expect(world.happened).toEqual(['server', 'server closed'])
})

const QUERIES = [{ question: 'Who?', sql: 'select 2', columns: ['m'], rows: [[2]] }]

it.each([
  [[], null, null],
  [
    ['--stay'],
    5477,
    {
      ...{ INTAKE_TEAM: 'demo', INTAKE_BASE_URL: 'http://127.0.0.1:1' },
      ...{ INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' },
    },
  ],
] as const)('--json %j prints one document and nothing else', async (words, port, service) => {
  const abort = stop()
  world.at = (what) => {
    if (what === 'console') abort.abort('SIGINT')
  }
  const { stdout } = await run(['--json', ...words], {}, abort)
  const { queries, ...document } = JSON.parse(stdout)
  expect(queries.map(({ rows }: { rows: unknown }) => rows)).toEqual(Array(5).fill([[1]]))
  expect(document).toEqual({
    seconds: 9,
    steps: [
      { name: 'first', seconds: 1, row_versions: 10, backfill: 'document 4' },
      { name: 'changed', seconds: 1, row_versions: 20, backfill: 'document 4' },
      { name: 'unchanged', seconds: 1, row_versions: 0, backfill: 'document 4' },
      { name: 'last', seconds: 1, row_versions: 40, backfill: 'document 4' },
    ],
    live: [{ what: 'a patient moved', seconds: 0.25 }],
    analyst: { queries: QUERIES, refused: { sql: 'select names', reason: 'no' } },
    warehouse: { data_dir: '/srv/data-demo', password_file: '/data/16/password', port },
    service,
  })
})

const TEAM = {
  ...{ name: 'demo', baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' },
  ...{ apiVersion: 'v2.1', concurrency: 4 },
}

it('loads every stream as a whole, into its own warehouse, and nothing of the user but place, level and key', async () => {
  const abort = stop()
  world.at = (what) => {
    if (what === 'console') abort.abort('SIGINT')
  }
  const key = Buffer.alloc(32, 5).toString('base64')
  const user = {
    INTAKE_TEAM: 'clinic',
    INTAKE_BASE_URL: 'no URL',
    INTAKE_CRON: 'x',
    INTAKE_ANALYTICS_KEY: key,
  }
  const { signal } = await run(['--stay'], user, abort)
  expect(world.servers.map(({ dataDir }) => dataDir)).toEqual(['/srv/data-demo'])
  expect(world.claims).toEqual([
    ['postgres://u@127.0.0.1:5477/d', { dataDir: '/srv/data-demo', analyticsKey: key }],
  ])
  expect(world.lives).toEqual([['postgres://u@127.0.0.1:5477/d', 'warn']])
  expect(world.backfills).toHaveLength(4)
  for (const { logger, onProgress, ...options } of world.backfills) {
    expect([logger.level, typeof onProgress]).toEqual(['warn', 'function'])
    expect(options).toEqual({
      ...{
        url: 'postgres://u@127.0.0.1:5477/d',
        teams: [TEAM],
        streams: STREAMS,
        window: EVERYTHING,
        signal,
      },
      ...{ allowMassDelete: false, dry: false, migrated: true, version: '7.8.9' },
      ...{ clock: systemClock, random: Math.random },
    })
  }
  const [[env, config, place] = []] = world.consoles as [object, object, object][]
  expect(env).toEqual({
    ...{
      INTAKE_TEAM: 'demo',
      INTAKE_BASE_URL: 'http://127.0.0.1:1',
      INTAKE_API_KEY: 'k',
      INTAKE_API_SECRET: 's',
    },
    ...{
      INTAKE_DATA_DIR: '/srv/data-demo',
      DATABASE_URL: 'postgres://u@127.0.0.1:5477/d',
      INTAKE_CRON: 'off',
    },
    ...{ INTAKE_ADMIN_HOST: '127.0.0.1', INTAKE_ADMIN_PORT: '8' },
  })
  expect(config).toMatchObject({ databaseUrl: 'postgres://u@127.0.0.1:5477/d', adminPort: 8, cron: null })
  expect(place).toEqual({
    ...{ url: 'postgres://u@127.0.0.1:5477/d', port: 0, admin: 'http://127.0.0.1:8' },
    ...{ logger: expect.objectContaining({ level: 'warn' }), breakages: expect.any(Array) },
  })
  expect((place as { breakages: unknown[] }).breakages).toHaveLength(5)
})

it('files may say where the data are, and which key it has', async () => {
  const folder = makeFolder('demo-order-')
  try {
    writeFileSync(`${folder}/place`, '/srv/elsewhere\n')
    writeFileSync(`${folder}/key`, 'a key of the user, long enough for anybody')
    const env = { INTAKE_DATA_DIR_FILE: `${folder}/place`, INTAKE_ANALYTICS_KEY_FILE: `${folder}/key` }
    expect((await run([], { INTAKE_DATA_DIR: undefined, ...env, LOG_LEVEL: 'error' })).code).toBe(0)
  } finally {
    removeFolder(folder)
  }
  const analyticsKey = 'a key of the user, long enough for anybody'
  expect(world.claims).toEqual([
    ['postgres://u@127.0.0.1:5477/d', { dataDir: '/srv/elsewhere-demo', analyticsKey }],
  ])
  expect(world.backfills.map(({ logger }) => logger.level)).toEqual(Array(4).fill('error'))
})

it.each([
  [4, { patients: [1, 0] }, 'last backfill of the demo: 1 changed patients, 0 expected'],
  [4, { patients: [0, 1] }, 'last backfill of the demo: 1 deleted patients, 0 expected'],
  [2, { forms: [1, 1] }, 'changed backfill of the demo: 1 deleted forms, 0 expected'],
  [1, null, 'first backfill of the demo: no changed patients, 45 expected'],
] as const)(
  'a figure of backfill %i that is wrong or missing ends it: %j',
  async (wrong, change, message) => {
    world.summary = (run) => {
      if (run !== wrong) return summaryOf(run, {})
      return change === null ? { ...summaryOf(run, {}), teams: [] } : summaryOf(run, change as never)
    }
    const { code, stderr } = await run([])
    expect([code, stderr.split('\n').slice(1, 3)]).toEqual([
      ...[1, [`error: the ${message}`, 'code: internal, see docs/errors.md#internal']],
    ])
    expect(world.happened.at(-1)).toBe('server closed')
  },
)
