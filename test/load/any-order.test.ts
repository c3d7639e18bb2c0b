/**
 * Law 2 on the real SQL: any order, repetition and interleaving ends in the same tables. Each run tries the same 60 and 20 cases;
 * TEST_THOROUGH=1 draws 600 and 200.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Envelope, supersedes } from '../../src/core/envelope.ts'
import { type Batch, type LoadMode, loadBatch } from '../../src/load/merge/load.ts'
import { withoutUnchanged } from '../../src/load/merge/skip-unchanged.ts'
import { type TakenSlice, takeSlice } from '../../src/load/slice.ts'
import { linesOf } from '../../src/normalize/lines.ts'
import { patients } from '../../src/streams/patients.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { at, recordEnvelope, tombstoneEnvelope } from '../support/envelopes.ts'
import { dumpStream } from '../support/tables.ts'
import { often } from '../support/thorough.ts'

let database: TestDatabase
let one: Session
let two: Session

beforeAll(async () => {
  database = await createTestDatabase()
  one = await openSession({ url: database.url, purpose: 'test one' })
  two = await openSession({ url: database.url, purpose: 'test two' })
})

afterAll(async () => {
  await one.close()
  await two.close()
  await database.drop()
})

/** One state of one of a few patients; few distinct times, so that ties are frequent. */
const state = fc.record({
  id: fc.constantFrom('a', 'b', 'c'),
  seen: fc.integer({ min: 0, max: 3 }),
  updated: fc.option(fc.integer({ min: 0, max: 4 }), { nil: null, freq: 1 }),
  name: fc.constantFrom('Ann', 'Bo'),
  tags: fc.constantFrom(0, 2),
  gone: fc.boolean(),
})

type State = typeof state extends fc.Arbitrary<infer T> ? T : never

/** Any number of deliveries of these states, in any order, cut into batches over two connections. */
const deliveries = fc.array(state, { minLength: 1, maxLength: 6 }).chain((states) =>
  fc.record({
    states: fc.constant(states),
    order: fc.array(fc.nat({ max: states.length - 1 }), { maxLength: 12 }),
    cuts: fc.array(
      fc.record({ size: fc.integer({ min: 1, max: 4 }), second: fc.boolean(), straight: fc.boolean() }),
      {
        minLength: 1,
        maxLength: 6,
      },
    ),
  }),
)

let nextTeam = 1

function envelopeOf(s: State, teamId: number): Envelope {
  const made = { teamId, stream: 'patients' as const, observedAt: at(s.seen) }
  if (s.gone) return tombstoneEnvelope(s.id, made)
  const record = {
    id: s.id,
    first_name: s.name,
    emergency_contact: s.tags > 0 ? { first_name: s.name } : null,
    patient_tags: Array.from({ length: s.tags }, () => ({ name: s.name, color: '#000000' })),
    ...(s.updated === null ? {} : { updated_at: at(s.updated) }),
  }
  return recordEnvelope(record, made)
}

function greatestOfEach(envelopes: readonly Envelope[]): readonly Envelope[] {
  const greatest = new Map<string, Envelope>()
  for (const envelope of envelopes) {
    const current = greatest.get(envelope.id)
    if (current === undefined || supersedes(envelope, current)) greatest.set(envelope.id, envelope)
  }
  return [...greatest.values()]
}

function take(teamId: number): Promise<TakenSlice> {
  return takeSlice(one.db, { teamId, stream: 'patients', slice: '' }, '1')
}

async function load(session: Session, taken: TakenSlice, envelopes: readonly Envelope[], mode: LoadMode) {
  const lines = linesOf(patients, greatestOfEach(envelopes))
  const batch: Batch = { stream: patients, taken, lines, deadLetters: [] }
  // Two connections with the same keys may deadlock; Postgres ends one and the loaders retry.
  for (let tries = 1; ; tries++) {
    try {
      return await loadBatch(session, batch, mode)
    } catch (error) {
      if ((error as { code?: string }).code !== '40P01' || tries === 5) throw error
    }
  }
}

test('any permutation, repetition and interleaving of batches over two connections ends in the same tables', async () => {
  await fc.assert(
    fc.asyncProperty(deliveries, async ({ states, order, cuts }) => {
      const [shuffledTeam, freshTeam] = [nextTeam++, nextTeam++]
      const all = states.map((s) => envelopeOf(s, shuffledTeam))
      // Every state is delivered at least once, after the drawn order.
      const delivered = [...order.map((index) => all[index]!), ...all]
      const taken = await take(shuffledTeam)
      const chains: [Promise<unknown>, Promise<unknown>] = [Promise.resolve(), Promise.resolve()]
      for (let from = 0, cut = 0; from < delivered.length; cut++) {
        const { size, second, straight } = cuts[cut % cuts.length]!
        const part = delivered.slice(from, from + size)
        const side = second ? 1 : 0
        chains[side] = chains[side].then(() =>
          load(second ? two : one, taken, part, straight ? 'straight' : 'merge'),
        )
        from += size
      }
      await Promise.all(chains)

      const winners = greatestOfEach(states.map((s) => envelopeOf(s, freshTeam)))
      await load(one, await take(freshTeam), winners, 'straight')
      expect(await dumpStream(one, patients, shuffledTeam)).toEqual(
        await dumpStream(one, patients, freshTeam),
      )
    }),
    { numRuns: often(60, 600) },
  )
})

test('records read one after the other leave the same contents, whether or not unchanged ones are skipped', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(state, { minLength: 1, maxLength: 8 }), async (states) => {
      const [skippingTeam, mergingTeam] = [nextTeam++, nextTeam++]
      // As from a source: later reads are observed later, and show no update from after the read.
      const reads = states.map((s, place) => ({ ...s, seen: place + 5 }))
      for (const [teamId, mode] of [
        [skippingTeam, 'skip'],
        [mergingTeam, 'merge'],
      ] as const) {
        const taken = await take(teamId)
        for (const read of reads) {
          const envelopes = [envelopeOf(read, teamId)]
          const left = mode === 'skip' ? await withoutUnchanged(one, patients, envelopes) : envelopes
          if (left.length > 0) await load(one, taken, left, 'merge')
        }
      }
      const contents = async (teamId: number) =>
        (await dumpStream(one, patients, teamId)).map((line) =>
          line.replace(/"(_version|version|observed_at|_deleted_at)": "[^"]*"/g, '"$1"'),
        )
      expect(await contents(skippingTeam)).toEqual(await contents(mergingTeam))
    }),
    { numRuns: often(20, 200) },
  )
})
