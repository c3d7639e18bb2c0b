/** Figures of each team, next to a team that was removed. */
import { expect, test } from 'vitest'
import { readTrouble } from '../../../src/operate/health/team-status.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openWarehouse } from '../../e2e/support/scene.ts'

test('metrics show what waits in each team, also when another team was removed', async () => {
  await using warehouse = await openWarehouse()
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  const waiting = async () =>
    (await readTrouble(session.db)).map(({ team, stream, dead_letters }) => [team, stream, dead_letters])
  await session.client.query(`
    insert into intake.teams (name) values ('north'), ('south'), ('west');
    insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason, status)
    values (1, 'forms', 'a', sha256('1'), 'run:1', 'no key', 'waiting'), (1, 'forms', 'b', sha256('2'), 'run:1', 'no key', 'waiting'),
      (2, 'forms', 'a', sha256('1'), 'run:1', 'no key', 'waiting'), (3, 'forms', 'a', sha256('1'), 'run:1', 'no key', 'waiting')`)
  const [north, west] = [
    ['north', 'forms', 2],
    ['west', 'forms', 1],
  ]
  expect(await waiting()).toEqual([north, ['south', 'forms', 1], west])
  await session.client.query(
    `insert into intake_ops.removed_teams (team_id, name, data) values (2, 'south', 'kept')`,
  )
  expect(await waiting()).toEqual([north, west])
})
