/** An unchanged record costs no write, unless an event that waits in the inbox still speaks for it (law 2). */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import type { Envelope } from '../../src/core/envelope.ts'
import { type Instant, instantOf } from '../../src/core/time.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { withoutUnchanged } from '../../src/load/unchanged.ts'
import { forms } from '../../src/streams/forms.ts'
import { patients } from '../../src/streams/patients.ts'
import { noonPlus, openScene, patient, patientEvent, type Scene } from '../ingest/drain/scene.ts'
import { recordEnvelope } from '../support/envelopes.ts'
import { loadEnvelopes, takeWhole } from './loading.ts'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
})

afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

const seen = (id: string, seconds: number, name = 'Other'): Envelope =>
  recordEnvelope(patient(id, { last_name: name }), {
    teamId: scene.teamId,
    stream: 'patients',
    observedAt: noonPlus(seconds),
  })

async function load(envelopes: readonly Envelope[]) {
  const taken = await takeWhole(scene.session, patients, scene.teamId)
  return loadEnvelopes(scene.session, patients, envelopes, { mode: 'merge', taken })
}

/** A page read at this moment, as a scan loads it. */
async function page(envelopes: readonly Envelope[]): Promise<readonly string[]> {
  const left = await withoutUnchanged(scene.session, envelopes)
  if (left.length > 0) await load(left)
  return left.map(({ id }) => id)
}

test('an unchanged record is loaded again while an event of it waits, and left out once that is drained', async () => {
  await load([seen('p1', 1), seen('p2', 1)])
  await scene.store([patientEvent('p1', 2)])
  expect(await page([seen('p1', 5), seen('p2', 5)])).toEqual(['p1'])
  await scene.drain()
  expect(await page([seen('p1', 6), seen('p2', 6)])).toEqual([])
})

test('an event that was sent before a page was read does not undo it, whichever is loaded first', async () => {
  await load([seen('p1', 1, 'new')])
  await scene.store([patientEvent('p1', 2, { last_name: 'old' })])
  // The page says what is held already: left out, its word would not stand above the event's.
  await page([seen('p1', 5, 'new')])
  await scene.drain()
  expect(await scene.rows('select last_name from intake.patients')).toEqual([{ last_name: 'new' }])
  expect(await scene.asked()).toEqual(['patients p1 contested'])
})

test('a page that was read before an event was loaded does not outdo it unasked, though the event bears an old time', async () => {
  const taken = await takeWhole(scene.session, patients, scene.teamId)
  await scene.store([patientEvent('p1', 1, { last_name: 'newest' }), patientEvent('p2', 1)])
  await scene.drain()
  const read = (id: string, at: Instant) =>
    recordEnvelope(patient(id, { last_name: 'stale' }), {
      teamId: scene.teamId,
      stream: 'patients',
      observedAt: at,
    })
  const now = systemClock.now()
  const pages = [read('p1', instantOf(now - 2_000_000)), read('p3', instantOf(now))]
  const before = await loadEnvelopes(scene.session, patients, pages, { mode: 'merge', taken })
  expect(before.contested).toEqual(['p1'])
  const later = await load([read('p2', instantOf(now + 10_000_000))])
  expect(later).toMatchObject({ changed: 1, contested: [] })
})

test('events of another team, stream or record, and those that were set aside, speak for none', async () => {
  await load([seen('p1', 1)])
  const other = await teamIdOf(scene.session.db, 'other')
  await scene.store([patientEvent('p1', 2)], { teamId: other })
  await scene.store([
    patientEvent('p2', 2),
    patientEvent('p1', 2, {}, { source: forms.source }),
    patientEvent('p1', 2, {}, { source: 'invoice' }),
    patientEvent('p1', 2),
  ])
  await scene.session.client.query(
    `update intake_raw.inbox set status = 'dead' where seq = (select max(seq) from intake_raw.inbox)`,
  )
  expect(await page([seen('p1', 5)])).toEqual([])
})

test('where very many events wait any record may be among them: all are loaded again', async () => {
  await load([seen('p1', 1), seen('p2', 1)])
  await scene.session.client.query(
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, source, record_id, body)
     select $1, 'e' || n, sha256(n::text::bytea), '2026-01-01', now(), 'patient', 'other', ''
     from generate_series(1, 5001) n`,
    [scene.teamId],
  )
  expect(await page([seen('p1', 5), seen('p2', 5)])).toEqual(['p1', 'p2'])
})
