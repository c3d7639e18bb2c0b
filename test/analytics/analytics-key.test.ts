/** The key of the pseudonyms: which one counts after each migration, and what a migration reports. */
import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { migrate } from '../../src/analytics/migrate.ts'
import { query } from '../e2e/support/scene.ts'
import { createTestDatabase } from '../support/database.ts'

const CHANGED = 'INTAKE_ANALYTICS_KEY is another than before: every pseudonym in intake_analytics changed'

test('another key changes every pseudonym and says so if there are patients; the same key, and none, change nothing', async () => {
  await using database = await createTestDatabase()
  const { url } = database
  const notes = async (analyticsKey?: string | null) =>
    (await migrate(url, analyticsKey === undefined ? {} : { analyticsKey })).notes
  const key = async () =>
    (
      await query(
        url,
        `select origin, set_at < '2026-02-01' as is_old, intake_ops.pseudonym(inner_pad, outer_pad, 1::smallint, 'p') as name
         from intake_ops.analytics_key`,
      )
    )[0]
  const named = (text: string) => createHmac('sha256', text).update('1:p').digest('hex')
  const age = () => query(url, `update intake_ops.analytics_key set set_at = '2026-01-01Z'`)

  await age()
  const generated = await key()
  expect(generated).toMatchObject({ origin: 'made', is_old: true })
  expect([await notes(), await notes(null), await key()]).toEqual([[], [], generated])
  // There is nobody whose pseudonym could change.
  expect([await notes('first'), await key()]).toEqual([
    [],
    { origin: 'configured', is_old: false, name: named('first') },
  ])
  await query(
    url,
    `insert into intake.teams (name) values ('t');
     insert into intake.patients (team_id, id, _version, _origin) values (1, 'p', now(), 'test')`,
  )
  await age()
  const first = { origin: 'configured', is_old: true, name: named('first') }
  expect([await notes('first'), await notes(), await key()]).toEqual([[], [], first])
  expect([await notes('second'), await key()]).toEqual([
    [CHANGED],
    { origin: 'configured', is_old: false, name: named('second') },
  ])
})
