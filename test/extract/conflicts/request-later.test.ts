/** Records that a run could not fetch: their requests are stored, each once, and due when the service may be back. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { laterNote, requestFailedFetches } from '../../../src/extract/conflicts/settle-conflicts.ts'
import { requestRefetches } from '../../../src/load/refetches.ts'
import { openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
})
afterEach(() => rig[Symbol.asyncDispose]())

async function later(ids: readonly string[], reason = 'the service fails (503)') {
  const source = await rig.source('patients', { runId: '9' })
  for (const id of ids) source.failedFetches.later.set(id, reason)
  return source
}
const store = async (ids: readonly string[]) => requestFailedFetches(await later(ids), rig.session)
const asked = () =>
  rig.rows(
    `select team_id as team, stream, id, reason, origin, asked::int, round(extract(epoch from due_at - now()) / 60)::int as minutes
     from intake_ops.refetches order by team_id, stream, id`,
  )

test('without one nothing is stored, and nothing is reported', async () => {
  await store([])
  expect(await asked()).toEqual([])
  expect(laterNote(await later([]))).toEqual({ text: null, attention: false })
})

test('each is due in a minute, as a request that proves no delete', async () => {
  await store(['a', 'b'])
  const rest = {
    team: rig.teamId,
    stream: 'patients',
    reason: 'partial',
    origin: 'run:9',
    asked: 1,
    minutes: 1,
  }
  expect(await asked()).toEqual([
    { ...rest, id: 'a' },
    { ...rest, id: 'b' },
  ])
})

test('a repeated request is counted, and is due no earlier than before', async () => {
  const place = { teamId: rig.teamId, stream: 'patients', reason: 'contested', origin: 'event:e' } as const
  await requestRefetches(
    rig.session.db,
    ['far', 'near'].map((id) => ({ ...place, id, since: null })),
  )
  await rig.rows(`update intake_ops.refetches set due_at = now() + interval '1 hour' where id = 'far'`)
  await store(['far', 'near'])
  await store(['near'])
  const rest = { team: rig.teamId, stream: 'patients', reason: 'contested', origin: 'event:e' }
  expect(await asked()).toEqual([
    { ...rest, id: 'far', asked: 2, minutes: 60 },
    { ...rest, id: 'near', asked: 3, minutes: 1 },
  ])
})

test('requests for the same ids of another team or stream stay as they are', async () => {
  const others = [
    { teamId: rig.otherId, stream: 'patients' },
    { teamId: rig.teamId, stream: 'forms' },
  ] as const
  await requestRefetches(
    rig.session.db,
    others.map((place) => ({ ...place, id: 'a', reason: 'partial', origin: 'event:e', since: null })),
  )
  await store(['a'])
  expect((await asked()).map(({ team, stream, minutes }) => [team, stream, minutes])).toEqual([
    [rig.teamId, 'forms', 0],
    [rig.teamId, 'patients', 1],
    [rig.otherId, 'patients', 0],
  ])
})

test('more than a portion are all stored', async () => {
  await store(Array.from({ length: 1_001 }, (_, at) => `p${at}`))
  const found = await asked()
  expect([found.length, found.every(({ minutes }) => minutes === 1)]).toEqual([1_001, true])
})

test('the note counts them, quotes the first reason, and asks for attention', async () => {
  const source = await later(['a', 'b'])
  source.failedFetches.later.set('c', 'another reason')
  expect(laterNote(source)).toEqual({
    text: '3 could not be fetched and will be requested again later (the service fails (503))',
    attention: true,
  })
})
