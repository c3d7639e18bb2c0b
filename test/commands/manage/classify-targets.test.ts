/** `classify set` and `import` without a warehouse: which questions are meant, and what is written about each of them. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import * as classify from '../../../src/analytics/classify.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

let calls: unknown[][]
/** Numbers of questions by scope and id, as `countQuestions` returns them. */
let counts: Record<string, number>
let found: object[]

vi.mock('../../../src/analytics/migrate.ts', async (original) => ({
  ...(await original()),
  requireMigrated: async () => {},
}))
vi.mock('../../../src/analytics/access.ts', async (original) => ({
  ...(await original()),
  teamNamed: async (db: unknown, name: string, argument: string) => {
    calls.push(['teamNamed', db, name, argument])
    return { teamId: name === 'north' ? 1 : 2 }
  },
}))
vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: async () => ({
    db: {
      transaction: () => ({ execute: (work: (within: string) => Promise<unknown>) => work('transaction') }),
    },
    [Symbol.asyncDispose]: async () => {},
  }),
}))
vi.mock('../../../src/analytics/classify.ts', async (original) => ({
  ...(await original<typeof classify>()),
  ...{ countQuestions: vi.fn(), decide: vi.fn(), nameConcept: vi.fn(), decideForResearchers: vi.fn() },
  ...{ questionsOfText: vi.fn(), noteQuestions: vi.fn() },
}))

const folder = makeFolder('classify-targets-')
afterAll(() => removeFolder(folder))

beforeEach(() => {
  calls = []
  counts = {}
  found = []
  vi.mocked(classify.countQuestions).mockImplementation(async (...given) => {
    calls.push(['count', ...given])
    const [, scope, question] = given
    return counts[`${scope.teamId ?? ''}/${scope.form ?? ''}/${question}`] ?? 0
  })
  vi.mocked(classify.questionsOfText).mockImplementation(async (...given) => {
    calls.push(['text', ...given])
    return found as never
  })
  for (const [name, part] of [
    ['decide', classify.decide],
    ['concept', classify.nameConcept],
    ['researchers', classify.decideForResearchers],
  ] as const)
    vi.mocked(part as (...given: unknown[]) => Promise<unknown>).mockImplementation(async (...given) => {
      calls.push([name, ...given])
      return 3
    })
})

async function run(...words: string[]) {
  const env = { DATABASE_URL: 'postgres://u@127.0.0.1:1/d' }
  const { code, stdout, stderr } = await runCommand(['classify', ...words], env)
  return { code, stdout, stderr }
}
const imported = (lines: readonly string[], ...words: string[]) => {
  const file = join(folder, 'file.csv')
  writeFileSync(file, ['team,form,question_text,visibility,concept,question_id', ...lines, ''].join('\n'))
  return run('import', file, ...words)
}

it('an id that the team and form have is one target, and each decision is written for it, within them', async () => {
  counts = { '2/f/q': 1 }
  const options = ['--team', 'south', '--form', 'f', '--concept', 'mood', '--researchers', 'age']
  expect(await run('set', 'q', 'visible', ...options)).toEqual({
    ...{ code: 0, stdout: 'visible: 3 questions\n', stderr: '' },
  })
  const within = { teamId: 2, form: 'f' }
  expect(calls).toEqual([
    ['teamNamed', 'transaction', 'south', '--team'],
    ['count', 'transaction', within, 'q'],
    ['decide', 'transaction', within, 'q', 'visible'],
    ['concept', 'transaction', within, 'q', 'mood'],
    ['researchers', 'transaction', within, 'q', 'age'],
  ])
})

it('a text is every question with it, each within its own team and form, and what is not given stays', async () => {
  found = [
    { teamId: 1, form: 'f', questionId: 'q1' },
    { teamId: 2, form: 'g', questionId: 'q2' },
  ]
  counts = { '1/f/q1': 1, '2/g/q2': 1 }
  expect((await run('set', 'How?', '--concept', 'mood')).stdout).toBe('visibility unchanged: 2 questions\n')
  const [first, second] = [
    { teamId: 1, form: 'f' },
    { teamId: 2, form: 'g' },
  ]
  expect(calls).toEqual([
    ['count', 'transaction', {}, 'How?'],
    ['text', 'transaction', {}, 'How?'],
    ['count', 'transaction', first, 'q1'],
    ['concept', 'transaction', first, 'q1', 'mood'],
    ['count', 'transaction', second, 'q2'],
    ['concept', 'transaction', second, 'q2', 'mood'],
  ])
  calls = []
  expect((await run('set', 'How?', '--researchers', 'hidden')).code).toBe(0)
  expect(calls.slice(-1)).toEqual([['researchers', 'transaction', second, 'q2', 'hidden']])
})

it('a row is of its own team, or else of the named one; where they lack its id, its text counts', async () => {
  counts = { '1//q': 1, '1/f/other': 1 }
  found = [{ teamId: 2, form: 'g', questionId: 'other' }]
  expect(await imported(['north,,,visible,,q', ',,How?,hidden,mood,q', ',,,,,q'], '--team', 'south')).toEqual(
    {
      ...{ code: 0, stdout: 'decided on 6 question(s)\n', stderr: '' },
    },
  )
  const [north, south] = [{ teamId: 1 }, { teamId: 2 }]
  expect(calls).toEqual([
    ['teamNamed', 'transaction', 'north', '--team'],
    ['decide', 'transaction', north, 'q', 'visible'],
    ['teamNamed', 'transaction', 'south', '--team'],
    ['count', 'transaction', south, 'q'],
    ['text', 'transaction', south, 'How?'],
    ['decide', 'transaction', { teamId: 2, form: 'g' }, 'other', 'hidden'],
    ['concept', 'transaction', { teamId: 2, form: 'g' }, 'other', 'mood'],
  ])
})

it('a row whose question is nowhere ends the import, and is named by its place among all rows', async () => {
  counts = { '//q': 1 }
  const ended = await imported([',,,,,p', ',,,visible,,q', ',f,Gone,visible,,'])
  expect([ended.code, ended.stdout]).toEqual([1, ''])
  expect(ended.stderr).toMatch(/^error: row 3 of FILE names a question that is not in the warehouse\n/)
})
