/** A stream whose comparison failed: what it says, and what is logged. */
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { IntakeError } from '../../../src/core/errors.ts'
import { failureOf, noteOf } from '../../../src/reconcile/verify/verify-stream.ts'

const place = { team: 'north', stream: 'patients' } as const

test('a failure says why and what to do, in the result and in the log; one that was stopped is no failure', () => {
  const lines: string[] = []
  const logger = pino({ base: null, timestamp: false }, { write: (line) => void lines.push(line) })
  const stop = new AbortController()
  const failed = (error: unknown) => failureOf({ logger, signal: stop.signal }, place, error)
  const error = (hint?: string) =>
    new IntakeError('it failed', { code: 'payload_missing', verdict: 'stop', ...(hint ? { hint } : {}) })
  expect([failed(error('fetch it again')), failed(error())]).toEqual([
    { status: 'failed', error: 'it failed — fetch it again' },
    { status: 'failed', error: 'it failed' },
  ])
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { level: 50, ...place, code: 'payload_missing', msg: 'it failed — fetch it again' },
    { level: 50, ...place, code: 'payload_missing', msg: 'it failed' },
  ])
  expect(noteOf({ stream: 'patients', ...failed(error('fetch it again')) })).toBe(
    'it failed — fetch it again',
  )
  lines.length = 0
  stop.abort('SIGTERM')
  const stopped = failed(error('fetch it again'))
  expect(stopped.status).toBe('interrupted')
  expect(stopped.error).not.toContain('it failed')
  expect(lines).toEqual([])
})
