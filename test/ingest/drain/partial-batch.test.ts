/** A batch with partial records among whole ones, of several shapes and teams: each is compared with its own state. */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { incomplete, openUsualFields } from '../../../src/ingest/drain/current.ts'
import { takeDue } from '../../../src/ingest/drain/inbox-rows.ts'
import { prepare } from '../../../src/ingest/drain/load-events.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { patients } from '../../../src/streams/patients.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { recordEnvelope } from '../../support/envelopes.ts'
import { noonPlus, openScene, patientEvent, type Scene } from './scene.ts'

let scene: Scene
let other: number
beforeAll(async () => {
  scene = await openScene()
  other = await teamIdOf(scene.session.db, 'other')
})
afterAll(() => scene[Symbol.asyncDispose]())
beforeEach(() => scene.rows('truncate intake_raw.inbox, intake_raw.records, intake_ops.refetches'))

const teams = () => [
  { name: 'default', teamId: scene.teamId },
  { name: 'other', teamId: other },
]

/** Stores a record as it is, or deleted. */
const hold = (teamId: number, id: string, payload: object | null) =>
  scene.rows(
    `insert into intake_raw.records (team_id, stream, id, version, hash, payload, deleted, origin, observed_at)
     values ($1, 'patients', $2, now(), '\\x00', $3, $3::jsonb is null, 'test', now())`,
    [teamId, id, payload === null ? null : JSON.stringify({ id, ...payload })],
  )

it('only fields that its own stored state has count as lost, whatever the shapes of the others', async () => {
  const whole = { first_name: 'Ann', city: 'Bonn' }
  for (const id of ['same', 'lacks', 'empty', 'short', 'again']) await hold(scene.teamId, id, whole)
  await scene.rows(`update intake_raw.records set payload = payload || '{"city": ""}' where id = 'empty'`)
  await scene.rows(`update intake_raw.records set payload = payload - 'city' where id = 'short'`)
  await hold(scene.teamId, 'gone', null)
  await hold(other, 'lacks', { first_name: 'Ann' })
  const incoming = (teamId: number, id: string, payload: object) =>
    recordEnvelope({ id, ...payload }, { teamId, stream: 'patients', observedAt: noonPlus(1) })
  const part = { first_name: 'Bo' }
  const full = { first_name: 'Bo', city: 'Bonn' }
  const usual = {
    of: async (_: unknown, __: unknown, ids: readonly number[]) =>
      new Map(ids.map((teamId) => [teamId, teamId === other ? ['id'] : ['id', 'city']] as const)),
  }
  const { losing, sparse } = await incomplete(scene.session, usual, patients, [
    incoming(scene.teamId, 'same', full),
    incoming(scene.teamId, 'lacks', part),
    incoming(scene.teamId, 'empty', part),
    incoming(scene.teamId, 'new', full),
    incoming(scene.teamId, 'new in part', part),
    incoming(scene.teamId, 'short', part),
    incoming(scene.teamId, 'gone', part),
    incoming(other, 'lacks', part),
    incoming(other, 'new in part', part),
    incoming(scene.teamId, 'again', full),
  ])
  expect([...losing]).toEqual([`${scene.teamId}/lacks`])
  // Records that are stored are not new, though they have few fields; one that was deleted is.
  expect([...sparse].sort()).toEqual([`${scene.teamId}/gone`, `${scene.teamId}/new in part`])
})

it('a partial packet response of each team becomes a dead letter of that team, and its members are not fetched', async () => {
  const packet = (second: number, data: object) => ({
    ...patientEvent('k', second),
    source: 'packet_response',
    data: { id: 'k', ...data },
  })
  const whole = { packet: { id: 'k' }, is_submitted: false, form_index: 3, responses: ['m1'] }
  const part = { is_submitted: true, submitted_at: noonPlus(2), responses: ['m1'] }
  for (const { teamId } of teams()) await scene.store([packet(1, whole)], { teamId })
  await scene.drain({ teams: teams() })
  for (const { teamId } of teams()) await scene.store([packet(3, part)], { teamId })
  await scene.drain({ teams: teams() })
  expect(
    await scene.rows('select team_id, stream, record_id from intake_ops.dead_letters order by team_id'),
  ).toEqual(teams().map(({ teamId }) => ({ team_id: teamId, stream: 'packet_responses', record_id: 'k' })))
  expect(await scene.asked()).toEqual([])
})

it('rows are taken anew after staging tables were created: another process may have settled them meanwhile', async () => {
  await scene.store([patientEvent('a', 1), patientEvent('b', 1)])
  await using session = await openSession({ url: scene.url, purpose: 'test' })
  const loading = {
    teamIds: [scene.teamId],
    apiVersionOf: () => 'v2.1',
    usual: openUsualFields(systemClock),
  }
  let times = 0
  const prepared = await prepare(session, loading, async () => {
    times += 1
    if (times === 2)
      await scene.rows(
        `update intake_raw.inbox set status = 'done', settled_at = now() where record_id = 'a'`,
      )
    return await takeDue(session, [scene.teamId], 10)
  })
  expect(prepared!.rows.map(({ recordId }) => recordId)).toEqual(['b'])
  expect([...prepared!.gathered.groups[0]!.states.keys()]).toEqual([`${scene.teamId}/b`])
  await session.client.query('rollback')
})
