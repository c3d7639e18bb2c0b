/** The questions about the stored state of a batch: on which records, fields and earlier events, and how often. */
import { expect, test } from 'vitest'
import type { Envelope } from '../../../src/core/envelope.ts'
import { incomplete, openUsualFields, overtaken } from '../../../src/ingest/drain/current.ts'
import type { InboxRow } from '../../../src/ingest/drain/inbox-rows.ts'
import { packetResponses } from '../../../src/streams/packet-responses.ts'
import { patients } from '../../../src/streams/patients.ts'
import type { Session } from '../../../src/warehouse/connect.ts'
import { answering, scripted } from '../../support/scripted.ts'

const event = (
  teamId: number,
  seq: number,
  recordId: string | null,
  { source = 'patient' as string | null, on = '2026-01-02' } = {},
) => ({ teamId, seq: String(seq), recordId, source, receivedOn: on }) as InboxRow

test('earlier events are asked for by record: how many the batch has, up to the last event of its team, from its first day', async () => {
  const { session, asked } = answering(
    ['1/patient/a', '1/patient/b', '2/patient/a'].map((key) => ({ key, passed: true })),
  )
  const rows = [
    event(1, 5, 'a'),
    event(2, 6, 'a', { on: '2026-01-03' }),
    event(1, 7, 'b', { on: '2026-01-01' }),
    event(1, 8, 'a', { source: 'form' }),
    event(1, 9, 'a'),
    event(2, 10, 'x', { source: null }),
    event(1, 11, null),
  ]
  expect(await overtaken(session, rows)).toEqual(new Set(['1/patient/a', '1/patient/b', '2/patient/a']))
  expect(asked).toEqual([
    [
      'drain overtaken',
      [1, 2, 1, 1],
      ['patient', 'patient', 'patient', 'form'],
      ['a', 'a', 'b', 'a'],
      [2, 1, 1, 1],
      ['11', '10', '11', '11'],
      '2026-01-01',
      [1, 2],
      ['11', '10'],
    ],
  ])
})

test('where a record has more events than are looked at, all events of the batch and their teams are compared', async () => {
  const found = [
    { key: '1/patient/a', passed: true },
    { key: '1/patient/b', passed: false },
  ]
  const { session, asked } = answering(found, [{ key: '1/patient/b' }, { key: '2/patient/a' }])
  const rows = [event(1, 5, 'a'), event(2, 6, 'a'), event(1, 7, 'b')]
  expect(await overtaken(session, rows)).toEqual(new Set(['1/patient/b', '2/patient/a']))
  expect(asked[1]).toEqual(['drain overtaken of many', [1, 2, 1], ['5', '6', '7']])
})

const envelope = (teamId: number, id: string, payload: object | null) =>
  ({ teamId, id, content: payload === null ? null : { payload } }) as unknown as Envelope

test('fields are compared once for each shape; a record that lacks values is losing, new ones are judged by their team', async () => {
  const { session, asked } = answering([
    { teamId: 1, id: 'same', rest: null },
    { teamId: 1, id: 'lacks', rest: { city: 'Bern' } },
    { teamId: 1, id: 'lacks too', rest: { zip: '', city: 'Bern' } },
    { teamId: 1, id: 'empty', rest: { city: '', tags: [], more: {}, no: null } },
  ])
  const usualAsked: unknown[] = []
  const usual = {
    async of(given: Session, { name }: { name: string }, teamIds: readonly number[]) {
      expect(given).toBe(session)
      usualAsked.push([name, teamIds])
      return new Map([[1, ['id', 'city']]])
    },
  }
  const result = await incomplete(session, usual, patients, [
    envelope(1, 'same', { id: 1, city: 2 }),
    envelope(1, 'lacks', { id: 1 }),
    envelope(1, 'lacks too', { id: 1 }),
    envelope(1, 'gone', null),
    envelope(1, 'empty', { id: 1 }),
    envelope(1, 'new', { city: null, id: 1 }),
    envelope(1, 'few', { id: 1 }),
    envelope(2, 'same', { id: 1 }),
    envelope(2, 'few', { id: 1 }),
  ])
  expect([[...result.losing], [...result.sparse]]).toEqual([
    ['1/lacks', '1/lacks too'],
    ['1/few', '2/same', '2/few'],
  ])
  expect(asked).toEqual([
    [
      'drain current',
      [1, 1, 1, 1, 1, 1, 2, 2],
      ['same', 'lacks', 'lacks too', 'empty', 'new', 'few', 'same', 'few'],
      'patients',
      '[["id","city"],["id"],["city","id"]]',
      [1, 2, 2, 2, 3, 2, 2, 2],
    ],
  ])
  expect(usualAsked).toEqual([['patients', [1, 2]]])
})

test('deletions alone ask for nothing', async () => {
  const { session, asked } = answering()
  const usual = { of: () => expect.fail('usual fields were asked for') }
  const result = await incomplete(session, usual, patients, [envelope(1, 'a', null)])
  expect([result, asked]).toEqual([{ losing: new Set(), sparse: new Set() }, []])
})

test('usual fields are those of all records of a sample, by team and stream, and asked for again after a minute', async () => {
  let now = 0
  const asked: (readonly unknown[])[] = []
  let samples: { team_id: number; fields: string[] }[] = []
  const db = scripted((_, values) => {
    asked.push(values)
    return samples
  })
  const usual = openUsualFields({ now: () => now, sleep: async () => {} })
  const of = async (stream: typeof patients, teamIds: readonly number[]) => [
    ...(await usual.of({ db } as Session, stream, teamIds)),
  ]
  samples = [
    { team_id: 1, fields: ['id', 'city', 'zip'] },
    { team_id: 2, fields: ['id'] },
    { team_id: 1, fields: ['zip', 'id'] },
  ]
  const known = [
    [1, ['id', 'zip']],
    [2, ['id']],
  ]
  expect(await of(patients, [1, 2, 3])).toEqual(known)
  // Only of those that are not known: twenty of two hundred records at most.
  samples = []
  expect(await of(patients, [1, 2, 3])).toEqual(known)
  expect(await of(patients, [1])).toEqual([known[0]])
  expect(asked).toEqual([
    [[1, 2, 3], 'patients', 200, 'patients', 20],
    [[3], 'patients', 200, 'patients', 20],
  ])
  expect(await of(packetResponses, [1])).toEqual([])
  expect(asked.pop()).toEqual([[1], 'packet_responses', 200, 'packet_responses', 20])
  // Fields that are no longer found after a minute are known no more.
  now = 60_000_000
  expect(await of(patients, [2, 1])).toEqual([])
  expect(asked.pop()!.slice(0, 2)).toEqual([[2, 1], 'patients'])
})
