/** Records fetched side by side: what each failure means for them all, and what is remembered for later. No service is asked. */
import { expect, test } from 'vitest'
import type { Client } from '../../../src/api/client.ts'
import { openServiceClock } from '../../../src/api/service-clock.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import {
  type FetchContext,
  fetchEach,
  meaningOf,
  noFailedFetches,
} from '../../../src/extract/conflicts/fetch-by-id.ts'
import { patients } from '../../../src/streams/patients.ts'

type Get = (id: string, signal: AbortSignal) => Promise<unknown>

function contextOf(get: Get): FetchContext & { failedFetches: ReturnType<typeof noFailedFetches> } {
  const client = {
    pathOf: () => '/v2/patients/{id}',
    get: (_: string, { params, signal }: { params: { id: string }; signal: AbortSignal }) =>
      get(params.id, signal),
  }
  return {
    client: client as unknown as Client,
    ...{
      serviceClock: openServiceClock(),
      meter: { requests: 0, throttled: 0 },
      teamId: 1,
      stream: patients,
    },
    failedFetches: noFailedFetches(),
  }
}
const fetch = (context: FetchContext, ...ids: readonly string[]) =>
  fetchEach(
    context,
    ids.map((id) => ({ id, origin: 'run:1 fetch' })),
  )
const failure = (code: IntakeError['code'], verdict: IntakeError['verdict'], message = 'no') =>
  new IntakeError(message, { code, verdict })
const answer = (id: string) => ({
  body: { id, first_name: 'A' },
  ...{ startedAt: 1, receivedAt: 2, serviceDate: null, invalidUtf8: false },
})

test('a failure that stops the stream is thrown when every other request has ended, which it aborts', async () => {
  const refused = failure('bad_credentials', 'stop')
  const ended: unknown[] = []
  const context = contextOf(async (id, signal) => {
    if (id === 'a') throw refused
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve))
    ended.push(signal.reason)
    throw signal.reason
  })
  await expect(fetch(context, 'b', 'a', 'c')).rejects.toBe(refused)
  expect(ended).toEqual([refused, refused])
})

test('a record that is to be fetched later is remembered with the last reason, until it is fetched', async () => {
  let reason: string | null = 'first'
  const context = contextOf(async (id) => {
    if (id === 'a' && reason !== null) throw failure('unavailable', 'retry', reason)
    return answer(id)
  })
  const { later } = context.failedFetches
  expect((await fetch(context, 'a', 'b')).map(({ kind }) => kind)).toEqual(['later', 'record'])
  expect([...later]).toEqual([['a', 'first']])
  reason = 'second'
  await fetch(context, 'b', 'a')
  expect([...later]).toEqual([['a', 'second']])
  await fetch(context, 'b')
  expect([...later.keys()]).toEqual(['a'])
  reason = null
  expect((await fetch(context, 'a')).map(({ kind }) => kind)).toEqual(['record'])
  expect([...later]).toEqual([])
})

test.each([
  ['is gone', failure('not_found', 'gone'), 'dead'],
  ['becomes a dead letter', failure('refused', 'dead_letter'), 'dead'],
])('a record that %s is no longer to be fetched later', async (_, error, kind) => {
  let thrown = failure('unavailable', 'retry')
  const context = contextOf(() => Promise.reject(thrown))
  await fetch(context, 'a', 'b')
  expect([...context.failedFetches.later.keys()]).toEqual(['a', 'b'])
  thrown = error
  expect((await fetch(context, 'a')).map((each) => each.kind)).toEqual([kind])
  expect([...context.failedFetches.later.keys()]).toEqual(['b'])
})

test.each([
  ['not_json', 'retry', 'dead', 'dead'],
  ['bad_encoding', 'retry', 'dead', 'dead'],
  ['too_deep', 'stop', 'dead', 'dead'],
  ['too_large', 'stop', 'dead', 'dead'],
  ['not_found', 'gone', 'gone', 'dead'],
  ['refused', 'dead_letter', 'dead', 'dead'],
  ['unavailable', 'retry', 'later', 'later'],
  ['timeout', 'retry', 'later', 'later'],
  ['connection_lost', 'retry', 'later', 'later'],
  ['unreachable', 'retry', null, null],
  ['throttled', 'retry', null, null],
  ['bad_credentials', 'stop', null, null],
] as const)('a failure %s (%s) means %s for a record, and %s for a file', (code, verdict, record, file) => {
  const error = failure(code, verdict)
  const meaning = (what: 'record' | 'file', inRow: number) => {
    const failed = { ...noFailedFetches(), inRow }
    try {
      const found = meaningOf(error, failed, what)
      return [found, failed.inRow]
    } catch (thrown) {
      return thrown === error ? [null, failed.inRow] : expect.unreachable()
    }
  }
  const isBlamed = !['not_found', 'refused'].includes(code)
  for (const [what, expected] of [
    ['record', record],
    ['file', file],
  ] as const) {
    const counted = expected === null ? 9 : expected === 'gone' ? 0 : 10
    expect([what, ...meaning(what, 9)]).toEqual([what, expected, counted])
    // The eleventh in a row is a fault of the service, unless it says that the request was wrong.
    const eleventh = isBlamed ? [null, 10] : [expected, expected === 'gone' ? 0 : 11]
    expect([what, ...meaning(what, 10)]).toEqual([what, ...eleventh])
  }
})

test('what is no failure of ours is thrown as it is', () => {
  const error = new TypeError('a fault')
  const failed = noFailedFetches()
  expect(() => meaningOf(error, failed)).toThrow(error)
  expect(failed.inRow).toBe(0)
})
