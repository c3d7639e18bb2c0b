/** A signal during a statement of our own client: it is canceled on a second connection, or at least left. */
import { beforeEach, expect, it, vi } from 'vitest'
import { runStatements } from '../../../src/commands/inspect/own-psql.ts'
import { openSession } from '../../../src/warehouse/connect.ts'

vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original()),
  openSession: vi.fn(),
}))

let steps: string[]
let endStatement: () => void
let stop: AbortController

const tick = () => new Promise<void>((resolve) => setImmediate(resolve))

/** The session of the user, whose statement runs until it is canceled or its connection is closed. */
const own = {
  client: {
    query: (asked: unknown) => {
      if (typeof asked === 'string') return Promise.resolve({ rows: [{ pid: 7 }] })
      return new Promise((_, reject) => {
        endStatement = () => reject(new Error('ended'))
        queueMicrotask(() => stop.abort('SIGINT'))
      })
    },
    end: async () => {
      steps.push('left')
      endStatement()
    },
  },
  [Symbol.asyncDispose]: async () => void steps.push('closed'),
}

const other = {
  client: {
    query: async (text: string, values: unknown) => {
      steps.push(`${text} ${JSON.stringify(values)}`)
      endStatement()
      await tick()
    },
  },
  [Symbol.asyncDispose]: async () => {
    await tick()
    steps.push('other closed')
  },
}

beforeEach(() => {
  vi.clearAllMocks()
  steps = []
  stop = new AbortController()
  vi.mocked(openSession).mockResolvedValueOnce(own as never)
})

const run = () => {
  const output = { write: (text: string | Uint8Array) => steps.push(String(text)) }
  const context = { env: {}, stdout: output, stderr: output, signal: stop.signal, version: '' }
  const target = { url: 'postgres://u@h/d?a=b', settings: ['-c x=y', '-c z=1'] }
  return runStatements(context, target, ['select 1'], { json: true, batch: true })
}

it('the statement is canceled on a second connection, which may take two seconds to open, and the command ends after that', async () => {
  vi.mocked(openSession).mockResolvedValueOnce(other as never)
  await expect(run()).rejects.toBe('SIGINT')
  expect(vi.mocked(openSession).mock.calls).toEqual([
    [{ url: 'postgres://u@h/d?a=b&options=-c%20x%3Dy%20-c%20z%3D1', purpose: 'psql' }],
    [{ url: 'postgres://u@h/d?a=b', purpose: 'psql', connectTimeoutMs: 2_000 }],
  ])
  expect(steps).toEqual(['select pg_cancel_backend($1) [7]', 'other closed', 'left', 'closed'])
})

it('where no second connection can be made, the first one is closed', async () => {
  vi.mocked(openSession).mockRejectedValueOnce(new Error('too many connections'))
  await expect(run()).rejects.toBe('SIGINT')
  expect(steps).toEqual(['left', 'closed'])
})

it('a signal after the last statement cancels nothing', async () => {
  vi.mocked(openSession).mockReset()
  const answer = { command: 'SELECT', rowCount: 0, rows: [], fields: [] }
  const query = async (asked: unknown) => (typeof asked === 'string' ? { rows: [{ pid: 7 }] } : answer)
  vi.mocked(openSession).mockResolvedValueOnce({ ...own, client: { query } } as never)
  await run()
  stop.abort('SIGINT')
  await tick()
  expect(openSession).toHaveBeenCalledOnce()
})
