/** The promises of every stream, on a real Postgres, for every fixture of every declared stream. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Envelope } from '../../src/core/envelope.ts'
import { parseText } from '../../src/core/json.ts'
import { withoutUnchanged } from '../../src/load/merge/skip-unchanged.ts'
import { ALL_STREAMS } from '../../src/streams/catalogue.ts'
import type { Stream } from '../../src/streams/stream.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { loadEnvelopes, rowsOf, takeWhole } from '../load/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { at } from '../support/envelopes.ts'
import { dumpStream } from '../support/tables.ts'
import { often } from '../support/thorough.ts'
import { bodyOf, envelopesOf, type Fixture, readFixture, SEEN, tombstonesOf } from './fixture.ts'
import { FIXTURES } from './fixtures/all.ts'
import { expectedState, physicalRows, rootAsJson, stateOf } from './tables.ts'

let database: TestDatabase
let session: Session
let nextTeam = 1

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'contract' })
})

afterAll(async () => {
  await session.close()
  await database.drop()
})

async function load(stream: Stream, envelopes: readonly Envelope[], mode: 'straight' | 'merge') {
  const teamId = envelopes[0]!.teamId
  return loadEnvelopes(session, stream, envelopes, { mode, taken: await takeWhole(session, stream, teamId) })
}

const afterwards = (seconds: number) => at(seconds * 1_000_000)

const withMore = (value: unknown) => ({ ...(value as object), changed_since: 1 })

test('every declared stream has fixtures', () => {
  expect(ALL_STREAMS.filter((stream) => (FIXTURES[stream.name] ?? []).length === 0)).toEqual([])
})

describe.each(ALL_STREAMS.map((stream) => ({ name: stream.name, stream })))('$name', ({ name, stream }) => {
  const fixtures = FIXTURES[name]!
  const loading = fixtures.filter((fixture) => !('dead' in fixture.expected))
  // Every stream loads a text of a megabyte; its later handling is equal for all, and tested with patients.
  const handy = name === 'patients' ? loading : loading.filter((fixture) => bodyOf(fixture).length < 100_000)
  // An entry of a log has its own time, whenever it is read, and is never deleted.
  const isLog = stream.entryAt !== undefined
  const setAside = fixtures.filter((fixture) => 'dead' in fixture.expected)

  describe('a record loads as its fixture says', () => {
    const teamId = nextTeam++
    let states: ReadonlyMap<string, unknown>

    beforeAll(async () => {
      await load(stream, envelopesOf(stream, loading, teamId), 'straight')
      states = await stateOf(session, stream, teamId)
    })

    test.each(loading.map((fixture) => ({ variant: fixture.name, fixture })))('$variant', ({ fixture }) => {
      const { id, state } = expectedState(stream, fixture)
      expect(states.get(id)).toEqual(state)
    })

    test('and the warehouse has no other record', () => {
      expect([...states.keys()].sort()).toEqual(loading.map((each) => expectedState(stream, each).id).sort())
    })
  })

  test.each(setAside.map((fixture) => ({ variant: fixture.name, fixture })))(
    'a record without a key becomes a dead letter: $variant',
    ({ fixture }) => {
      const { dead } = fixture.expected as { dead: string }
      expect(readFixture(stream, fixture, 1)).toMatchObject({ kind: 'dead', deadLetter: { reason: dead } })
    },
  )

  test('records loaded again are unchanged, and nothing is written', async () => {
    const teamId = nextTeam++
    await load(stream, envelopesOf(stream, loading, teamId), 'straight')
    const before = await physicalRows(session, stream, teamId)
    const again = envelopesOf(stream, loading, teamId, afterwards(60))
    expect(await withoutUnchanged(session, stream, again)).toEqual([])
    expect(await physicalRows(session, stream, teamId)).toEqual(before)
    expect(
      await rowsOf(session, 'select 1 from intake_raw.record_history where team_id = $1', [teamId]),
    ).toEqual([])
  })

  test('one changed record among unchanged ones is the only one that is written', async () => {
    const teamId = nextTeam++
    await load(stream, envelopesOf(stream, handy, teamId), 'straight')
    const before = await rootAsJson(session, stream, teamId)
    const [first, ...rest] = handy
    const again = [
      ...envelopesOf(stream, [first!], teamId, afterwards(60), withMore),
      ...envelopesOf(stream, rest, teamId, afterwards(60)),
    ]
    const left = await withoutUnchanged(session, stream, again)
    expect(left.map((envelope) => envelope.id)).toEqual([again[0]!.id])
    expect(await load(stream, left, 'merge')).toMatchObject({ changed: 1, deleted: 0, conflicts: [] })
    const after = await rootAsJson(session, stream, teamId)
    expect([...after].filter(([id, row]) => before.get(id) !== row).map(([id]) => id)).toEqual([again[0]!.id])
  })

  // Of 120 records, fifteen batches; with TEST_THOROUGH=1, one batch for each.
  test('records loaded straight, merged, or merged backwards by one, two, three … end in the same tables', async () => {
    const [straight, merged, backwards] = [nextTeam++, nextTeam++, nextTeam++]
    await load(stream, envelopesOf(stream, handy, straight), 'straight')
    await load(stream, envelopesOf(stream, handy, merged), 'merge')
    const left = [...envelopesOf(stream, handy, backwards)]
    for (let size = 1; left.length > 0; size += often(1, 0))
      await load(stream, left.splice(-size).toReversed(), 'merge')
    const expected = await dumpStream(session, stream, straight)
    expect(await dumpStream(session, stream, merged)).toEqual(expected)
    expect(await dumpStream(session, stream, backwards)).toEqual(expected)
  })

  test.skipIf(isLog)(
    'a tombstone empties the row, an older record does not restore it, a newer one does',
    async () => {
      const [teamId, fresh] = [nextTeam++, nextTeam++]
      const envelopes = envelopesOf(stream, handy, teamId)
      await load(stream, envelopes, 'straight')
      expect(await load(stream, tombstonesOf(envelopes, afterwards(3600)), 'merge')).toMatchObject({
        changed: 0,
        deleted: envelopes.length,
      })
      const gone = await rootAsJson(session, stream, teamId)
      expect(gone.size).toBe(envelopes.length)
      for (const row of gone.values()) {
        const { team_id, id, _origin, _loaded_at, _version, _deleted_at, ...data } = JSON.parse(row)
        expect(_deleted_at).toBe('2026-01-01T13:00:00+00:00')
        expect(_version).toBe(_deleted_at)
        expect(Object.values(data).filter((value) => value !== null)).toEqual([])
      }
      for (const { table } of stream.children) {
        expect(await rowsOf(session, `select 1 from intake.${table} where team_id = $1`, [teamId])).toEqual(
          [],
        )
      }

      const older = envelopesOf(stream, handy, teamId, afterwards(1800))
      expect(await load(stream, older, 'merge')).toMatchObject({ changed: 0, deleted: 0 })
      expect(await rootAsJson(session, stream, teamId)).toEqual(gone)

      await load(stream, envelopesOf(stream, handy, teamId, afterwards(7200)), 'merge')
      await load(stream, envelopesOf(stream, handy, fresh, afterwards(7200)), 'straight')
      expect(await dumpStream(session, stream, teamId)).toEqual(await dumpStream(session, stream, fresh))
    },
  )

  test('a tombstone of an unknown record leaves a row', async () => {
    const teamId = nextTeam++
    await load(stream, tombstonesOf(envelopesOf(stream, loading.slice(0, 1), teamId), SEEN), 'merge')
    const [row] = [...(await rootAsJson(session, stream, teamId)).values()]
    expect(JSON.parse(row!)).toMatchObject({ _deleted_at: '2026-01-01T12:00:00+00:00', _hash: null })
  })

  test('history gets each superseded content once, and none for a mere change of version', async () => {
    const teamId = nextTeam++
    const history = () =>
      rowsOf<{ id: string; version: string; deleted: boolean }>(
        session,
        'select id, version::text, deleted from intake_raw.record_history where team_id = $1 order by version, id collate "C"',
        [teamId],
      )
    const first = envelopesOf(stream, handy, teamId)
    await load(stream, first, 'merge')
    await load(stream, envelopesOf(stream, handy, teamId, afterwards(600)), 'merge')
    expect(await history()).toEqual([])

    const changed = envelopesOf(stream, handy, teamId, afterwards(1200), withMore)
    for (const repeated of [changed, changed, first]) await load(stream, repeated, 'merge')
    const once = await history()
    expect(once.map((row) => row.id).sort()).toEqual(first.map((envelope) => envelope.id).sort())
    if (isLog) return
    expect(new Set(once.map((row) => row.version))).toEqual(new Set(['2026-01-01 12:10:00+00']))

    await load(stream, tombstonesOf(first, afterwards(1800)), 'merge')
    expect((await history()).length).toBe(2 * first.length)
    await load(stream, envelopesOf(stream, handy, teamId, afterwards(2400)), 'merge')
    expect((await history()).filter((row) => row.deleted).length).toBe(first.length)
  })

  test('the payload is kept as received, except for characters that cannot be stored', async () => {
    const teamId = nextTeam++
    const envelopes = envelopesOf(stream, loading, teamId)
    await load(stream, envelopes, 'straight')
    const rows = await rowsOf<{ id: string; payload: string; same: boolean }>(
      session,
      `select id, r.payload::text, r.payload = sent.payload as same
         from unnest($2::text[], $3::jsonb[]) as sent (id, payload) join intake_raw.records r using (id)
         where team_id = $1`,
      [teamId, envelopes.map((envelope) => envelope.id), envelopes.map((envelope) => envelope.content!.text)],
    )
    expect(rows.map((row) => row.id).sort()).toEqual(envelopes.map((envelope) => envelope.id).sort())
    expect(rows.filter((row) => !row.same)).toEqual([])
    for (const row of rows) expect(parseText(row.payload)).toBeTypeOf('object')
  })

  test('findings add up in intake_ops, by path and never by value', async () => {
    const teamId = nextTeam++
    await load(stream, envelopesOf(stream, loading, teamId), 'straight')
    const total = (pick: (fixture: Fixture) => number) => loading.reduce((sum, each) => sum + pick(each), 0)
    for (const [table, key] of [
      ['problems', 'problems'],
      ['drift', 'drift'],
    ] as const) {
      const [{ sum }] = (await rowsOf<{ sum: string }>(
        session,
        `select coalesce(sum(count), 0)::text as sum from intake_ops.${table} where team_id = $1 and stream = $2`,
        [teamId, stream.name],
      )) as [{ sum: string }]
      const expected = total((each) => ('dead' in each.expected ? 0 : (each.expected[key]?.length ?? 0)))
      expect(Number(sum)).toBe(expected)
    }
  })
})
