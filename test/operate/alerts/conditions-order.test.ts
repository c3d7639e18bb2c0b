/** Conditions are listed in the same order whatever plan Postgres chooses, so that lines on the console keep their places. */
import { expect, test } from 'vitest'
import { findConditions } from '../../../src/operate/alerts/conditions.ts'
import { ALL_STREAMS } from '../../../src/streams/catalogue.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'

test.each(['enable_sort', 'enable_hashagg'])('by cause, team and stream, with %s off', async (setting) => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'conditions' })
  const { client, db } = session
  const streams = ALL_STREAMS.map(({ name }) => name).toSorted()
  const teams = ['north', 'south', 'west']
  await client.query(`insert into intake.teams (name) values ('west'), ('south'), ('north')`)
  await client.query(
    `insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason, status)
       select team_id, stream, 'x', stream, 'run:1 page:1', '', 'waiting' from intake.teams, unnest($1::text[]) stream`,
    [streams],
  )
  await client.query(
    `insert into intake_ops.drift (team_id, stream, path, type)
       select team_id, stream, 'a', 'string' from intake.teams, unnest($1::text[]) stream`,
    [streams],
  )
  await client.query(
    `insert into intake_ops.defects (team_id, kind, place)
       select team_id, 'TypeError', 'drain' from intake.teams`,
  )
  await client.query(`set ${setting} = off`)
  const { conditions } = await findConditions(db, {
    ...{ teams, inboxSeconds: 300, maxAgeHours: null, thorough: true, raised: new Set() },
    webhookChecks: { check: async () => [] },
  })
  const all = teams.flatMap((team) => streams.map((stream) => [team, stream]))
  expect(conditions.map(({ cause, team, stream }) => [cause, team, stream])).toEqual([
    ...all.map((each) => ['dead_letters', ...each]),
    ...all.map((each) => ['drift', ...each]),
    ...teams.map((team) => ['defect', team, '']),
  ])
})
