/** Every state in which a record that is read can find the stored one: whether it is skipped, new, or gets another time. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { Envelope } from '../../../src/core/envelope.ts'
import { type Instant, instantOf, laterOf, microsOf } from '../../../src/core/time.ts'
import { placesChanged, storedVersions, withoutUnchanged } from '../../../src/load/merge/skip-unchanged.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { patients } from '../../../src/streams/patients.ts'
import { webhookDeliveries as log } from '../../../src/streams/webhook-deliveries.ts'
import { noonPlus, openScene, patientEvent, type Scene } from '../../ingest/drain/scene.ts'
import { recordEnvelope, tombstoneEnvelope } from '../../support/envelopes.ts'
import { loadEnvelopes, takeWhole } from '../loading.ts'

let scene: Scene
let other = 0
beforeAll(async () => {
  scene = await openScene()
  other = await teamIdOf(scene.session.db, 'other')
})
afterAll(() => scene[Symbol.asyncDispose]())
beforeEach(() =>
  scene.rows('truncate intake_raw.records, intake_raw.inbox, intake.patients, intake_ops.pruned_logs'),
)

const STORED = [
  'nothing',
  'the same',
  'other content',
  'gone',
  'of another team',
  'of another stream',
] as const
const PENDING = [
  'no event',
  'a pending one',
  'one of another team',
  'of another source',
  'a done one',
  'a dead one',
] as const

test('a record is skipped only where the same is stored, not as gone, and no event of it is pending', async () => {
  const cases = STORED.flatMap((stored) =>
    PENDING.map((pending) => ({ id: `${stored}, ${pending}`, stored, pending })),
  )
  const read = (id: string, name: string, seconds: number, teamId = scene.teamId) =>
    recordEnvelope({ id, last_name: name }, { teamId, stream: 'patients', observedAt: noonPlus(seconds) })
  const kept = (which: (typeof STORED)[number], state: (id: string) => Envelope) =>
    cases.filter(({ stored }) => stored === which).map(({ id }) => state(id))
  const load = async (teamId: number, states: readonly Envelope[]) => {
    const taken = await takeWhole(scene.session, patients, teamId)
    await loadEnvelopes(scene.session, patients, states, { mode: 'merge', taken })
  }
  const gone = (id: string) =>
    tombstoneEnvelope(id, { teamId: scene.teamId, stream: 'patients', observedAt: noonPlus(1) })
  const moved = kept('of another stream', (id) => read(id, 'Same', 1))
  await load(scene.teamId, moved)
  await scene.rows(`update intake_raw.records set stream = 'forms'`)
  await load(
    scene.teamId,
    kept('the same', (id) => read(id, 'Same', 1)),
  )
  await load(
    scene.teamId,
    kept('other content', (id) => read(id, 'Other', 1)),
  )
  await load(
    scene.teamId,
    kept('gone', (id) => read(id, 'Same', 0)),
  )
  // With the hash of what was deleted, as an older version stores it.
  await load(scene.teamId, kept('gone', gone))
  for (const { id, stored } of cases) {
    if (stored !== 'gone') continue
    const { hash } = read(id, 'Same', 0).content!
    await scene.rows(`update intake_raw.records set hash = decode($2, 'hex') where id = $1`, [id, hash])
  }
  await load(
    other,
    kept('of another team', (id) => read(id, 'Same', 1, other)),
  )
  for (const { id, pending } of cases) {
    if (pending === 'no event') continue
    const source = pending === 'of another source' ? 'form' : 'patient'
    const teamId = pending === 'one of another team' ? other : scene.teamId
    await scene.store([patientEvent(id, 2, {}, { id: `event of ${id}`, source })], { teamId })
  }
  for (const state of ['done', 'dead'])
    await scene.rows(`update intake_raw.inbox set status = $1 where record_id like $2`, [
      state,
      `%, a ${state} one`,
    ])
  const expected = cases.filter(({ stored, pending }) => stored !== 'the same' || pending === 'a pending one')
  const states = cases.map(({ id }) => read(id, 'Same', 9))
  const left = await withoutUnchanged(scene.session, patients, states)
  expect(left.map(({ id, isNew }) => `${id}${isNew ? ': new' : ''}`)).toEqual(
    expected.map(({ id, stored }) => {
      const isNew = ['nothing', 'of another team', 'of another stream'].includes(stored)
      return isNew ? `${id}: new` : id
    }),
  )
  for (const { isNew: _, ...envelope } of left) expect(states).toContainEqual(envelope)
  const known = states.map(({ id, content }) => ({ id, hash: content!.hash }))
  const places = await placesChanged(scene.session, patients, scene.teamId, known)
  expect(places.map((place) => cases[place]!.id)).toEqual(expected.map(({ id }) => id))
  const place = { teamId: scene.teamId, stream: 'patients' }
  const versions = await storedVersions(
    scene.session.db,
    place,
    cases.map(({ id }) => id),
  )
  expect(new Map([...versions].sort())).toEqual(
    new Map(
      cases
        .filter(({ stored }) => ['the same', 'other content', 'gone'].includes(stored))
        .map(({ id, stored }) => [id, { version: noonPlus(1), deleted: stored === 'gone' }] as const)
        .sort(),
    ),
  )
})

test('an entry of a log goes by its own time, or is later than what an earlier run stored under the same one', async () => {
  const ORIGINS = ['run:1 page:1', 'run:12 page:1', 'run:2 page:1']
  const DATES = [null, 9, 10, 11]
  const SEEN = [49, 50, 51]
  const entry = (id: string, date: number | null, status: string, seen: number, origin: string) =>
    recordEnvelope(
      { id, status, ...(date === null ? {} : { created_at: noonPlus(date) }) },
      { teamId: scene.teamId, stream: log.name, observedAt: noonPlus(seen), origin },
    )
  const pairs = ORIGINS.flatMap((origin) =>
    [null, 10].flatMap((before) =>
      DATES.flatMap((date) =>
        SEEN.map((seen) => {
          const id = `${origin} ${before} ${date} ${seen}`
          return {
            stored: entry(id, before, 'a', 50, origin),
            read: entry(id, date, 'b', seen, 'run:1 page:3'),
          }
        }),
      ),
    ),
  )
  const taken = await takeWhole(scene.session, log, scene.teamId)
  const states = pairs.map(({ stored }) => stored)
  await loadEnvelopes(scene.session, log, states, { mode: 'merge', taken })
  const isOwn = ({ origin }: Envelope) => origin.startsWith('run:1 ')
  const isDated = ({ version, observedAt }: Envelope) => version !== observedAt
  const after = (a: Instant) => instantOf(microsOf(a) + 1)
  const expected = pairs
    // Of one run, and of dated entries, the later one stays.
    .filter(({ stored, read }) => !(stored.version > read.version && (isOwn(stored) || isDated(read))))
    .map(({ stored, read }) => {
      if (isOwn(stored) || (isDated(read) && read.version !== stored.version)) return read
      const observedAt = laterOf(read.observedAt, after(laterOf(stored.version, stored.observedAt)))
      return { ...read, observedAt, version: isDated(read) ? read.version : observedAt }
    })
  const reads = pairs.map(({ read }) => read)
  const left = await withoutUnchanged(scene.session, log, reads)
  expect(left).toEqual(expected.map((envelope) => ({ ...envelope, isNew: false })))
  // An entry that is read as it is stored is skipped, whenever it is read.
  const again = states.map((state) => ({ ...state, observedAt: noonPlus(99), origin: 'run:1 page:3' }))
  expect(await withoutUnchanged(scene.session, log, again)).toEqual([])
  expect(await withoutUnchanged(scene.session, log, [])).toEqual([])
})
