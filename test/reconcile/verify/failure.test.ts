/** A stream whose comparison failed: what it says, and what is logged. */
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { IntakeError } from '../../../src/core/errors.ts'
import type { RunStatus } from '../../../src/load/runs.ts'
import {
  failureOf,
  isEqual,
  isRepaired,
  noteOf,
  type StreamVerified,
} from '../../../src/reconcile/verify/verify-stream.ts'

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

const sums = {} as StreamVerified['sums']
const verified = (over: Partial<StreamVerified>): StreamVerified => ({
  ...{
    missing: [],
    extra: [],
    different: [],
    newer: 0,
    notDue: 0,
    payloadsOnly: 0,
    sums,
    repaired: 0,
    note: null,
  },
  ...over,
})

test.each<[string, Partial<StreamVerified>, boolean, boolean]>([
  ['nothing differs', {}, true, true],
  ['others have written meanwhile', { newer: 3, notDue: 2, payloadsOnly: 1, note: 'n' }, true, true],
  ['one is missing', { missing: ['a'] }, false, false],
  ['one is extra', { extra: ['a'] }, false, false],
  ['one is different', { different: [{ id: 'a', fields: [] }] }, false, false],
  [
    'all are repaired',
    { missing: ['a'], extra: ['b'], different: [{ id: 'c', fields: [] }], repaired: 3 },
    false,
    true,
  ],
  [
    'one is left',
    { missing: ['a'], extra: ['b'], different: [{ id: 'c', fields: [] }], repaired: 2 },
    false,
    false,
  ],
])('where %s, a stream is equal or repaired only if it is', (_, over, equal, repaired) => {
  expect([isEqual(verified(over)), isRepaired(verified(over))]).toEqual([equal, repaired])
})

test('the note of a stream that needs a person has its counts, then what was noted; one that succeeded has none', () => {
  const found = verified({
    ...{ missing: ['a'], extra: ['b', 'c'], repaired: 4 },
    different: ['d', 'e', 'f'].map((id) => ({ id, fields: [] })),
  })
  const noted = (status: RunStatus, note: string | null) =>
    noteOf({ stream: 'patients', status, verified: { ...found, note } })
  const counts = '1 missing, 2 extra, 3 different, 4 repaired'
  expect(noted('needs_attention', null)).toBe(counts)
  expect(noted('needs_attention', 'why')).toBe(`${counts}; why`)
  expect(noted('succeeded', 'why')).toBe(null)
})
