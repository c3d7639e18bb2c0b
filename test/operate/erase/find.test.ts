/** Whose record is it: whatever form a patient is named in, and wherever nothing else is known of a patient. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { StreamName } from '../../../src/core/envelope.ts'
import { findRecords, isKnown, pastContaining } from '../../../src/operate/erase/find.ts'
import { findIdentities } from '../../../src/operate/erase/identities.ts'
import { streamNamed } from '../../../src/streams/catalogue.ts'
import { openScene, type Scene } from '../../ingest/drain/scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene[Symbol.asyncDispose]())

const STATE = `now(), now(), '\\x00', 'test'`

/** A row that names a patient, and the column with the stream of its record. */
const PLACES: readonly (readonly [table: string, insert: string, column: string | null])[] = [
  [
    'intake_raw.records',
    `(team_id, stream, id, version, observed_at, hash, origin) values ($1, 'patients', $2, ${STATE})`,
    'stream',
  ],
  [
    'intake_raw.record_history',
    `(team_id, stream, id, version, observed_at, hash, origin, deleted, superseded_at)
     values ($1, 'patients', $2, ${STATE}, false, now())`,
    'stream',
  ],
  ['intake.export_rows', `(team_id, export_id, row_number, client_id) values ($1, 'e', 1, $2)`, null],
  [
    'intake_ops.dead_letters',
    `(team_id, stream, record_id, fingerprint, origin, reason) values ($1, 'patients', $2, 'x', 'page', 'why')`,
    'stream',
  ],
  [
    'intake_ops.refetches',
    `(team_id, stream, id, reason, origin) values ($1, 'patients', $2, 'contested', 'x')`,
    'stream',
  ],
  [
    'intake_raw.inbox',
    `(team_id, event_id, body_hash, received_on, received_at, source, record_id, body)
     values ($1, 'e', '\\x00', '2026-01-01', now(), 'patient', $2, '')`,
    'source',
  ],
]

test.each(PLACES)(
  'a patient is known by a row of %s alone, of the team and the stream',
  async (table, insert, column) => {
    const known = (id: string, teamId = scene.teamId) =>
      isKnown(scene.session.db, { teamId, id }, new Map<StreamName, readonly string[]>([['patients', [id]]]))
    expect(await known('p')).toBe(false)
    await scene.rows(`insert into ${table} ${insert}`, [scene.teamId, 'p'])
    expect([await known('p'), await known('q'), await known('p', scene.teamId + 1)]).toEqual([
      true,
      false,
      false,
    ])
    if (column !== null) await scene.rows(`update ${table} set ${column} = 'form'`)
    expect(await known('p')).toBe(column === null)
    await scene.rows(`delete from ${table}`)
  },
)

test('a superseded response is the patient’s, however it names the patient', async () => {
  const named = {
    object: { patient: { id: 'p' } },
    uid: { patient: { uid: 'p' } },
    text: { patient: 'p' },
    sibling: { patient_id: 'p' },
    'of another': { patient: { id: 'q' }, form: { id: 'p' } },
  }
  for (const [id, payload] of Object.entries(named))
    await scene.rows(
      `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, hash, origin, deleted, superseded_at, payload)
       values ($1, 'responses', $2, ${STATE}, false, now(), $3)`,
      [scene.teamId, id, JSON.stringify(payload)],
    )
  const found = await findRecords(scene.session.db, { teamId: scene.teamId, id: 'p' })
  expect([...found].map(([stream, ids]) => [stream, [...ids].sort()])).toEqual([
    ['patients', ['p']],
    ['responses', ['object', 'sibling', 'text', 'uid']],
  ])
  expect([...(await findRecords(scene.session.db, { teamId: scene.teamId + 1, id: 'p' })).keys()]).toEqual([
    'patients',
  ])
})

test('rows that name the patient, and records that contain such a row anywhere, belong to the patient only in the same team', async () => {
  const { teamId, session } = scene
  const other = teamId + 1
  await scene.rows(
    `insert into intake.responses (team_id, id, patient_id, _version, _origin) values
       ($1, 'a', 'rows', now(), 'test'), ($1, 'b', 'rows', now(), 'test'), ($1, 'c', 'another', now(), 'test'),
       ($2, 'd', 'rows', now(), 'test'), ($2, 'a', 'another', now(), 'test')`,
    [teamId, other],
  )
  await scene.rows(
    `insert into intake.packet_response_members (team_id, packet_response_id, position, response_id) values
       ($1, 'second', 1, 'c'), ($1, 'second', 2, 'a'), ($1, 'first', 1, 'b'), ($1, 'of another', 1, 'c'), ($1, 'of the other team', 1, 'd'),
       ($2, 'of a twin', 1, 'a'), ($2, 'own', 1, 'd'), ($2, 'none', 1, null)`,
    [teamId, other],
  )
  const foundOf = async (team: number) =>
    [...(await findRecords(session.db, { teamId: team, id: 'rows' }))].map(([stream, ids]) => [
      stream,
      [...ids].sort(),
    ])
  expect(await foundOf(teamId)).toEqual([
    ['patients', ['rows']],
    ['responses', ['a', 'b']],
    ['packet_responses', ['first', 'second']],
  ])
  expect(await foundOf(other)).toEqual([
    ['patients', ['rows']],
    ['responses', ['d']],
    ['packet_responses', ['own']],
  ])
})

test('identities that retention has removed are the patient’s own: neither another’s, nor those of the same id in another team', async () => {
  const { teamId, session } = scene
  for (const [team, id, hash] of [
    [teamId, 'p', '\\x02'],
    [teamId, 'p', '\\x01'],
    [teamId, 'q', '\\x03'],
    [teamId + 1, 'p', '\\x04'],
  ])
    await scene.rows('insert into intake_ops.former_identities (team_id, id, hash) values ($1, $2, $3)', [
      team,
      id,
      hash,
    ])
  const formerOf = async (id: string) => (await findIdentities(session.db, { teamId, id }, new Map())).former
  expect([await formerOf('p'), await formerOf('q'), await formerOf('r')]).toEqual([['01', '02'], ['03'], []])
})

test('a superseded state counts once, and as deleted only if its own record is, whatever other streams have under its id', async () => {
  const { teamId, session } = scene
  for (const [id, member] of [
    ['twin', 'r1'],
    ['gone', 'r1'],
    ['of another', 'r10'],
  ])
    await scene.rows(
      `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, hash, origin, deleted, superseded_at, payload)
       values ($1, 'packet_responses', $2, ${STATE}, false, now(), $3)`,
      [teamId, id, JSON.stringify({ id, responses: [{ id: 'of nobody' }, { id: member }, { id: 'r2' }] })],
    )
  for (const [team, stream, id, deleted] of [
    [teamId, 'packet_responses', 'twin', false],
    [teamId, 'packet_responses', 'gone', true],
    [teamId, 'forms', 'twin', true],
    [teamId, 'packets', 'twin', true],
    [teamId + 1, 'packet_responses', 'twin', true],
  ])
    await scene.rows(
      `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, deleted)
       values ($1, $2, $3, ${STATE}, $4)`,
      [team, stream, id, deleted],
    )
  const theirs = new Map<StreamName, readonly string[]>([['responses', ['r1']]])
  const past = (team: number) =>
    pastContaining(session.db, streamNamed('packet_responses')!, { teamId: team, id: 'p' }, theirs)
  expect((await past(teamId)).map(({ id, isDeleted }) => [id, isDeleted])).toEqual([
    ['gone', true],
    ['twin', false],
  ])
  expect(await past(teamId + 1)).toEqual([])
})
