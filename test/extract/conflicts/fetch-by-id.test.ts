/** The meaning of an answer to a fetch by id for the record, and when the fault is the service's. */
import type http from 'node:http'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { IntakeError } from '../../../src/core/errors.ts'
import { microsOf } from '../../../src/core/time.ts'
import {
  fetchEach,
  fetchForRun,
  fetchWhole,
  meaningOf,
  noFailedFetches,
} from '../../../src/extract/conflicts/fetch-by-id.ts'
import type { FailedFetches } from '../../../src/extract/source.ts'
import { streamNamed } from '../../../src/streams/catalogue.ts'
import { json, type Received } from '../../api/support/service.ts'
import { recordEnvelope } from '../../support/envelopes.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeAll(async () => {
  rig = await openRig()
})
afterAll(() => rig[Symbol.asyncDispose]())
beforeEach(() => {
  rig.service.interfere = () => false
  rig.service.records.patients = []
  ;(rig.service.received as Received[]).length = 0
})

const person = (id: string, more: object = {}) => ({ id, first_name: 'A', ...more })
const answerAll = (answer: (response: http.ServerResponse, id: string) => void) => {
  rig.service.interfere = ({ url }, response) => {
    answer(response, decodeURIComponent(url.split('/').at(-1)!))
    return true
  }
}

async function fetchAll(ids: readonly string[], failedFetches: FailedFetches = noFailedFetches()) {
  const source = await rig.source('patients', { failedFetches })
  return fetchForRun(source, ids, 'proof')
}

test('each answer is at the position of its id, with its origin and the time of its request', async () => {
  rig.service.records.patients = [person('b'), person('a')]
  const before = microsOf(ago(0))
  const [a, none, b] = await fetchAll(['a', 'none', 'b'])
  const after = microsOf(ago(0))
  expect([a, none, b]).toMatchObject([
    { kind: 'record', envelope: { id: 'a', teamId: rig.teamId, stream: 'patients', origin: 'run:1 proof' } },
    { kind: 'gone' },
    { kind: 'record', envelope: { id: 'b' } },
  ])
  for (const each of [a, none]) {
    const at =
      each!.kind === 'record' ? each!.envelope.observedAt : each!.kind === 'gone' ? each!.observedAt : null
    // A lower bound on the service's clock, whose dates are whole seconds, and which was read when the answer came.
    expect(microsOf(at!)).toBeGreaterThanOrEqual(before - 1_000_000 - (after - before))
    expect(microsOf(at!)).toBeLessThanOrEqual(after)
  }
})

test('an id is sent as one segment of the path, whatever it contains', async () => {
  const ids = ['a/b', 'a b', '%', '?x=1', 'é']
  rig.service.records.patients = ids.map((id) => person(id))
  const found = await fetchAll(ids)
  expect(found.map((each) => each.kind === 'record' && each.envelope.id)).toEqual(ids)
})

describe('one answer', () => {
  test.each<[string, (response: http.ServerResponse) => void, object]>([
    ['404', (r) => json(r, { detail: 'Not found.' }, 404), { kind: 'gone' }],
    ['410', (r) => json(r, {}, 410), { kind: 'gone' }],
    [
      'another record',
      (r) => json(r, person('other')),
      {
        kind: 'dead',
        deadLetter: {
          recordId: 'x',
          reason: 'the record fetched by id has another id',
          body: expect.stringContaining('other'),
        },
      },
    ],
    [
      'a record with nothing but its id',
      (r) => json(r, { id: 'x' }),
      {
        kind: 'dead',
        deadLetter: {
          recordId: 'x',
          reason: 'the record fetched by id has nothing but its id',
          body: '{"id":"x"}',
        },
      },
    ],
    [
      'a record without id',
      (r) => json(r, { first_name: 'A' }),
      { kind: 'dead', deadLetter: { recordId: 'x', reason: 'has no id' } },
    ],
    [
      'nothing',
      (r) => void r.writeHead(200).end(),
      { kind: 'dead', deadLetter: { recordId: 'x', reason: 'not an object' } },
    ],
    [
      'no object',
      (r) => json(r, [person('x')]),
      { kind: 'dead', deadLetter: { recordId: 'x', reason: 'not an object' } },
    ],
    [
      '400',
      (r) => json(r, {}, 400),
      {
        kind: 'dead',
        deadLetter: {
          recordId: 'x',
          reason: 'the service does not give the record by its id (400)',
          body: 'null',
        },
      },
    ],
    [
      '422',
      (r) => json(r, {}, 422),
      { kind: 'dead', deadLetter: { reason: 'the service does not give the record by its id (422)' } },
    ],
    [
      'what is no JSON',
      (r) => void r.writeHead(200, { 'content-type': 'application/json' }).end('{"id":'),
      {
        kind: 'dead',
        deadLetter: { recordId: 'x', reason: 'the record fetched by id cannot be read', body: 'null' },
      },
    ],
    ['500', (r) => json(r, {}, 500), { kind: 'later', error: { verdict: 'retry' } }],
    ['503', (r) => json(r, {}, 503), { kind: 'later', error: { verdict: 'retry' } }],
  ])('%s', async (_, answer, expected) => {
    answerAll(answer)
    const found = (await fetchAll(['x']))[0]!
    expect(found).toMatchObject(expected)
    if (found.kind === 'dead') expect(found.deadLetter.origin).toBe('run:1 proof')
  })

  test.each([401, 403, 405, 406])('%i stops, with an error that says so', async (status) => {
    answerAll((response) => json(response, {}, status))
    await expect(fetchAll(['x'])).rejects.toMatchObject({ verdict: 'stop', status })
  })

  test('that redirects stops the stream', async () => {
    answerAll((response) => void response.writeHead(302, { location: '/elsewhere' }).end())
    await expect(fetchAll(['x'])).rejects.toMatchObject({ verdict: 'stop' })
  })
})

test('ids to be fetched later are stored with their reason, and removed once fetched', async () => {
  rig.service.records.patients = [person('a'), person('b')]
  rig.service.interfere = ({ url }, response) => {
    if (!url.endsWith('/a')) return false
    json(response, {}, 503)
    return true
  }
  const failedFetches = noFailedFetches()
  const found = await fetchAll(['a', 'b'], failedFetches)
  expect(found.map(({ kind }) => kind)).toEqual(['later', 'record'])
  expect([...failedFetches.later.keys()]).toEqual(['a'])
  expect(failedFetches.later.get('a')).toContain('503')
  rig.service.interfere = () => false
  await fetchAll(['a'], failedFetches)
  expect(failedFetches.later.size).toBe(0)
})

test('a record of the list that is not given by its id becomes a dead letter with its own entry, also where others are repeated', async () => {
  rig.service.records.patients = [person('good')]
  rig.service.interfere = ({ url }, response) => {
    if (!url.endsWith('/bad')) return false
    json(response, {}, 422)
    return true
  }
  const made = { teamId: rig.teamId, stream: 'patients', observedAt: ago(10) } as const
  const entries = ['good', 'good', 'gone', 'gone', 'bad'].map((id, at) =>
    recordEnvelope({ id, city: `${id} ${at}` }, { ...made, origin: `run:1 page:${at}` }),
  )
  const found = await fetchWhole(await rig.source('patients'), entries)
  expect([...found.keys()]).toEqual(['good', 'gone', 'bad'])
  expect(found.get('good')).toMatchObject({
    kind: 'record',
    envelope: { content: { payload: person('good') } },
  })
  expect(found.get('gone')).toMatchObject({
    deadLetter: {
      ...{ recordId: 'gone', origin: 'run:1 page:3', reason: 'is in the list, but not found by its id' },
      body: '{"city":"gone 3","id":"gone"}',
    },
  })
  expect(found.get('bad')).toMatchObject({
    deadLetter: { recordId: 'bad', body: '{"city":"bad 4","id":"bad"}' },
  })
})

test('an answer that stops one fetch ends the concurrent ones, and nothing is left behind', async () => {
  let waiting = 0
  rig.service.interfere = ({ url }, response) => {
    if (url.endsWith('/bad')) setTimeout(() => json(response, {}, 403), 20)
    else {
      waiting += 1
      response.on('close', () => {
        waiting -= 1
      })
    }
    return true
  }
  const by = {
    ...{ client: rig.client, serviceClock: (await rig.source('patients')).serviceClock, teamId: rig.teamId },
    ...{
      meter: { requests: 0, throttled: 0 },
      stream: streamNamed('patients')!,
      failedFetches: noFailedFetches(),
    },
  }
  const wanted = ['slow', 'bad', 'slower'].map((id) => ({ id, origin: 'o' }))
  await expect(fetchEach(by, wanted)).rejects.toMatchObject({ status: 403 })
  await expect.poll(() => waiting).toBe(0)
})

describe('consecutive answers without a record', () => {
  const one = (failedFetches: FailedFetches) => fetchAll(['x'], failedFetches)

  test.each<[string, (response: http.ServerResponse) => void, number]>([
    ['a refusal', (r) => json(r, {}, 422), 100],
    ['another record', (r) => json(r, person('other')), 100],
    ['no JSON', (r) => void r.writeHead(200).end('{'), 10],
  ])('%s, counted as this many dead letters: then the stream stops', async (_, answer, most) => {
    answerAll(answer)
    const failedFetches = { ...noFailedFetches(), inRow: most - 1 }
    expect((await one(failedFetches))[0]!.kind).toBe('dead')
    await expect(one(failedFetches)).rejects.toBeInstanceOf(IntakeError)
  })

  test('do not stop it when they are scattered among records', async () => {
    rig.service.records.patients = [person('good')]
    rig.service.interfere = ({ url }, response) => {
      if (url.endsWith('/good')) return false
      json(response, {}, 422)
      return true
    }
    const failedFetches = noFailedFetches()
    for (let nth = 0; nth < 3; nth++) {
      for (let bad = 0; bad < 60; bad++) await fetchAll(['bad'], failedFetches)
      await fetchAll(['good'], failedFetches)
      expect(failedFetches.inRow).toBe(0)
    }
  })

  test('do not count for deleted records', async () => {
    const failedFetches = { ...noFailedFetches(), inRow: 99 }
    expect((await one(failedFetches))[0]!.kind).toBe('gone')
    expect(failedFetches.inRow).toBe(0)
  })
})

describe('the meaning of a failure', () => {
  const failure = (code: IntakeError['code'], verdict: IntakeError['verdict']) =>
    new IntakeError('m', { code, verdict })
  const notFound = failure('not_found', 'gone')

  test.each<[string, Error, string]>([
    ['a service that failed', failure('unavailable', 'retry'), 'later'],
    ['an answer that broke off', failure('connection_lost', 'retry'), 'later'],
    ['one that was too large', failure('too_large', 'stop'), 'dead'],
    ['one nested too deeply', failure('too_deep', 'stop'), 'dead'],
    ['one in an encoding that cannot be read', failure('bad_encoding', 'retry'), 'dead'],
    ['what was refused', failure('refused', 'dead_letter'), 'dead'],
  ])('%s: %#', (_, error, meaning) => {
    const failedFetches = noFailedFetches()
    expect(meaningOf(error, failedFetches)).toBe(meaning)
    expect(failedFetches.inRow).toBe(1)
  })

  test('a file that is not found is a dead letter: its list says that it exists', () => {
    const failedFetches = { ...noFailedFetches(), inRow: 3 }
    expect(meaningOf(notFound, failedFetches, 'file')).toBe('dead')
    expect(failedFetches.inRow).toBe(4)
    expect(meaningOf(notFound, failedFetches, 'record')).toBe('gone')
    expect(failedFetches.inRow).toBe(0)
  })

  test.each<[string, Error]>([
    ['nobody is there', failure('unreachable', 'retry')],
    ['the team is let through no more', failure('throttled', 'retry')],
    ['credentials are refused', failure('bad_credentials', 'stop')],
    ['our own fault', new TypeError('x is not a function')],
    ['an abort', new DOMException('aborted', 'AbortError')],
  ])('it is thrown unchanged when %s', (_, error) => {
    const failedFetches = noFailedFetches()
    expect(() => meaningOf(error, failedFetches)).toThrow(error)
    expect(failedFetches.inRow).toBe(0)
  })

  test.each([
    ['later', 'retry', 'unavailable', 10],
    ['unreadable', 'stop', 'not_json', 10],
    ['dead', 'dead_letter', 'refused', 100],
  ] as const)('%s, after the most allowed in a row, is thrown', (_, verdict, code, most) => {
    const failedFetches = { ...noFailedFetches(), inRow: most - 1 }
    meaningOf(failure(code, verdict), failedFetches)
    expect(() => meaningOf(failure(code, verdict), failedFetches)).toThrow(IntakeError)
  })
})
