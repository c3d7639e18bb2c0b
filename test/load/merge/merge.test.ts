/**
 * The merge of staged records: which state wins, which records conflict, and that other teams, streams and sessions
 * affect neither.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Envelope } from '../../../src/core/envelope.ts'
import {
  type BatchSource,
  prepareStaging,
  type WriteResult,
  writeBatch,
} from '../../../src/load/merge/write-batch.ts'
import { linesOf } from '../../../src/normalize/lines.ts'
import { forms } from '../../../src/streams/forms.ts'
import { packetResponses } from '../../../src/streams/packet-responses.ts'
import { patients } from '../../../src/streams/patients.ts'
import type { Stream } from '../../../src/streams/stream.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { at, recordEnvelope, tombstoneEnvelope } from '../../support/envelopes.ts'
import { dumpStream } from '../../support/tables.ts'
import { rowsOf, waitsForLock } from '../loading.ts'

let database: TestDatabase
let one: Session
let two: Session

beforeAll(async () => {
  database = await createTestDatabase()
  one = await openSession({ url: database.url, purpose: 'merge one' })
  two = await openSession({ url: database.url, purpose: 'merge two' })
  for (const stream of [patients, forms, packetResponses]) {
    await prepareStaging(one, stream)
    await prepareStaging(two, stream)
  }
})

afterAll(async () => {
  await one.close()
  await two.close()
  await database.drop()
})

beforeEach(async () => {
  const tables = await rowsOf<{ name: string }>(
    one,
    `select schemaname || '.' || tablename as name from pg_tables
     where schemaname = 'intake' and tablename <> 'teams' or (schemaname, tablename) in (('intake_raw', 'records'), ('intake_raw', 'record_history'))`,
  )
  await one.client.query(`truncate ${tables.map(({ name }) => name).join(', ')}`)
})

const EVENTS: BatchSource = { kind: 'events' }
const ANSWERS: BatchSource = { kind: 'answers', requestedAt: '2100-01-01T00:00:00Z' }
const PAGES: BatchSource = { kind: 'pages', requestedAt: '2100-01-01T00:00:00Z' }
/** Requested before anything that a test loads. */
const EARLY = '2020-01-01T00:00:00Z'

async function write(
  session: Session,
  stream: Stream,
  envelopes: readonly Envelope[],
  from: BatchSource,
): Promise<WriteResult> {
  return await writeBatch(session, { stream, lines: linesOf(stream, envelopes), from })
}

async function committed(
  session: Session,
  stream: Stream,
  envelopes: readonly Envelope[],
  from: BatchSource,
): Promise<WriteResult> {
  await session.client.query('begin')
  const written = await write(session, stream, envelopes, from)
  await session.client.query('commit')
  return written
}

interface State {
  readonly seen: number
  readonly name?: string
  readonly updated?: number
  readonly origin?: string
  readonly gone?: boolean
}

/** In seconds. */
function person(
  id: string,
  { seen, name = 'Ann', updated, origin = 'event:e', gone = false }: State,
  teamId = 1,
): Envelope {
  const made = { teamId, stream: 'patients' as const, observedAt: at(seen * 1e6), origin }
  if (gone) return tombstoneEnvelope(id, made)
  const stamp = updated === undefined ? {} : { updated_at: at(updated * 1e6) }
  return recordEnvelope({ id, last_name: name, patient_tags: [name, name], ...stamp }, made)
}

const shown = (session: Session) =>
  rowsOf(session, `select team_id, id, last_name from intake.patients order by 1, 2`)

describe('a conflict', () => {
  const NEW = { seen: 30, name: 'New' }
  test.each<[string, BatchSource, State, State, boolean]>([
    ['an event that loses to other content', EVENTS, { seen: 50 }, NEW, true],
    ['an event that loses to the same content', EVENTS, { seen: 50, name: 'New' }, NEW, false],
    ['an event of the same version', EVENTS, { seen: 30 }, NEW, true],
    ['a later event', EVENTS, { seen: 20 }, NEW, false],
    [
      'a later event whose record was updated before',
      EVENTS,
      { seen: 20, updated: 9 },
      { ...NEW, updated: 8 },
      true,
    ],
    [
      'a later event whose record was updated by a microsecond before',
      EVENTS,
      { seen: 20, updated: 9 },
      { ...NEW, updated: 8.999999 },
      true,
    ],
    [
      'a later event whose record was updated at the same time',
      EVENTS,
      { seen: 20, updated: 9 },
      { ...NEW, updated: 9 },
      false,
    ],
    ['a later event whose record has no stamp', EVENTS, { seen: 20, updated: 9 }, NEW, false],
    [
      'a later event of the same content whose stamp is earlier',
      EVENTS,
      { seen: 20, updated: 9, name: 'New' },
      { ...NEW, updated: 8 },
      true,
    ],
    [
      'an event that undoes a deletion made after the update',
      EVENTS,
      { seen: 20, gone: true },
      { ...NEW, updated: 10 },
      true,
    ],
    [
      'an event that undoes a deletion made at the moment of the update',
      EVENTS,
      { seen: 20, gone: true },
      { ...NEW, updated: 20 },
      true,
    ],
    [
      'an event that undoes a deletion made before the update',
      EVENTS,
      { seen: 20, gone: true },
      { ...NEW, updated: 25 },
      false,
    ],
    ['an event within two seconds of a page', EVENTS, { seen: 28.5, origin: 'run:1 page:1' }, NEW, true],
    ['an event two seconds after a page', EVENTS, { seen: 28, origin: 'run:1 page:1' }, NEW, false],
    [
      'an event within two seconds of an answer',
      EVENTS,
      { seen: 28.5, origin: 'event:e refetch' },
      NEW,
      true,
    ],
    ['an event within two seconds of another event', EVENTS, { seen: 28.5 }, NEW, false],
    [
      'an event that undoes what an answer showed gone',
      EVENTS,
      { seen: 2, gone: true, origin: 'event:e refetch' },
      { ...NEW, updated: 9 },
      true,
    ],
    ['a page that loses to other content', PAGES, { seen: 50 }, { ...NEW, origin: 'run:1 page:1' }, true],
    [
      'a page asked for after an event was loaded',
      PAGES,
      { seen: 20 },
      { ...NEW, origin: 'run:1 page:1' },
      false,
    ],
    [
      'a page asked for before an event was loaded',
      { kind: 'pages', requestedAt: EARLY },
      { seen: 20 },
      { ...NEW, origin: 'run:1 page:1' },
      true,
    ],
    [
      'a page asked for before another page was loaded',
      { kind: 'pages', requestedAt: EARLY },
      { seen: 20, origin: 'run:1 page:1' },
      { ...NEW, origin: 'run:1 page:2' },
      false,
    ],
    [
      'a page whose record was updated before the current one',
      PAGES,
      { seen: 20, updated: 9 },
      { ...NEW, updated: 8, origin: 'run:1 page:1' },
      true,
    ],
    [
      'an answer whose record was updated before the current one',
      ANSWERS,
      { seen: 20, updated: 9 },
      { ...NEW, updated: 8, origin: 'event:e refetch' },
      false,
    ],
    [
      'an answer asked for before an event was loaded',
      { kind: 'answers', requestedAt: EARLY },
      { seen: 20 },
      { ...NEW, origin: 'event:e refetch' },
      true,
    ],
  ])('%s: %#', async (_, from, current, incoming, isConflict) => {
    await committed(one, patients, [person('a', current), person('b', { seen: 1 })], { kind: 'empty' })
    const { conflicts } = await committed(one, patients, [person('a', incoming), person('c', incoming)], from)
    expect(conflicts).toEqual(isConflict ? [{ teamId: 1, id: 'a' }] : [])
  })

  test('of a page depends on when the own state was loaded: after the request, not with it, nor that of another team', async () => {
    const loadedAt = async (teamId: number) => {
      const [row] = await rowsOf<{ at: string }>(
        one,
        'select _loaded_at::text as at from intake.patients where team_id = $1',
        [teamId],
      )
      return row!.at
    }
    for (const teamId of [1, 2, 3]) await committed(one, patients, [person('a', { seen: 1 }, teamId)], EVENTS)
    const [first, second, third] = [await loadedAt(1), await loadedAt(2), await loadedAt(3)]
    const page = [1, 2, 3].map((teamId) =>
      person('a', { seen: 30, name: 'x', origin: 'run:1 page:1' }, teamId),
    )
    for (const [requestedAt, teams] of [
      [first, [2, 3]],
      [second, [3]],
      [third, []],
    ] as const) {
      await one.client.query('begin')
      const { conflicts } = await write(one, patients, page, { kind: 'pages', requestedAt })
      await one.client.query('rollback')
      expect(conflicts.map(({ teamId }) => teamId)).toEqual(teams)
    }
  })

  test('is not a state that only shares its id, in another team or in another stream of the transaction', async () => {
    await committed(one, patients, [person('a', { seen: 50 }), person('a', { seen: 10 }, 2)], {
      kind: 'empty',
    })
    await one.client.query('begin')
    const late = await write(
      one,
      patients,
      [person('a', { seen: 30, name: 'x' }), person('a', { seen: 30, name: 'x' }, 2)],
      EVENTS,
    )
    const form = recordEnvelope({ id: 'a', name: 'f' }, { teamId: 1, stream: 'forms', observedAt: at(1) })
    const other = await write(one, forms, [form], EVENTS)
    await one.client.query('commit')
    expect(late).toMatchObject({ changed: 1, conflicts: [{ teamId: 1, id: 'a' }] })
    expect(other).toMatchObject({ changed: 1, deleted: 0, conflicts: [] })
    expect(await shown(one)).toEqual([
      { team_id: 1, id: 'a', last_name: 'Ann' },
      { team_id: 2, id: 'a', last_name: 'x' },
    ])
  })
})

describe('records of other teams and streams', () => {
  test('keep their children when those of a record with the same id are replaced', async () => {
    await committed(
      one,
      patients,
      [1, 2, 3].map((team) => person('a', { seen: 1 }, team)),
      { kind: 'empty' },
    )
    const before = [await dumpStream(one, patients, 1), await dumpStream(one, patients, 3)]
    await committed(one, patients, [person('a', { seen: 5, gone: true }, 2)], EVENTS)
    expect([await dumpStream(one, patients, 1), await dumpStream(one, patients, 3)]).toEqual(before)
    expect(await rowsOf(one, 'select from intake.patient_tags where team_id = 2')).toEqual([])
    const mixed = [person('a', { seen: 9, name: 'x' }, 3), person('a', { seen: 9, name: 'y' }, 1)]
    await committed(one, patients, mixed, EVENTS)
    expect(
      await rowsOf(one, 'select team_id, name from intake.patient_tags order by team_id, position'),
    ).toEqual([
      { team_id: 1, name: 'y' },
      { team_id: 1, name: 'y' },
      { team_id: 3, name: 'x' },
      { team_id: 3, name: 'x' },
    ])
  })

  test('a losing state leaves its tables unchanged, and winning states of the same id in another team are written', async () => {
    await committed(one, patients, [person('a', { seen: 50, name: 'stays' }), person('a', { seen: 1 }, 2)], {
      kind: 'empty',
    })
    const before = await dumpStream(one, patients, 1)
    const incoming = [person('a', { seen: 9, name: 'x' }), person('a', { seen: 9, name: 'x' }, 2)]
    expect(await committed(one, patients, incoming, EVENTS)).toMatchObject({ changed: 1, deleted: 0 })
    expect(await dumpStream(one, patients, 1)).toEqual(before)
    expect(await rowsOf(one, 'select name from intake.patient_tags where team_id = 2')).toEqual([
      { name: 'x' },
      { name: 'x' },
    ])
    // So do deletions, which are counted only where they win.
    const gone = [1, 2].map((team) => person('a', { seen: 10, gone: true }, team))
    expect(await committed(one, patients, gone, EVENTS)).toMatchObject({ changed: 0, deleted: 1 })
    expect(await dumpStream(one, patients, 1)).toEqual(before)
  })

  test('are changed when a greater state replaces them, and only then', async () => {
    const same = person('same', { seen: 9, name: 'x' })
    const stored = [person('a', { seen: 1 }), person('b', { seen: 50 }), same]
    await committed(one, patients, stored, { kind: 'empty' })
    await rowsOf(one, `update intake_raw.records set changed_at = '2020-01-01', change_seq = 1`)
    const incoming = ['a', 'b'].map((id) => person(id, { seen: 9, name: 'x' }))
    const { changed, conflicts } = await committed(one, patients, [...incoming, same], EVENTS)
    // One that comes again as it is stored is no change, and in no conflict.
    expect([changed, conflicts]).toEqual([1, [{ teamId: 1, id: 'b' }]])
    expect(
      await rowsOf(
        one,
        `select id, change_seq > 1 as numbered, changed_at > '2020-01-02' as dated from intake_raw.records order by id`,
      ),
    ).toEqual([
      { id: 'a', numbered: true, dated: true },
      { id: 'b', numbered: false, dated: false },
      { id: 'same', numbered: false, dated: false },
    ])
  })

  test('several merges in one transaction count only their own records', async () => {
    await one.client.query('begin')
    const counts: WriteResult[] = []
    for (const id of ['a', 'b', 'c'])
      counts.push(await write(one, patients, [person(id, { seen: 1 })], EVENTS))
    counts.push(await write(one, patients, [person('d', { seen: 1, gone: true })], EVENTS))
    await one.client.query('commit')
    expect(counts.map(({ changed, deleted }) => [changed, deleted])).toEqual([
      [1, 0],
      [1, 0],
      [1, 0],
      [0, 1],
    ])
  })
})

describe('concurrent sessions', () => {
  test('a page that waited while an event was loaded is compared with the state that the event left', async () => {
    await committed(one, patients, [person('a', { seen: 1 })], { kind: 'empty' })
    const [{ now }] = (await rowsOf<{ now: string }>(one, 'select clock_timestamp()::text as now')) as [
      { now: string },
    ]
    await one.client.query('begin')
    await write(one, patients, [person('a', { seen: 20, name: 'event' })], EVENTS)
    const page = committed(two, patients, [person('a', { seen: 30, name: 'page', origin: 'run:1 page:1' })], {
      kind: 'pages',
      requestedAt: now,
    })
    await waitsForLock(one, 'merge two')
    await one.client.query('commit')
    expect(await page).toMatchObject({ changed: 1, conflicts: [{ teamId: 1, id: 'a' }] })
    expect(await shown(one)).toEqual([{ team_id: 1, id: 'a', last_name: 'page' }])
  })

  test('an event that waited loses to what was loaded in between, and reports it', async () => {
    await committed(one, patients, [person('a', { seen: 1 })], { kind: 'empty' })
    await one.client.query('begin')
    await write(one, patients, [person('a', { seen: 40, name: 'later' })], EVENTS)
    const event = committed(two, patients, [person('a', { seen: 30, name: 'earlier' })], EVENTS)
    await waitsForLock(one, 'merge two')
    await one.client.query('commit')
    expect(await event).toMatchObject({ changed: 0, conflicts: [{ teamId: 1, id: 'a' }] })
    expect(await shown(one)).toEqual([{ team_id: 1, id: 'a', last_name: 'later' }])
  })

  test.each([
    ['later', 40, 'first'],
    ['earlier', 20, 'second'],
  ])(
    'a record that both insert conflicts, and the greater state stays (the first is %s)',
    async (_, seen, stays) => {
      await one.client.query('begin')
      await write(one, patients, [person('a', { seen, name: 'first' })], EVENTS)
      const second = committed(
        two,
        patients,
        [person('a', { seen: 30, name: 'second' }), person('b', { seen: 1 })],
        EVENTS,
      )
      await waitsForLock(one, 'merge two')
      await one.client.query('commit')
      expect(await second).toMatchObject({ conflicts: [{ teamId: 1, id: 'a' }] })
      expect((await shown(one))[0]).toEqual({ team_id: 1, id: 'a', last_name: stays })
      expect(await rowsOf(one, `select name from intake.patient_tags where patient_id = 'a'`)).toEqual([
        { name: stays },
        { name: stays },
      ])
    },
  )

  test('two that lock the same records in any order wait for each other and finish', async () => {
    const ids = Array.from({ length: 40 }, (_, n) => `p${n}`)
    await committed(
      one,
      patients,
      ids.map((id) => person(id, { seen: 1 })),
      { kind: 'empty' },
    )
    const writeAll = async (session: Session, order: readonly string[], name: string) => {
      for (let round = 2; round < 12; round++)
        await committed(
          session,
          patients,
          order.map((id) => person(id, { seen: round, name: `${name} ${round}` })),
          EVENTS,
        )
    }
    await Promise.all([writeAll(one, ids, 'one'), writeAll(two, [...ids].reverse(), 'two')])
    expect(
      new Set(
        (await rowsOf<{ v: string }>(one, 'select _version::text as v from intake.patients')).map(
          ({ v }) => v,
        ),
      ).size,
    ).toBe(1)
  })
})

describe('records that only events bring', () => {
  const packet = (seen: number, updated: number | null, is_queued = false, teamId = 1): Envelope =>
    recordEnvelope(
      {
        id: 'k',
        is_submitted: false,
        is_queued,
        responses: [`m${seen}`],
        ...(updated === null ? {} : { updated_at: at(updated * 1e6) }),
      },
      { teamId, stream: 'packet_responses', observedAt: at(seen * 1e6), origin: `event:${seen}` },
    )
  const gone = (seen: number): Envelope =>
    tombstoneEnvelope('k', { teamId: 1, stream: 'packet_responses', observedAt: at(seen * 1e6) })
  const members = () =>
    rowsOf<{ id: string }>(one, 'select response_id as id from intake.packet_response_members')

  test.each<[string, readonly Envelope[], string | null]>([
    ['the one updated later stays, though its event was sent earlier', [packet(10, 5), packet(20, 4)], 'm10'],
    ['of two updated at one time the one sent later', [packet(10, 5), packet(20, 5)], 'm20'],
    ['without stamps the one sent later', [packet(10, null), packet(20, null)], 'm20'],
    ['a deletion that was sent later stays', [packet(10, 5), gone(20)], null],
    ['one sent after a deletion undoes it, whatever its stamp', [packet(20, 5), gone(10)], 'm20'],
  ])('%s', async (_, states, stays) => {
    for (const order of [states, [...states].reverse()]) {
      await one.client.query(
        'truncate intake_raw.records, intake.packet_responses, intake.packet_response_members',
      )
      for (const state of order) await committed(one, packetResponses, [state], EVENTS)
      expect((await members()).map(({ id }) => id)).toEqual(stays === null ? [] : [stays])
    }
  })

  test('a delete does not win over a record that an older event shows but that was seen later', async () => {
    for (const state of [packet(20, 3), packet(10, 5), gone(15)])
      await committed(one, packetResponses, [state], EVENTS)
    expect((await members()).map(({ id }) => id)).toEqual(['m10'])
    expect(await rowsOf(one, 'select _version::text as v from intake.packet_responses')).toEqual([
      { v: '2026-01-01 12:00:20+00' },
    ])
  })
})
