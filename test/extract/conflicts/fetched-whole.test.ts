/** The whole result of a fetch by id, while the service's clock is an hour behind ours. */
import type http from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { openServiceClock } from '../../../src/api/service-clock.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import { microsOf } from '../../../src/core/time.ts'
import { fetchForRun, meaningOf, noFailedFetches } from '../../../src/extract/conflicts/fetch-by-id.ts'
import { json } from '../../api/support/service.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

const HOUR = 3_600

let rig: Rig
beforeAll(async () => {
  rig = await openRig()
  rig.service.clockApartMs = -HOUR * 1_000
})
afterAll(() => rig[Symbol.asyncDispose]())
beforeEach(() => {
  rig.service.interfere = () => false
})

/** Fetched by a run that knows nothing yet of the service's clock. */
async function fetchFirst(id: string, inRow = 0) {
  const failedFetches = { ...noFailedFetches(), inRow }
  const source = await rig.source('patients', { serviceClock: openServiceClock(), failedFetches })
  const [found] = await fetchForRun(source, [id], 'refetch')
  return found!
}
const answerWith = (answer: (response: http.ServerResponse) => void) => {
  rig.service.interfere = (_, response) => {
    answer(response)
    return true
  }
}

test.each([
  ['record', [{ id: 'p', first_name: 'A' }]],
  ['gone', []],
] as const)(
  'the time of a fetched state is of the clock of the service, also for the first answer of a run: %s',
  async (kind, records) => {
    rig.service.records.patients = [...records]
    const before = microsOf(ago(HOUR))
    const found = await fetchFirst('p')
    const after = microsOf(ago(HOUR))
    expect(found.kind).toBe(kind)
    const at =
      found.kind === 'record' ? found.envelope.observedAt : found.kind === 'gone' ? found.observedAt : null
    // A lower bound: `Date` has whole seconds, and was written before the answer came.
    expect(microsOf(at!)).toBeGreaterThanOrEqual(before - 1_000_000 - (after - before))
    expect(microsOf(at!)).toBeLessThanOrEqual(after)
  },
)

describe('a record fetched by id', () => {
  test.each([
    ['a byte that is not UTF-8', [0xff], '\\xff'],
    ['half of a character', [...Buffer.from('\\udcff')], '\\udcff'],
  ])('shows %s as what it was', async (_, bytes, shown) => {
    const pieces = [Buffer.from('{"id":"p","first_name":"'), Buffer.from(bytes), Buffer.from('"}')]
    answerWith((response) => void response.writeHead(200).end(Buffer.concat(pieces)))
    const found = await fetchFirst('p')
    expect(found.kind === 'record' && found.envelope.content!.payload).toEqual({ id: 'p', first_name: shown })
  })

  test('that is nested too deeply is a dead letter under the id that it has', async () => {
    const body = `{"id":"other","first_name":"A","x":${'['.repeat(500)}${']'.repeat(500)}}`
    answerWith((response) => void response.writeHead(200).end(body))
    const deadLetter = {
      recordId: 'other',
      origin: 'run:1 refetch',
      reason: 'nested more than 400 levels deep',
      body: expect.stringContaining('"other"'),
    }
    expect(await fetchFirst('p')).toEqual({ kind: 'dead', deadLetter })
  })
})

test('a hundred answers in a row without the record blame the path, and say where to correct it', async () => {
  answerWith((response) => json(response, []))
  await expect(fetchFirst('p', 100)).rejects.toMatchObject({
    message: 'GET /v2/patients/{id}: the answers contain no record, or other records than those requested',
    code: 'record_unreadable',
    verdict: 'stop',
    hint: 'Check `paths` in the configuration.',
  })
})

test('as many files as records may be missing in a row, before the service is blamed', () => {
  const error = new IntakeError('m', { code: 'not_found', verdict: 'gone' })
  const failedFetches = { ...noFailedFetches(), inRow: 99 }
  expect(meaningOf(error, failedFetches, 'file')).toBe('dead')
  expect(() => meaningOf(error, failedFetches, 'file')).toThrow(error)
})
