/**
 * Commands that read, remove and export, without a warehouse: what each option gives to the part that does the work, and what
 * the answer of the part becomes on each output, with which exit code.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { dbtPackage } from '../../src/analytics/export/dbt-package.ts'
import { exportRows } from '../../src/analytics/export/export.ts'
import { exportFhir } from '../../src/analytics/export/fhir.ts'
import { migrate, migrationStatus } from '../../src/analytics/migrate.ts'
import { planMigration } from '../../src/analytics/plan.ts'
import { measurePrivacy } from '../../src/analytics/privacy.ts'
import { runProgram } from '../../src/commands/program.ts'
import { takeRole } from '../../src/commands/reader.ts'
import { systemClock } from '../../src/core/clock.ts'
import { cancelRun } from '../../src/load/cancel-run.ts'
import { erase, previewErasure } from '../../src/operate/erase/erase.ts'
import { readAsOf, waitFor } from '../../src/operate/health/wait.ts'
import { removeTeam } from '../../src/operate/remove-team.ts'
import { replayInbox } from '../../src/reconcile/replay-inbox.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { configOf } from '../e2e/support/teams.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const session = { db: 'db', client: { query: vi.fn() }, [Symbol.asyncDispose]: async () => {} }

vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => session,
}))
vi.mock('../../src/warehouse/teams.ts', async (original) => ({
  ...(await original()),
  warehouseTeam: async () => ({ teamId: 7, name: 'north', isRemoved: false }),
}))
vi.mock('../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  ...{ requireMigrated: async () => {}, migrate: vi.fn(), migrationStatus: vi.fn() },
}))
vi.mock('../../src/analytics/plan.ts', () => ({ planMigration: vi.fn() }))
vi.mock('../../src/analytics/privacy.ts', () => ({ measurePrivacy: vi.fn() }))
vi.mock('../../src/analytics/export/dbt-package.ts', () => ({ dbtPackage: vi.fn() }))
vi.mock('../../src/analytics/export/export.ts', () => ({ exportRows: vi.fn() }))
vi.mock('../../src/analytics/export/fhir.ts', () => ({ exportFhir: vi.fn() }))
vi.mock('../../src/commands/reader.ts', async (original) => ({ ...(await original()), takeRole: vi.fn() }))
vi.mock('../../src/load/cancel-run.ts', async (original) => ({ ...(await original()), cancelRun: vi.fn() }))
vi.mock('../../src/operate/erase/erase.ts', () => ({ erase: vi.fn(), previewErasure: vi.fn() }))
vi.mock('../../src/operate/health/wait.ts', async (original) => ({
  ...(await original()),
  ...{ waitFor: vi.fn(), readAsOf: vi.fn() },
}))
vi.mock('../../src/operate/remove-team.ts', () => ({ removeTeam: vi.fn() }))
vi.mock('../../src/reconcile/replay-inbox.ts', () => ({ replayInbox: vi.fn() }))

const folder = makeFolder('parts-')
afterAll(() => removeFolder(folder))
beforeEach(() => vi.clearAllMocks())

const url = 'postgres://u@127.0.0.1:1/d'
const { signal } = new AbortController()
const access = { baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' }
const TEAMS = [
  { name: 'north', ...access, apiVersion: 'v8' },
  { name: 'south', ...access, apiVersion: '' },
]

/** `stderr` is a terminal where `isTTY` is set. */
async function run(line: string, { isTTY = false, env = {} } = {}) {
  const said = { stdout: '', stderr: '' }
  const code = await runProgram(
    line.split(' ').map((word) => word.replace('FOLDER', folder)),
    {
      env: {
        ...configOf(TEAMS),
        DATABASE_URL: url,
        INTAKE_ANALYTICS_KEY: 'k'.repeat(32),
        LOG_LEVEL: 'silent',
        ...env,
      },
      stdout: { write: (text) => (said.stdout += String(text)) },
      stderr: { write: (text) => (said.stderr += String(text)), isTTY },
      ...{ signal, version: '1.2.3' },
    },
  )
  return { code, ...said }
}
const given = (part: unknown) => vi.mocked(part as () => void).mock.calls[0] as unknown as readonly unknown[]
const jsonOf = async (line: string) => {
  const { code, stdout } = await run(`${line} --json`)
  return [code, JSON.parse(stdout)]
}

const WAITED = { reached: true, stream: 'forms', id: null, since: 's', by: 'run', as_of: 'a' } as const

it.each([
  ['patients p1 --team south --since 2026-01-05', 'patients', 'p1', 'south', 30_000],
  ['forms --since 2026-01-05 --timeout 1.5m', 'forms', null, undefined, 90_000],
  ['forms --since 2026-01-05T00:00:00Z --timeout 0', 'forms', null, undefined, 0],
])('wait %s waits for that, so long, until a signal', async (words, stream, id, team, timeoutMs) => {
  vi.mocked(waitFor).mockResolvedValue(WAITED)
  expect(await run(`wait ${words}`)).toEqual({ code: 0, stdout: 'as of a, by a run\n', stderr: '' })
  const wanted = { stream: streamNamed(stream), id, team, since: '2026-01-05T00:00:00.000000Z' }
  expect(given(waitFor)).toEqual([wanted, expect.any(Function), { timeoutMs, clock: systemClock, signal }])
  expect((given(waitFor)[2] as { signal: unknown }).signal).toBe(signal)
  const look = given(waitFor)[1] as () => Promise<unknown>
  vi.mocked(readAsOf).mockResolvedValueOnce(null)
  expect([await look(), given(readAsOf)]).toEqual([null, [session.db, wanted]])
  vi.mocked(readAsOf).mockRejectedValueOnce(Object.assign(new Error('gone'), { code: '57P01' }))
  await expect(look()).rejects.toMatchObject({ verdict: 'retry' })
})

it.each([
  ['', 0],
  ['--since 2m', 120],
  ['--since 1.5h', 5_400],
])('wait %s means %i seconds ago', async (words, ago) => {
  vi.mocked(waitFor).mockResolvedValue(WAITED)
  const before = Date.now()
  await run(`wait forms ${words}`.trim())
  const { since } = given(waitFor)[0] as { since: string }
  const meant = Date.parse(since) + ago * 1_000
  expect([before <= meant, meant <= Date.now()]).toEqual([true, true])
})

const ERASED = {
  ...{ records: 1, history: 2, events: 3, deadLetters: 4, exportRows: 5, statisticsRefreshed: true },
  ...{ unnamedLeft: 0, rewritten: null, patientHash: 'hash', login: 'ada' },
  searched: { identifiers: 6, leftOut: 0, columns: 7, unreadable: [], left: [] },
}

it('erase does what its options say, alone and together', async () => {
  vi.mocked(previewErasure).mockResolvedValue({ found: new Map(), erasedBefore: false, unnamedRows: 3 })
  for (const [at, names] of [
    [],
    ['forget'],
    ['unnamed-rows'],
    ['vacuum'],
    ['forget', 'vacuum'],
    ['unnamed-rows', 'vacuum'],
  ].entries()) {
    vi.clearAllMocks()
    const unnamedLeft = at % 2
    vi.mocked(erase).mockResolvedValue({ ...ERASED, unnamedLeft })
    const { code, stdout } = await run(
      `erase patient p --yes --json ${names.map((name) => `--${name}`).join(' ')}`.trim(),
    )
    expect([code, JSON.parse(stdout).hash_kept]).toEqual([
      unnamedLeft === 0 ? 0 : 4,
      !names.includes('forget'),
    ])
    expect(given(previewErasure)).toEqual([url, { teamId: 7, id: 'p' }])
    expect(given(erase)[0]).toEqual({
      ...{ url, patient: { teamId: 7, id: 'p' }, clock: systemClock },
      ...{ forget: names.includes('forget'), unnamedRows: names.includes('unnamed-rows') },
      onRewrite: names.includes('vacuum') ? expect.any(Function) : null,
    })
  }
  vi.mocked(erase).mockImplementation(async ({ onRewrite }) => {
    for (const bytes of [0, 1, 1024 * 1024, 1024 * 1024 + 1]) onRewrite?.('t', bytes)
    return ERASED
  })
  const { stderr } = await run('erase patient p --yes --vacuum')
  expect(stderr.match(/\d+ MB/g)).toEqual(['0 MB', '1 MB', '1 MB', '2 MB'])
})

const MANIFEST = { rows: 5, files: [{}, {}], suppressed: null }

it.each([
  ['analyst', 'responses', 'intake_analyst', 'intake_analytics', 'responses', 'intake_analytics, public'],
  ['clinical', 'patients', 'intake_clinical', 'intake', 'patients', 'intake, intake_analytics, public'],
  [
    'researcher',
    'answers',
    'intake_researcher',
    'intake_safe_harbor',
    'answers',
    'intake_safe_harbor, public',
  ],
  ['analyst', 'own.view.x', 'intake_analyst', 'own', 'view', 'intake_analytics, public'],
])('export as %s of %s reads with the role %s', async (as, name, role, schema, view, path) => {
  vi.mocked(exportRows).mockImplementation(async () => {
    // The role and the path are set by then.
    expect(given(takeRole)).toEqual([expect.objectContaining({ version: '1.2.3' }), session, as])
    expect(session.client.query.mock.calls).toEqual([[`set search_path = ${path}`]])
    return MANIFEST as never
  })
  const about = {
    exported_at: expect.stringMatching(/^\d{4}-.*Z$/),
    version: '1.2.3',
    role,
    view: `${schema}.${view}`,
  }
  expect((await run(`export ${name} --out o --as ${as}`)).stdout).toBe('5 rows in 2 files\n')
  const plain = {
    from: { schema, view },
    format: 'csv',
    folder: 'o',
    about,
    signal,
    byDay: null,
    minCell: null,
  }
  expect(given(exportRows)).toEqual([session, { ...plain, countColumns: undefined }])
  expect((given(exportRows)[1] as { signal: unknown }).signal).toBe(signal)
  vi.clearAllMocks()
  const own = '--format parquet --by-day at --min-cell 2 --count-column a --count-column b'
  expect(await jsonOf(`export ${name} --out o --as ${as} ${own}`)).toEqual([0, MANIFEST])
  expect(given(exportRows)[1]).toEqual({
    ...{ ...plain, format: 'parquet', byDay: 'at', minCell: 2, countColumns: ['a', 'b'] },
  })
})

it('export says how many files there are, and what was left out', async () => {
  const text = async (files: number, suppressed: object | null) => {
    vi.mocked(exportRows).mockResolvedValue({ rows: 1, files: Array(files).fill({}), suppressed } as never)
    return (await run('export v --out o')).stdout
  }
  expect(await text(0, null)).toBe('1 rows in 0 files\n')
  expect(await text(1, { rows: 0 })).toBe('1 rows in 1 file; left out for small counts: 0\n')
})

it('an export of FHIR has the clinical role and its team, and refuses each option of rows', async () => {
  vi.mocked(exportFhir).mockResolvedValue({
    output: [
      { type: 'A', count: 1 },
      { type: 'B', count: 2 },
    ],
  } as never)
  for (const [more, team] of [
    ['', undefined],
    [' --team south --as clinical', 'south'],
  ] as const) {
    vi.clearAllMocks()
    expect(await run(`export --format fhir-ndjson --out o${more}`)).toEqual({
      code: 0,
      stdout: 'A: 1, B: 2\n',
      stderr: '',
    })
    expect(given(takeRole)[2]).toBe('clinical')
    const about = { exported_at: expect.any(String), version: '1.2.3', role: 'intake_clinical' }
    expect(given(exportFhir)).toEqual([session, { folder: 'o', team, signal, about }])
    expect((given(exportFhir)[1] as { signal: unknown }).signal).toBe(signal)
  }
  vi.clearAllMocks()
  for (const more of [
    'v',
    '--sql f',
    '--by-day d',
    '--min-cell 5',
    '--count-column c',
    '--as researcher',
    '--as analyst',
  ])
    expect([more, (await run(`export --format fhir-ndjson --out o ${more}`)).code]).toEqual([more, 2])
  expect(exportFhir).not.toHaveBeenCalled()
})

it('teams remove and runs cancel affect what was named, and wait for a limited time', async () => {
  const removed = { teamId: 9, events: 1, rows: 2, tables: ['t'], notes: ['n'] }
  vi.mocked(removeTeam).mockResolvedValue(removed)
  for (const data of ['kept', 'deleted'] as const) {
    vi.clearAllMocks()
    const option = data === 'kept' ? '--keep-data' : '--delete-data'
    expect(await jsonOf(`teams remove x ${option}`)).toEqual([
      ...[
        0,
        { team: 'x', team_id: 9, data, pending_events: 1, deleted: { rows: 2, tables: ['t'] }, notes: ['n'] },
      ],
    ])
    expect(given(removeTeam)).toEqual([{ url, name: 'x', data, clock: systemClock, signal }])
    expect((given(removeTeam)[0] as { signal: unknown }).signal).toBe(signal)
  }
  expect((await run('teams remove x --keep-data', { env: { INTAKE_INBOX_DAYS: '9' } })).stdout).toContain(
    'stay for 9 days',
  )
  for (const ended of [
    { status: 'running', canceled: true },
    { status: 'interrupted', canceled: true },
    { status: 'failed', canceled: false },
  ]) {
    vi.mocked(cancelRun).mockResolvedValue(ended as never)
    expect(await jsonOf('runs cancel 5')).toEqual([0, { run_id: 5, ...ended }])
    expect((await run('runs cancel 5')).stdout).toMatch(
      ended.canceled ? /^run 5 is canceled/ : /^run 5 has already/,
    )
  }
  expect(given(cancelRun)).toEqual([{ url, clock: systemClock, forMs: 30_000 }, 5])
})

it.each([
  ['', {}, null],
  [' --team north --streams forms,patients', { team: 'north' }, ['patients', 'forms']],
])('replay --inbox%s drains events again as its team reads them', async (more, team, streams) => {
  vi.mocked(replayInbox).mockImplementation(async ({ onProgress }) => {
    for (const events of [1, 2]) onProgress?.(events, 2)
    return { runId: '4', status: 'needs_attention', events: 2, done: 0, dead: 1, waiting: 3 }
  })
  const line = `replay --inbox --since 2026-01-05${more}`
  expect(await jsonOf(line)).toEqual([
    ...[4, { run_id: 4, status: 'needs_attention', inbox: { events: 2, done: 0, dead: 1, waiting: 3 } }],
  ])
  expect(given(replayInbox)[0]).toEqual({
    ...{ url, since: '2026-01-05T00:00:00.000000Z', ...team, clock: systemClock, signal },
    streams: streams === null ? null : streams.map((name) => streamNamed(name)),
    ...{
      versions: new Map([
        ['north', 'v8'],
        ['south', ''],
      ]),
      logger: expect.anything(),
      onProgress: expect.any(Function),
    },
  })
  expect((await run(line, { isTTY: true })).stderr).toBe('\r1 of 2 events\r2 of 2 events\n')
  expect((await run(line)).stderr).toBe('')
})

it.each([
  [[0, 0], 0],
  [[0, 2], 4],
  [[3, 0], 4],
  [[3, 2], 4],
])('a privacy report with %j broken rules ends with %i', async (counts, code) => {
  const tiers = counts.map((broken, at) => ({
    ...{ schema: `s${at}`, tier: 't', role: 'r', views: [], broken },
    k_anonymity: { columns: [], k: null, groups: 0, people_in_groups_under: 0 },
  }))
  vi.mocked(measurePrivacy).mockResolvedValue(tiers as never)
  const broken = counts[0]! + counts[1]!
  expect(await jsonOf('privacy report')).toEqual([code, { threshold: 11, broken, tiers }])
  const text = await run('privacy report')
  expect([text.code, text.stdout.match(/^s\d \(r\): t$/gm)]).toEqual([code, ['s0 (r): t', 's1 (r): t']])
})

it('a dbt package is written once, into an empty folder, and listed', async () => {
  const files = [
    { path: 'README.md', text: 'read' },
    { path: 'models/a/b.yml', text: 'b' },
  ]
  vi.mocked(dbtPackage).mockResolvedValue(files as never)
  mkdirSync(join(folder, 'empty'))
  const name = join(folder, 'empty')
  expect(await jsonOf('dbt init FOLDER/empty')).toEqual([
    0,
    { folder: name, files: files.map(({ path }) => path) },
  ])
  expect(files.map(({ path }) => readFileSync(join(name, path), 'utf8'))).toEqual(['read', 'b'])
  const { stdout } = await run('dbt init FOLDER/new/one')
  expect(stdout).toBe(`2 files in ${join(folder, 'new/one')}; next: see README.md there\n`)
  mkdirSync(join(folder, 'other'))
  writeFileSync(join(folder, 'other/mine'), '')
  expect((await run('dbt init FOLDER/other')).code).toBe(2)
  expect(readdirSync(join(folder, 'other'))).toEqual(['mine'])
  // An existing file, and a folder below a file.
  for (const [place, code] of [
    ['other/mine', 'EEXIST'],
    ['other/mine/new', 'ENOTDIR'],
  ])
    expect(await jsonOf(`dbt init FOLDER/${place}`)).toMatchObject([
      ...[2, { error: { code: 'file_unreadable', message: `the folder cannot be made (${code})` } }],
    ])
  expect(readFileSync(join(folder, 'other/mine'), 'utf8')).toBe('')
})

it('migrate prints what it applied on standard output and its notes on standard error, with --json too', async () => {
  const report = {
    applied: ['1', '2', '3'],
    pending: [],
    unknown: [],
    migrated: ['2', '3'],
    rolesNote: 'roles',
    notes: ['more'],
  }
  vi.mocked(migrate).mockResolvedValue(report as never)
  const stderr = 'note: roles\nnote: more\n'
  expect(await run('migrate')).toEqual({ code: 0, stdout: 'applied 2\napplied 3\nup to date\n', stderr })
  expect(given(migrate)).toEqual([url, expect.objectContaining({ analyticsKey: 'k'.repeat(32) })])
  const json = await run('migrate --json')
  expect([JSON.parse(json.stdout), json.stderr]).toEqual([
    { migrated: ['2', '3'], applied: ['1', '2', '3'] },
    stderr,
  ])
  for (const [pending, code] of [
    [[], 0],
    [['3'], 4],
    [['3', '4'], 4],
  ] as const) {
    vi.mocked(migrationStatus).mockResolvedValue({ applied: ['1'], pending, unknown: [] } as never)
    const document = { up_to_date: code === 0, applied: ['1'], pending, unknown: [] }
    expect(await jsonOf('migrate --status')).toEqual([code, document])
    expect((await run('migrate --status')).code).toBe(code)
  }
  const none = {
    migration: '1',
    statement: 's',
    table: null,
    lock: 'none',
    rows: null,
    is_long: false,
    in_batches: false,
    seconds: 0,
  }
  vi.mocked(planMigration).mockResolvedValue([none] as never)
  expect(await jsonOf('migrate --plan')).toEqual([0, { statements: [none] }])
  vi.mocked(migrate).mockClear()
  for (const option of ['--status', '--plan']) {
    const env = { DATABASE_URL: '', INTAKE_DATA_DIR: '/nowhere/at/all' }
    expect((await run(`migrate ${option}`, { env })).stderr).toContain('there is no warehouse yet')
  }
  expect(migrate).not.toHaveBeenCalled()
})
