/** The built-in client of `intake-sync psql`, without a warehouse: how it shows errors and results, statement by statement. */
import pg from 'pg'
import { beforeEach, expect, it, vi } from 'vitest'
import { runStatements } from '../../../src/commands/inspect/own-psql.ts'
import { openSession } from '../../../src/warehouse/connect.ts'

vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: vi.fn(),
}))

/** What Postgres answers to each text; an error is thrown. */
let answers: Readonly<Record<string, object>>
let asked: string[]
const said = { stdout: '', stderr: '' }

beforeEach(() => {
  asked = []
  Object.assign(said, { stdout: '', stderr: '' })
  const query = async (given: string | { text: string }) => {
    if (typeof given === 'string') return { rows: [{ pid: 7 }] }
    asked.push(given.text)
    const answer = answers[given.text]!
    if (answer instanceof Error) throw answer
    return answer
  }
  vi.mocked(openSession).mockResolvedValue({
    client: { query },
    [Symbol.asyncDispose]: async () => void asked.push('closed'),
  } as never)
})

const run = (texts: readonly string[], options = { json: false, batch: true }) =>
  runStatements(
    {
      ...{ env: {}, signal: new AbortController().signal, version: '' },
      stdout: { write: (text) => (said.stdout += String(text)) },
      stderr: { write: (text) => (said.stderr += String(text)) },
    },
    { url: 'postgres://u@h/d', settings: ['-c a=b'] },
    texts,
    options,
  )

const result = (command: string | null, names: readonly string[] = [], rows: unknown[][] = []) => ({
  ...{ command, rowCount: command === null ? null : rows.length, rows },
  fields: names.map((name) => ({ name })),
})
const refused = (message: string, hint?: string) =>
  Object.assign(new pg.DatabaseError(message, 0, 'error'), { code: '42601', ...(hint ? { hint } : {}) })

it('an error shows the message and hint of Postgres, with control characters escaped, and ends the run', async () => {
  answers = {
    ...{ 'select 1': result('SELECT', ['n'], [['1']]), b: refused('odd\u001b', 'perhaps\u001b[2J') },
    c: refused('plain'),
  }
  await expect(run(['select 1', 'b', 'c'])).rejects.toMatchObject({
    ...{ message: 'odd\\x1b', hint: 'perhaps\\x1b[2J', code: 'sql', verdict: 'stop' },
  })
  expect([asked, said]).toEqual([['select 1', 'b', 'closed'], { stdout: 'n\n1\n(1 row)\n\n', stderr: '' }])
  const plain = await run(['c']).then(
    () => null,
    (error: unknown) => error,
  )
  expect(plain).toMatchObject({ message: 'plain', code: 'sql' })
  expect(plain).not.toHaveProperty('hint', expect.anything())
})

it('at a terminal each error is a line, and the next statement is run; a lost connection ends it', async () => {
  answers = {
    ...{ a: refused('first\u001b', 'hint'), '  \\d': refused('syntax error at or near "\\"') },
    ...{
      b: result('SELECT', ['n'], [['1'], [null]]),
      c: Object.assign(new Error('x'), { code: 'ECONNRESET' }),
    },
  }
  const options = { json: false, batch: false }
  await expect(run(['a', '  \\d', 'b', 'c', 'a'], options)).rejects.toMatchObject({ verdict: 'retry' })
  expect([asked, said]).toEqual([
    ['a', '  \\d', 'b', 'c', 'closed'],
    {
      stdout: 'n\n1\n\n(2 rows)\n\n',
      stderr: 'error: first\\x1b\nerror: commands that begin with \\ need psql\n',
    },
  ])
})

it('each result of a text with several statements is shown in order; without columns as its command, and an empty statement not at all', async () => {
  const several = [
    ...[result('SELECT', ['a', 'b'], [['1', 'x\u001b']]), result('CREATE'), result(null)],
    ...[
      { ...result('INSERT'), rowCount: 3 },
      { ...result('SET'), rowCount: null },
    ],
    result('SELECT', ['n'], []),
  ]
  answers = { several: several as never, 'select 1': result('SELECT', ['n'], [['1']]), nothing: result(null) }
  await run(['several', 'nothing', 'select 1'])
  expect(said).toEqual({
    stdout: [
      ...['a  b', '1  x\\x1b', '(1 row)', '', 'CREATE 0', 'INSERT 3', 'SET', 'n', '(0 rows)', ''],
      ...['n', '1', '(1 row)', '', ''],
    ].join('\n'),
    stderr: '',
  })
  Object.assign(said, { stdout: '' })
  await run(['several', 'nothing', 'select 1'], { json: true, batch: true })
  const { results } = JSON.parse(said.stdout)
  expect(results).toEqual([
    { columns: ['a', 'b'], rows: [['1', 'x\u001b']], command: 'SELECT', row_count: 1 },
    { columns: [], rows: [], command: 'CREATE', row_count: 0 },
    { columns: [], rows: [], command: 'INSERT', row_count: 3 },
    { columns: [], rows: [], command: 'SET', row_count: null },
    { columns: ['n'], rows: [], command: 'SELECT', row_count: 0 },
    { columns: ['n'], rows: [['1']], command: 'SELECT', row_count: 1 },
  ])
})
