/** A verification from the page: what it is asked for, and what is said of each way in which it ends. */
import { beforeEach, expect, it, vi } from 'vitest'
import { serveVerify } from '../../../src/console/pages/verify.ts'
import type { VerifyOptions, VerifySummary } from '../../../src/reconcile/verify/verify.ts'
import { ALL_STREAMS } from '../../../src/streams/catalogue.ts'

const asked: VerifyOptions[] = []
let end: (ended: Partial<VerifySummary> | Error) => void = () => {}
vi.mock('../../../src/reconcile/verify/verify.ts', () => ({
  verify: (options: VerifyOptions) =>
    new Promise((resolve, reject) => {
      asked.push(options)
      end = (ended) => (ended instanceof Error ? reject(ended) : resolve(ended))
    }),
}))

interface Job {
  readonly team: string
  readonly repair: boolean
  readonly login: string
  readonly startedAt: number
  readonly seconds: number | null
  readonly outcome: object | null
  readonly progress: Map<string, object>
}
type Shown = {
  readonly waits: boolean
  readonly from: readonly unknown[]
  readonly data: {
    readonly job: Job | null
    readonly seconds: number | null
    readonly runs: readonly number[]
  }
}
type Handler = (request: object, reply: object) => Promise<Shown>

const TEAMS = ['north', 'south'].map((name) => ({ name, baseUrl: `https://${name}.example` }))
const KNOWN = {
  ...{ url: 'postgres://w', logger: { name: 'logger' }, random: () => 0.5, version: '1.2.3' },
  teams: TEAMS,
}

/** The page without a server; `rows` are the newest verifications, and `audit` stores who begins one. */
function openScene(rows: readonly { run_id: number }[] | null = []) {
  const routes = new Map<string, Handler>()
  const state = { micros: 5e6, forgotten: 0, audited: [] as unknown[], isAudited: true }
  const keep = (method: string) => (path: string, _: unknown, handler: Handler) =>
    routes.set(`${method} ${path}`, handler)
  const readings = {
    share: () => ({ within: async () => rows }),
    look: async () => {
      if (!state.isAudited) throw new Error('away')
      state.audited.push(true)
    },
    forget: () => {
      state.forgotten += 1
    },
  }
  const stop = new AbortController()
  const clock = { now: () => state.micros }
  const show = async (_request: unknown, _reply: unknown, page: object) => page
  const shared = { options: { ...KNOWN, clock }, readings, signal: stop.signal, show }
  serveVerify({ get: keep('get'), post: keep('post') } as never, shared as never)
  const redirects: unknown[] = []
  const reply = { redirect: (...words: unknown[]) => void redirects.push(words) }
  const begin = (body: object) =>
    routes.get('post /verify')!({ body, visitor: { login: 'ada', role: 'operator' } }, reply)
  const page = () => routes.get('get /verify')!({}, reply)
  return { state, begin, page, clock, redirects, signal: stop.signal }
}

beforeEach(() => {
  asked.length = 0
})

it.each([
  ['one team, to compare only', { team: 'south' }, ['south'], null],
  ['all teams', { team: '*' }, ['north', 'south'], null],
  [
    'a repair, which deletes no unusual number',
    { team: 'north', repair: 'yes' },
    ['north'],
    { allowMassDelete: false },
  ],
  ['no repair for another word', { team: 'north', repair: 'on' }, ['north'], null],
])('%s', async (_, body, teams, repair) => {
  const { begin, clock, signal, redirects, state } = openScene()
  await begin(body)
  const [{ onProgress, ...options } = {} as VerifyOptions, ...others] = asked
  expect(others).toEqual([])
  const { url, logger, random, version } = KNOWN
  expect(options).toEqual({
    ...{ url, clock, logger, random, version, signal },
    ...{ teams: TEAMS.filter(({ name }) => teams.includes(name)), streams: ALL_STREAMS },
    ...{ deep: false, repair, isWatched: true },
  })
  expect([redirects, state.audited.length]).toEqual([[['/verify', 303]], 1])
})

it('while it runs, the page says for how long, since when, for whom and how far it has come', async () => {
  const { begin, page, state } = openScene([{ run_id: 3 }, { run_id: 12 }, { run_id: 3 }])
  expect(await page()).toMatchObject({ waits: false, data: { job: null, seconds: null, runs: [12, 3] } })
  await begin({ team: '*', repair: 'yes' })
  state.micros += 2_500_000
  asked[0]!.onProgress('north', 'forms', { fetched: 1, expected: 9 })
  asked[0]!.onProgress('south', 'forms', { fetched: 2, expected: null })
  asked[0]!.onProgress('north', 'forms', { fetched: 4, expected: 9 })
  const { waits, data } = await page()
  expect([waits, data.seconds]).toEqual([true, 2.5])
  expect(data.job).toEqual({
    ...{ team: '*', repair: true, login: 'ada', startedAt: 5e6, seconds: null, outcome: null },
    progress: new Map([
      ['north/forms', { fetched: 4, expected: 9 }],
      ['south/forms', { fetched: 2, expected: null }],
    ]),
  })
  await expect(begin({ team: 'north' })).rejects.toMatchObject({ statusCode: 409 })
  expect(asked).toHaveLength(1)
  expect((await openScene(null).page()).waits).toBe(true)
})

it.each([
  ['equal', false, { equal: true, status: 'succeeded' }, { mark: 'good', text: 'equal', runId: '7' }],
  [
    'equal with a repair',
    true,
    { equal: true, status: 'succeeded' },
    { mark: 'good', text: 'equal', runId: '7' },
  ],
  [
    'repaired',
    true,
    { equal: false, status: 'succeeded' },
    { mark: 'good', text: 'differences were repaired', runId: '7' },
  ],
  [
    'repaired in part',
    true,
    { equal: false, status: 'needs_attention' },
    { mark: 'bad', text: 'needs attention', runId: '7' },
  ],
  [
    'not asked to repair',
    false,
    { equal: false, status: 'succeeded' },
    { mark: 'bad', text: 'succeeded', runId: '7' },
  ],
  [
    'different',
    false,
    { equal: false, status: 'needs_attention' },
    { mark: 'bad', text: 'needs attention', runId: '7' },
  ],
  ['failed', false, { equal: false, status: 'failed' }, { mark: 'bad', text: 'failed', runId: '7' }],
  ['not begun', true, new Error('odd'), { mark: 'bad', text: expect.any(String), runId: null }],
] as const)('one that ends %s says so, and another may begin', async (_, repair, ended, outcome) => {
  const { begin, page, state } = openScene()
  await begin({ team: 'north', ...(repair ? { repair: 'yes' } : {}) })
  const before = await page()
  state.micros += 90e6
  end(ended instanceof Error ? ended : { runId: '7', ...ended })
  await new Promise((resolve) => setImmediate(resolve))
  // What pages show was read before its end.
  expect(state.forgotten).toBeGreaterThan(0)
  state.micros += 1e9
  const after = await page()
  expect(after).toMatchObject({ waits: false, data: { seconds: 90, job: { outcome } } })
  // The text that readers share is another than while it ran.
  expect(after.from).not.toEqual(before.from)
  await begin({ team: 'south' })
  expect((await page()).data).toMatchObject({ seconds: 0, job: { team: 'south', outcome: null } })
})

it('one that cannot be audited is not begun, and may be asked for again; an unknown team is refused', async () => {
  const { begin, page, state, redirects } = openScene()
  state.isAudited = false
  await expect(begin({ team: 'north' })).rejects.toThrow('away')
  expect([(await page()).data.job, asked, redirects]).toEqual([null, [], []])
  state.isAudited = true
  for (const body of [{ team: 'nobody' }, { team: '' }, {}, { team: ['north'] }])
    await expect(begin(body)).rejects.toMatchObject({ statusCode: 400 })
  expect(state.audited).toEqual([])
  await begin({ team: 'north' })
  expect(asked).toHaveLength(1)
})
