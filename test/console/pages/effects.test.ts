/** The order of what an action does: decisions on questions, all or none, and a receipt that is signed. */
import { createHash } from 'node:crypto'
import { beforeEach, expect, it, vi } from 'vitest'
import { serveQuestions } from '../../../src/console/pages/questions.ts'
import { serveVerify } from '../../../src/console/pages/verify.ts'
import { scripted } from '../../support/scripted.ts'

const effects: unknown[] = []
let refused = ''
const QUESTIONS = ['everything', 'structured', 'nothing'].map((shows, at) => ({
  ...{ team: at === 2 ? 'south' : 'north', form_id: 'f', question_id: `q${at}`, form: 'Form', shows },
  ...{ question_text: `Question ${at}`, question_type: 'text', decided_by: null, waits: false },
}))
vi.mock('../../../src/analytics/classify.ts', () => ({
  listQuestions: async (_db: unknown, filter: object) => {
    effects.push(['list', filter])
    return QUESTIONS
  },
  noteQuestions: async () => void effects.push('note'),
  decide: async (_db: unknown, ...words: unknown[]) => {
    effects.push(['decide', ...words])
    if (words[1] === refused) throw new Error('refused')
  },
}))
const facts = { facts: 'of the verification' }
vi.mock('../../../src/operate/receipts.ts', () => ({
  receiptKey: async () => 'the key',
  verificationFacts: async (_db: unknown, runId: number) => (runId === 7 ? facts : null),
  signReceipt: async (_db: unknown, ...words: unknown[]) => {
    effects.push(['sign', ...words])
    return 'signed'
  },
}))

// biome-ignore lint/suspicious/noExplicitAny: what a template shows
type Handler = (request: object, reply: object) => Promise<any>

/** `taken` are the readings that pages share, in the order in which they take them. */
function openScene(
  serve: (app: never, shared: never) => void,
  taken: readonly (() => Promise<unknown>)[] = [],
) {
  const routes = new Map<string, Handler>()
  let shared = 0
  const keep = (method: string) => (path: string, _: unknown, handler: Handler) =>
    routes.set(`${method} ${path}`, handler)
  const db = scripted((statement, values) => {
    if (statement.includes('removed_teams'))
      return [
        { teamId: 11, name: 'north', isRemoved: false },
        { teamId: 12, name: 'south', isRemoved: false },
      ]
    effects.push(statement.includes('intake_ops.audit') ? ['audit', ...values] : statement)
    return undefined
  })
  const readings = {
    share: () => ({ within: taken[shared++] ?? (async () => null) }),
    look: async (work: (of: typeof db) => unknown) => await work(db),
    forget: () => void effects.push('forget'),
  }
  const show = async (_request: unknown, _reply: unknown, page: object) => page
  const options = { teams: [], version: '1.2.3', clock: { now: () => 1_760_000_000_500_000 } }
  serve({ get: keep('get'), post: keep('post') } as never, { options, readings, show } as never)
  const sent: unknown[] = []
  const reply = {
    type: (type: string) => sent.push(['type', type]) && reply,
    header: (...words: unknown[]) => sent.push(['header', ...words]) && reply,
    send: (text: string) => sent.push(['send', text]) && reply,
  }
  return {
    sent,
    ask: (route: string, request: object) =>
      routes.get(route)!({ visitor: { login: 'ada', role: 'operator' }, ...request }, reply),
  }
}

beforeEach(() => {
  effects.length = 0
  refused = ''
})

const key = (at: number) =>
  JSON.stringify([QUESTIONS[at]!.team, QUESTIONS[at]!.form_id, QUESTIONS[at]!.question_id])

it('decisions are audited, then made in one transaction, each in its team; pages read again, and an undo shows what was shown', async () => {
  const { ask } = openScene(serveQuestions)
  const { data } = await ask('post /questions/decide', {
    body: { question: [key(2), key(0), key(1)], visibility: 'hidden' },
  })
  const audited = effects.splice(1, 1)[0] as [string, string, string, string, string]
  expect(audited.slice(0, 4)).toEqual(['audit', 'ada', 'classify', `${key(2)} ${key(0)} ${key(1)}`])
  expect(JSON.parse(audited[4])).toEqual({
    ...{ count: 3, visibility: 'hidden', visible: 0, structured: 0, hidden: 3 },
    // Of all of them in the order of their keys, whatever the order of the form.
    sha256: createHash('sha256')
      .update([0, 1, 2].map((at) => `${key(at)} hidden\n`).join(''))
      .digest('hex'),
  })
  const decide = (teamId: number, at: number, visibility: string) => [
    ...['decide', { teamId, form: 'f' }, `q${at}`, visibility],
  ]
  expect(effects).toEqual([
    ...[['list', {}], 'begin', 'note', decide(12, 2, 'hidden'), decide(11, 0, 'hidden')],
    ...[decide(11, 1, 'hidden'), 'commit', 'forget'],
  ])
  expect(data.isUndo).toBe(false)
  const decided = data.decided as { question: object; now: string; restore: string }[]
  expect(decided.map(({ question, now }) => [question, now])).toEqual(
    [2, 0, 1].map((at) => [QUESTIONS[at], 'hidden']),
  )
  effects.length = 0
  const undone = await ask('post /questions/decide', {
    body: { restore: decided.map(({ restore }) => restore) },
  })
  expect(undone.data.isUndo).toBe(true)
  expect(effects.filter((effect) => String(effect).startsWith('decide'))).toEqual([
    ...[decide(12, 2, 'hidden'), decide(11, 0, 'visible'), decide(11, 1, 'structured')],
  ])
})

it('the audit names as many questions as two thousand characters have room for, and counts the others', async () => {
  const { ask } = openScene(serveQuestions)
  const few = QUESTIONS.length
  /** With a space after it, the key of the question is that long. */
  const put = (length: number, initial: string) => {
    const question = { ...QUESTIONS[0]!, question_id: initial }
    const short = JSON.stringify([question.team, question.form_id, initial]).length
    QUESTIONS.push({ ...question, question_id: initial.repeat(length - short) })
  }
  put(1_200, 'a')
  put(800, 'b')
  put(801, 'c')
  try {
    const named = async (...places: readonly number[]) => {
      effects.length = 0
      await ask('post /questions/decide', {
        body: { question: places.map((at) => key(few + at)), visibility: 'hidden' },
      })
      return (effects[1] as unknown[])[3]
    }
    const [a, b, c] = [0, 1, 2].map((at) => key(few + at))
    expect([a!.length, b!.length, c!.length]).toEqual([1_199, 799, 800])
    expect(await named(0, 1)).toBe(`${a} ${b}`)
    expect(await named(0, 2)).toBe(`${a} and 1 more`)
    expect(await named(2, 0, 1)).toBe(`${c} and 2 more`)
  } finally {
    QUESTIONS.splice(few)
  }
})

it('where one decision is refused, none is made', async () => {
  const { ask } = openScene(serveQuestions)
  refused = 'q1'
  const body = { question: [key(0), key(1), key(2)], visibility: 'visible' }
  await expect(ask('post /questions/decide', { body })).rejects.toThrow('refused')
  expect(effects.slice(-1)).toEqual(['rollback'])
  expect(effects).not.toContain('forget')
})

it('a receipt is of now, by the clock of the console; it is audited before it is signed', async () => {
  const { ask, sent } = openScene(serveVerify)
  const at = new Date('2025-10-09T08:53:20.500Z')
  const printed = await ask('get /verify/:run/receipt', { params: { run: '7' } })
  expect(printed.data).toEqual({ facts, key: 'the key', version: '1.2.3', at })
  expect(effects).toEqual([])
  await ask('post /verify/:run/receipt', { params: { run: '7' } })
  expect(effects).toEqual([
    ['audit', 'ada', 'receipt', 'verification 7', '{}'],
    ['sign', '1.2.3', { kind: 'verification', issuedAt: at, facts }],
  ])
  expect(sent).toEqual([
    ['type', 'application/json; charset=utf-8'],
    ['header', 'content-disposition', 'attachment; filename="intake-sync-verification-7.json"'],
    ['send', 'signed'],
  ])
  effects.length = 0
  for (const run of ['8', '1234567890', '7x', '-7', ''])
    for (const method of ['get', 'post'])
      await expect(ask(`${method} /verify/:run/receipt`, { params: { run } })).rejects.toMatchObject({
        ...{ statusCode: 404, message: 'there is no such verification' },
      })
  expect(effects).toEqual([])
})

it('questions are shown also where their answers cannot be counted; then none is said to have none', async () => {
  const known = async () => ({ drift: [], views: [] })
  const page = async (counts: () => Promise<unknown>) =>
    await openScene(serveQuestions, [async () => QUESTIONS, counts, known]).ask('get /questions', {
      query: {},
    })
  const failed = await page(async () => {
    throw new Error('took too long')
  })
  expect([failed.waits, failed.data.total, failed.data.answersOf(QUESTIONS[0])]).toEqual([false, 3, null])
  const { data } = await page(async () => new Map([[key(1), 5]]))
  expect(QUESTIONS.map((each) => data.answersOf(each))).toEqual([0, 5, 0])
})
