/** The removal of a team with its data, while something still writes. */
import { expect, it } from 'vitest'
import { migrate } from '../../src/analytics/migrate.ts'
import { systemClock } from '../../src/core/clock.ts'
import { removeTeam } from '../../src/operate/remove-team.ts'
import { query } from '../e2e/support/scene.ts'
import { createTestDatabase } from '../support/database.ts'

const form = (id: string) => `
  insert into intake.forms (team_id, id, name, _version, _origin)
    select team_id, '${id}', '${id}', now(), 'test' from intake.teams where name = 'north' on conflict do nothing;
  insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
    select team_id, '${id}', 1, 'q', 'checkbox', 'Smoker' from intake.teams where name = 'north' on conflict do nothing`

it('no view of its forms stays, not even of one that was stored after its rows were deleted; those of others do', async () => {
  await using database = await createTestDatabase()
  const { url } = database
  await query(url, `insert into intake.teams (name) values ('north'), ('south')`)
  await query(url, form('first'))
  await query(url, form('first').replaceAll('north', 'south'))
  await migrate(url)
  const views = async () => {
    const text = `select schemaname || '.' || viewname as name from pg_views where viewname ~ '^form_(first|late)' order by 1`
    return (await query<{ name: string }>(url, text)).map(({ name }) => name)
  }
  const before = await views()
  expect(before).toHaveLength(4)
  const others = before.filter((name) => name.endsWith('_2'))
  expect(others).toHaveLength(2)
  // Another process writes at the moment when the views are about to be refreshed.
  await query(
    url,
    `alter function intake_raw.restart_changes() rename to restart;
     create function intake_raw.restart_changes() returns bigint language plpgsql as $$
     begin ${form('late')}; return intake_raw.restart(); end $$`,
  )
  const { signal } = new AbortController()
  const removed = await removeTeam({ url, name: 'north', data: 'deleted', clock: systemClock, signal })
  expect(removed.notes).toEqual([])
  expect(await views()).toEqual(others)
  const left = `select team_id from intake.forms union all select team_id from intake_raw.wide_views where team_id = 1`
  expect(await query(url, left)).toEqual([{ team_id: 2 }])
})
