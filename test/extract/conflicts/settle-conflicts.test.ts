/** Conflicts within a run: each record is fetched, and the answer decides, at the latest in the fourth round. */
import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { type Instant, instantOf } from '../../../src/core/time.ts'
import {
  type FetchedStates,
  refetch,
  settleConflicts,
} from '../../../src/extract/conflicts/settle-conflicts.ts'
import type { Source } from '../../../src/extract/source.ts'
import { streamNamed } from '../../../src/streams/catalogue.ts'
import { patients } from '../../../src/streams/patients.ts'
import { loadEnvelopes, takeWhole } from '../../load/loading.ts'
import { recordEnvelope, tombstoneEnvelope } from '../../support/envelopes.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
let pauses: number[]
let said: object[]
beforeEach(async () => {
  rig = await openRig()
  pauses = []
  said = []
})
afterEach(() => rig[Symbol.asyncDispose]())

/** Pauses that are noted and pass at once. */
const clock: Clock = {
  now: systemClock.now,
  sleep: async (milliseconds, signal) => {
    // A run that is stopped ends each of them.
    expect(signal).toBeInstanceOf(AbortSignal)
    pauses.push(milliseconds)
  },
}
const person = (id: string, first_name: string) => ({ id, first_name })
const fetched = () => rig.service.received.map(({ url }) => url.split('/').at(-1)!)

async function settle(ids: readonly string[], ask: typeof refetch = refetch) {
  const logger = pino({ base: null, timestamp: false }, { write: (line) => void said.push(JSON.parse(line)) })
  const source = await rig.source('patients', { clock, logger })
  source.tally.unchanged = 7
  await settleConflicts(source, rig.session, new Set(ids), ask)
  return source.tally
}

const stored = async (teamId = rig.teamId) => {
  const rows = await rig.rows<{ id: string; name: string | null }>(
    `select id, case when _deleted_at is null then first_name else '(deleted)' end as name from intake.patients
     where team_id = $1 order by id`,
    [teamId],
  )
  return Object.fromEntries(rows.map(({ id, name }) => [id, name]))
}

test('without a conflict nothing is fetched', async () => {
  await settle([])
  expect([fetched(), pauses]).toEqual([[], []])
})

test('each record is fetched once; an answer that differs is loaded, one that does not counts for nothing', async () => {
  await rig.hold('patients', [person('a', 'old'), person('b', 'same'), person('c', 'old')], ago(60))
  await rig.hold('patients', [person('a', 'other team')], ago(60), rig.otherId)
  rig.service.records.patients = [person('a', 'new'), person('b', 'same'), person('c', 'new')]
  const tally = await settle(['a', 'b'])
  expect(fetched().sort()).toEqual(['a', 'b'])
  expect(await stored()).toEqual({ a: 'new', b: 'same', c: 'old' })
  expect(await stored(rig.otherId)).toEqual({ a: 'other team' })
  expect(tally).toMatchObject({ changed: 1, unchanged: 7 })
  expect(pauses).toEqual([])
  const origin = `select id, origin from intake_raw.records where team_id = $1 order by id`
  expect(await rig.rows(origin, [rig.teamId])).toEqual([
    { id: 'a', origin: 'run:1 refetch' },
    { id: 'b', origin: 'run:0 page:1' },
    { id: 'c', origin: 'run:0 page:1' },
  ])
})

test('an answer that loses is fetched again with a pause, three times, and then overrules a state dated ahead', async () => {
  await rig.hold('patients', [person('ahead', 'wrong')], ago(-7_200))
  await rig.hold('patients', [person('usual', 'old')], ago(60))
  rig.service.records.patients = [person('ahead', 'true'), person('usual', 'new')]
  const [before] = await rig.rows<{ version: string }>(
    `select version::text from intake_raw.records where id = 'ahead'`,
  )
  await settle(['ahead', 'usual'])
  expect(fetched().sort()).toEqual(['ahead', 'ahead', 'ahead', 'ahead', 'usual'])
  expect(pauses).toEqual([700, 700, 700])
  expect(await stored()).toEqual({ ahead: 'true', usual: 'new' })
  const msg = 'stored with times ahead of the service; its answer decides'
  expect(said).toEqual([{ level: 40, team: 'north', stream: 'patients', records: 1, msg }])
  const [after] = await rig.rows<{ newer: boolean }>(
    `select version = $1::timestamptz + interval '1 microsecond' as newer from intake_raw.records where id = 'ahead'`,
    [before!.version],
  )
  expect(after).toEqual({ newer: true })
})

/** A state of record `a`. */
const answerOf = (source: Source, first_name: string, observedAt: Instant) =>
  recordEnvelope(person('a', first_name), {
    ...{ teamId: rig.teamId, stream: 'patients' as const, observedAt },
    origin: `run:${source.taken.runId} refetch`,
  })

test('a state that is loaded while the last answer is under way is not overruled by it', async () => {
  await rig.hold('patients', [person('a', 'ahead')], ago(-7_200))
  let rounds = 0
  const ask = async (source: Source): Promise<FetchedStates> => {
    rounds += 1
    const answer = answerOf(source, 'answer', ago(0))
    if (rounds === 4) {
      const states = [answerOf(source, 'meanwhile', ago(-10_800))]
      await loadEnvelopes(rig.session, patients, states, { mode: 'merge', taken: source.taken })
    }
    return { envelopes: [answer], deadLetters: [] }
  }
  await settle(['a'], ask)
  expect(rounds).toBe(4)
  expect(await stored()).toEqual({ a: 'meanwhile' })
})

test('a record that is gone is deleted again only where a page had undone its tombstone', async () => {
  const now = systemClock.now()
  const at = (seconds: number) => instantOf(now - seconds * 1_000_000)
  const load = async (
    teamId: number,
    states: readonly (readonly [id: string, seconds: number, gone: boolean, updated?: number])[],
    stream = patients,
  ) => {
    const taken = await takeWhole(rig.session, stream, teamId)
    for (const [id, seconds, gone, updated = 100] of states) {
      const made = { teamId, stream: stream.name, observedAt: at(seconds) }
      const record = { ...person(id, `at ${seconds}`), updated_at: at(updated) }
      const envelope = gone ? tombstoneEnvelope(id, made) : recordEnvelope(record, made)
      await loadEnvelopes(rig.session, stream, [envelope], { mode: 'merge', taken })
    }
  }
  await load(rig.teamId, [
    ['undone', 60, true],
    ['undone', 30, false],
    ['new since', 90, true],
    ['new since', 60, false],
    ['new since', 30, false],
    ['never deleted', 60, false],
    ['never deleted', 30, false],
    ['one state', 30, false],
    ['deleted as it was read', 60, false],
    ['deleted as it was read', 60, true],
    ['deleted as it was read', 30, false],
    // Read before it was deleted, but dated after it.
    ['dated later', 60, true],
    ['dated later', 90, false, 40],
    ['dated later', 30, false],
  ])
  const deleted = [
    ['never deleted', 60, true],
    ['never deleted', 30, false],
  ] as const
  await load(rig.otherId, deleted)
  await load(rig.teamId, deleted, streamNamed('packets')!)
  const tally = await settle([
    ...['undone', 'new since', 'never deleted', 'one state'],
    ...['deleted as it was read', 'dated later'],
  ])
  expect(await stored()).toEqual({
    undone: '(deleted)',
    'new since': 'at 30',
    'never deleted': 'at 30',
    'one state': 'at 30',
    'deleted as it was read': '(deleted)',
    'dated later': 'at 30',
  })
  expect(await stored(rig.otherId)).toEqual({ 'never deleted': 'at 30' })
  const origins =
    'select id, origin from intake.patients join intake_raw.records using (team_id, id) where _deleted_at is not null and team_id = $1 and stream = $2'
  expect(await rig.rows(`${origins} order by id`, [rig.teamId, 'patients'])).toEqual([
    { id: 'deleted as it was read', origin: 'run:1 refetch' },
    { id: 'undone', origin: 'run:1 refetch' },
  ])
  expect(tally).toMatchObject({ deleted: 2, changed: 0, unchanged: 7 })
  expect(pauses).toEqual([])
})

test('a record that the service refuses becomes a dead letter, and is not fetched again', async () => {
  await rig.hold('patients', [person('a', 'old')], ago(60))
  rig.service.interfere = (_, response) => {
    response.writeHead(422, { 'content-type': 'application/json' }).end('{"detail": "no"}')
    return true
  }
  expect(await settle(['a'])).toMatchObject({ deadLetters: 1, changed: 0 })
  expect(fetched()).toEqual(['a'])
  expect(await stored()).toEqual({ a: 'old' })
})

test('an error that stops the stream is thrown, and the stored states stay', async () => {
  await rig.hold('patients', [person('a', 'old'), person('b', 'old')], ago(60))
  rig.service.interfere = (_, response) => {
    response.writeHead(403, { 'content-type': 'application/json' }).end('{"detail": "no"}')
    return true
  }
  await expect(settle(['a', 'b'])).rejects.toMatchObject({ verdict: 'stop' })
  expect(await stored()).toEqual({ a: 'old', b: 'old' })
})
