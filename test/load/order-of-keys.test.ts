/** The order in which loads lock and write rows: that of the keys, so that two of them never wait for each other. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Envelope } from '../../src/core/envelope.ts'
import { claimSlices } from '../../src/load/claims.ts'
import { recordFindings } from '../../src/load/dead-letters.ts'
import { countSkipped, hashesOf, noteErased } from '../../src/load/erasures.ts'
import { prepareStaging, writeBatch } from '../../src/load/merge/write-batch.ts'
import { requestRefetches } from '../../src/load/refetches.ts'
import { insertRun } from '../../src/load/slice.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { countFinding, linesOf, noFindings } from '../../src/normalize/lines.ts'
import { patients } from '../../src/streams/patients.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { at, recordEnvelope } from '../support/envelopes.ts'
import { rowsOf, waitsForLock } from './loading.ts'

let database: TestDatabase
let one: Session
let two: Session

beforeAll(async () => {
  database = await createTestDatabase()
  one = await openSession({ url: database.url, purpose: 'merge one' })
  two = await openSession({ url: database.url, purpose: 'merge two' })
  for (const name of ['north', 'south']) await teamIdOf(one.db, name)
  await prepareStaging(one, patients)
})

afterAll(async () => {
  await one.close()
  await two.close()
  await database.drop()
})

/** Teams and ids, or what else is the key of a row. */
const KEYS = [
  [2, 'b'],
  [1, 'c'],
  [2, 'a'],
  [1, 'a'],
  [1, 'b'],
] as const

function person([teamId, id]: (typeof KEYS)[number], seconds: number): Envelope {
  const made = { teamId, stream: 'patients', observedAt: at(seconds * 1e6), origin: 'event:e' } as const
  return recordEnvelope({ id, last_name: `seen ${seconds}` }, made)
}

async function merge(seconds: number): Promise<void> {
  const lines = linesOf(
    patients,
    KEYS.map((key) => person(key, seconds)),
  )
  await one.client.query('begin')
  await writeBatch(one, { stream: patients, lines, from: { kind: 'events' } })
  await one.client.query('commit')
}

async function find(): Promise<void> {
  const findings = noFindings()
  for (const [teamId, path] of KEYS) {
    countFinding(findings.problemsAt, teamId, path, 'r')
    countFinding(findings.driftAt, teamId, path, 't')
  }
  await recordFindings(one.db, 'patients', findings)
}

const request = () =>
  requestRefetches(
    one.db,
    KEYS.map(([teamId, id]) => ({
      ...{ teamId, stream: 'forms', id, reason: 'partial', origin: 'event:e', since: null },
    })),
  )

async function claim(): Promise<void> {
  const streams = { a: 'forms', b: 'packets', c: 'patients' } as const
  const parts = KEYS.map(([teamId, id]) => ({ teamId, stream: streams[id] }))
  await one.db.transaction().execute((db) => insertRun(db, {}, {}, parts))
  const claiming = { owner: 'host:1:aaaaaaa1', teams: ['north', 'south'], streams: Object.values(streams) }
  expect(await claimSlices(one.db, { ...claiming, most: 5 })).toHaveLength(5)
}

/** The hashes of five ids, which have another order than the ids. */
async function erase(known: boolean): Promise<void> {
  await rowsOf(one, 'delete from intake_ops.erasures')
  // Of a team without records.
  const erasures = await hashesOf(one.db, 9)
  const subjects = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ stream: 'patients', id }))
  if (known) await noteErased(one.db, erasures, 'a', subjects)
  else {
    const [patient, ...hashes] = subjects.map(erasures.hashOf) as [string, ...string[]]
    await countSkipped(
      one.db,
      erasures,
      [patient, ...hashes].map((hash) => ({ hash, patient, times: 1 })),
    )
  }
}

test.each<[string, () => Promise<unknown>, Readonly<Record<string, string>>]>([
  ['erased records', () => erase(true), { 'intake_ops.erasures': `encode(hash, 'hex')` }],
  ['records that are skipped', () => erase(false), { 'intake_ops.erasures': `encode(hash, 'hex')` }],
  ['records that are merged', () => merge(1), { 'intake_raw.records': 'id', 'intake.patients': 'id' }],
  ['problems and drift', find, { 'intake_ops.problems': 'path', 'intake_ops.drift': 'path' }],
  ['records that are to be fetched', request, { 'intake_ops.refetches': 'id' }],
  ['checkpoints of the slices of a worker', claim, { 'intake_ops.checkpoints': 'stream' }],
])('%s are written in the order of teams and keys, in whatever order they come', async (_, write, tables) => {
  await write()
  for (const [table, key] of Object.entries(tables)) {
    const keys = await rowsOf<{ key: string }>(
      one,
      `select team_id || ' ' || ${key} as key from ${table} order by ctid`,
    )
    expect(keys, table).toHaveLength(KEYS.length)
    expect(keys, table).toEqual([...keys].sort((a, b) => (a.key < b.key ? -1 : 1)))
  }
})

test('records that are stored are locked in that order before any of them is compared', async () => {
  await merge(2)
  const records = 'select team_id, id from intake_raw.records'
  await two.client.query('begin')
  await rowsOf(two, `${records} where (team_id, id) = (1, 'c') for update`)
  const merging = merge(3)
  await waitsForLock(two, 'merge one')
  // Those that nobody else has locked.
  expect(await rowsOf(two, `${records} order by 1, 2 for update skip locked`)).toEqual([
    { team_id: 1, id: 'c' },
    { team_id: 2, id: 'a' },
    { team_id: 2, id: 'b' },
  ])
  await two.client.query('commit')
  await merging
  expect(await rowsOf(one, 'select distinct last_name from intake.patients')).toEqual([
    { last_name: 'seen 3' },
  ])
})
