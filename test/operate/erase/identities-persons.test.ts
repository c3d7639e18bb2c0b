/** Under which identities a patient was ever stored: each place that has the patient counts, and no place of somebody else. */
import { expect, test } from 'vitest'
import type { StreamName } from '../../../src/core/envelope.ts'
import { findClients, findIdentities } from '../../../src/operate/erase/identities.ts'
import { openScene } from '../../ingest/drain/scene.ts'

const STATE = `now(), now(), '\\x00', 'test'`

test('payloads, superseded ones, events, dead letters, rows, and the patient in records of the patient', async () => {
  await using scene = await openScene()
  const { rows, session, teamId } = scene
  const other = teamId + 1
  const record = (team: number, stream: string, id: string, payload: object) =>
    rows(
      `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, payload)
       values ($1, $2, $3, ${STATE}, $4)`,
      [team, stream, id, JSON.stringify(payload)],
    )
  const past = (team: number, stream: string, id: string, payload: object) =>
    rows(
      `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, hash, origin, deleted, superseded_at, payload)
       values ($1, $2, $3, ${STATE}, false, now(), $4)`,
      [team, stream, id, JSON.stringify(payload)],
    )
  const is = (external_id: string, more: object = {}) => ({ id: 'p', external_id, ...more })
  await record(
    teamId,
    'patients',
    'p',
    is('own', { email: 'Own@x.org', first_name: 'Ann', last_name: 'Lee' }),
  )
  await past(teamId, 'patients', 'p', is('former', { phone_number: '+1 555' }))
  // The same address under a former name, which a file may still have.
  await past(teamId, 'patients', 'p', { id: 'p', email: 'OWN@x.org', first_name: 'Ann', last_name: 'Former' })
  await record(teamId, 'responses', 'r1', { patient: is('in a response') })
  await past(teamId, 'responses', 'r2', { patient: is('in a former response') })
  await record(teamId, 'responses', 'r3', { patient: { uid: 'p', external_id: 'by uid' } })
  await past(teamId, 'responses', 'r3', { patient: { uid: 'p', external_id: 'formerly by uid' } })
  // Of others: another patient, a record that is not the patient's, another stream, another team, no object.
  await past(teamId, 'responses', 'r1', { patient: { id: 'q', external_id: 'of another' } })
  await record(teamId, 'responses', 'not found', { patient: is('of another record') })
  await record(teamId, 'forms', 'r1', { patient: is('of another stream') })
  await record(teamId, 'responses', 'r2', { patient: 'p', external_id: 'no object' })
  await record(teamId, 'patients', 'q', { id: 'q', external_id: 'of q' })
  for (const store of [record, past]) {
    await store(other, 'patients', 'p', is('of another team'))
    await store(other, 'responses', 'r1', { patient: is('of another team') })
  }
  const event = (team: number, source: string, id: string, body: string) =>
    rows(
      `insert into intake_raw.inbox (team_id, source, record_id, event_id, body_hash, received_on, received_at, body)
       values ($1, $2, $3, gen_random_uuid(), '\\x00', '2026-01-01', now(), convert_to($4, 'UTF8'))`,
      [team, source, id, body],
    )
  await event(teamId, 'patient', 'p', JSON.stringify({ event_type: 'updated', data: is('in an event') }))
  await event(teamId, 'patient', 'p', JSON.stringify(is('in a record', { data: is('inside of it') })))
  await event(teamId, 'patient', 'p', '{"external_id": "cut')
  await event(teamId, 'patient', 'q', JSON.stringify({ event_type: 'updated', data: is('event of q') }))
  await event(teamId, 'form', 'p', JSON.stringify({ event_type: 'updated', data: is('event of a form') }))
  await event(other, 'patient', 'p', JSON.stringify({ event_type: 'updated', data: is('of another team') }))
  const dead = (team: number, stream: string, id: string, body: object) =>
    rows(
      `with dead as (
         insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason)
         values ($1, $2, $3, gen_random_uuid(), 'page', 'why') returning id
       )
       insert into intake_raw.set_aside (dead_letter_id, body) select id, convert_to($4, 'UTF8') from dead`,
      [team, stream, id, JSON.stringify(body)],
    )
  await dead(teamId, 'patients', 'p', is('dead'))
  await dead(teamId, 'patients', 'q', is('dead of q'))
  await dead(teamId, 'forms', 'p', is('dead form'))
  await dead(other, 'patients', 'p', is('of another team'))
  const row = (team: number, id: string, external: string, phone: string | null) =>
    rows(
      `insert into intake.patients (team_id, id, external_id, phone_number, _version, _origin) values ($1, $2, $3, $4, now(), 'test')`,
      [team, id, external, phone],
    )
  await row(teamId, 'p', 'in the row', '+1 777')
  await row(other, 'p', 'of another team', null)
  // An id of the patient's that is another's now, in both ways.
  await row(teamId, 'z', 'former', null)
  await row(teamId, 'dead', 'of z', null)
  const line = (team: number, number: number, client: string | null, name: string) =>
    rows(
      `insert into intake.export_rows (team_id, export_id, row_number, client_id, email, first_name, last_name)
       values ($1, 'e', $2, $3, $4 || '@x.org', $4, 'Lee')`,
      [team, number, client, name],
    )
  await line(teamId, 1, 'p', 'Anna')
  await line(teamId, 2, 'own', 'Anne')
  await line(teamId, 3, 'former', 'Zoe')
  await line(teamId, 4, 'dead', 'Zara')
  await line(other, 5, 'p', 'Other')
  await line(teamId, 6, '4711', 'ANNA')
  await line(teamId, 7, null, 'anne')
  await line(teamId, 8, 'p', 'Anna')
  await line(teamId, 9, '4712', 'Zoe')
  await line(other, 10, null, 'anne')
  await rows(
    `insert into intake.export_rows (team_id, export_id, row_number, client_id, email, first_name, last_name)
     values ($1, 'e', 11, '4713', 'own@X.org', 'ANN', 'former'), ($1, 'e', 12, '4714', 'own@x.org', 'Former', 'Ann')`,
    [teamId],
  )

  const patient = { teamId, id: 'p' }
  const found = new Map<StreamName, readonly string[]>([
    ['patients', ['p']],
    ['responses', ['r1', 'r2', 'r3']],
  ])
  const identities = await findIdentities(session.db, patient, found)
  expect([...identities.aliases].sort()).toEqual([
    ...['by uid', 'dead', 'former', 'formerly by uid', 'in a former response', 'in a record'],
    ...['in a response', 'in an event', 'in the row', 'own'],
  ])
  expect([...identities.contacts].sort()).toEqual(['+1 555', '+1 777', 'OWN@x.org', 'Own@x.org'])
  // Empty values make no name, and case makes no other one.
  expect(identities.names.map((values) => values.join(' ')).sort()).toEqual([
    ...['Anna@x.org Anna Lee', 'Anne@x.org Anne Lee', 'OWN@x.org Ann Former', 'Own@x.org Ann Lee'],
  ])
  const clients = await findClients(session.db, patient, identities)
  expect(clients).toEqual({
    ids: [
      ...[
        'p',
        '4711',
        '4713',
        'by uid',
        'formerly by uid',
        'in a former response',
        'in a record',
        'in a response',
      ],
      ...['in an event', 'in the row', 'own'],
    ],
    unnamed: [{ exportId: 'e', row: 7, values: ['anne@x.org', 'anne', 'Lee'] }],
  })
})
