/** The removal of a team with its data, while something still writes. */
import { expect, it } from 'vitest'
import { migrate } from '../../src/analytics/migrate.ts'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { deleteRows } from '../../src/operate/delete-team-rows.ts'
import { removeTeam } from '../../src/operate/remove-team.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { tryLock, unlock } from '../../src/warehouse/locks.ts'
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
  await query(
    url,
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
     values (1, 'e', '\\x00', '2026-01-01', now(), '{}')`,
  )
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
     begin ${form('late')};
       insert into intake.documents (team_id, id, _version, _origin) select team_id, 'd', now(), 'test'
         from intake.teams where name = 'north' on conflict do nothing;
       return intake_raw.restart(); end $$`,
  )
  const { signal } = new AbortController()
  const removed = await removeTeam({ url, name: 'north', data: 'deleted', clock: systemClock, signal })
  expect(removed).toMatchObject({ events: 1, notes: [] })
  // Partitions count as their table, and what was stored meanwhile is counted too.
  const own = ['documents', 'form_questions', 'forms'].map((name) => `intake.${name}`)
  expect(
    removed.tables.filter((name) => !/[.](?:newest_times|classifications|question_|wide_)/.test(name)),
  ).toEqual([...[...own, 'intake_raw.inbox']])
  expect(await views()).toEqual(others)
  const left = `select team_id from intake.forms union all select team_id from intake_raw.wide_views where team_id = 1`
  expect(await query(url, left)).toEqual([{ team_id: 2 }])
})

it('one that waits for a lock ends as soon as it is stopped; begun again, it settles the events that arrived meanwhile, and counts all', async () => {
  await using database = await createTestDatabase()
  const { url } = database
  await query(url, `insert into intake.teams (name) values ('north')`)
  const receive = (id: string) =>
    query(
      url,
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
       select team_id, $1, '\\x00', '2026-01-01', now(), '{}' from intake.teams`,
      [id],
    )
  await receive('first')
  await using holder = await openSession({ url, purpose: 'holder' })
  await holder.client.query('begin; lock table intake_ops.removed_teams in exclusive mode')
  const stop = new AbortController()
  let waits = 0
  const clock: Clock = {
    now: systemClock.now,
    async sleep(_, signal) {
      waits += 1
      if (waits > 1) await holder.client.query('rollback')
      stop.abort(new Error('stopped by a person'))
      signal?.throwIfAborted()
    },
  }
  const remove = (signal: AbortSignal) => removeTeam({ url, name: 'north', data: 'kept', clock, signal })
  await expect(remove(stop.signal)).rejects.toThrow('stopped by a person')
  expect(waits).toBe(1)
  await holder.client.query('rollback')
  const { signal } = new AbortController()
  expect(await remove(signal)).toEqual({ teamId: 1, events: 1, rows: 0, tables: [], notes: [] })
  await receive('second')
  await receive('third')
  expect(await remove(signal)).toMatchObject({ events: 2 })
  const marks = 'select events::int, data, finished_at is not null as done from intake_ops.removed_teams'
  expect(await query(url, marks)).toEqual([{ events: 3, data: 'kept', done: true }])
})

it('every row of a table of many megabytes counts, wherever the rows of other teams are', async () => {
  await using database = await createTestDatabase()
  const { url } = database
  // One row on each page: more pages than are deleted at once, and the last ones are another team's.
  await query(
    url,
    `insert into intake.teams (name) values ('north'), ('south');
     alter table intake.forms set (fillfactor = 10);
     insert into intake.forms (team_id, id, name, text, _version, _origin)
       select case when n <= 520 then 1 else 2 end, n, 'Form', repeat('x', 900), now(), 'test' from generate_series(1, 1100) n`,
  )
  await using session = await openSession({ url, purpose: 'test' })
  const { signal } = new AbortController()
  const deleted = await deleteRows(session.db, 1, (work) => work(), signal)
  expect(deleted.rows).toBeGreaterThanOrEqual(520)
  expect(deleted.tables).toContain('intake.forms')
  const left = 'select team_id, count(*)::int as forms from intake.forms group by 1'
  expect(await query(url, left)).toEqual([{ team_id: 2, forms: 580 }])
})

it('waits for no run: one of the team that is in progress, by a process or by workers, is named, and nothing is removed', async () => {
  await using database = await createTestDatabase()
  const { url } = database
  await query(
    url,
    `insert into intake.teams (name) values ('north'), ('south');
     insert into intake_ops.runs (kind, status, options) values
       ('verify', 'running', '{"teams": ["south", "north"]}'), ('verify', 'running', '{"teams": ["north"], "is_detached": true}'),
       ('verify', 'running', '{"teams": ["south"]}'), ('verify', 'succeeded', '{"teams": ["north"]}');
     insert into intake_ops.slices (run_id, team_id, stream, spec, reserves) values (2, 1, 'forms', '{"version": 1}', false)`,
  )
  const { signal } = new AbortController()
  const remove = () => removeTeam({ url, name: 'north', data: 'kept', clock: systemClock, signal })
  await using process = await openSession({ url, purpose: 'process' })
  for (const run of ['1', '3', '4']) expect(await tryLock(process, 'run', run)).toBe(true)
  const refusal = (run: number) => ({
    ...{ code: 'held_by_another_run', verdict: 'stop' },
    message: `run ${run} of team north is in progress; nothing was started`,
    hint: `wait for it to end, or stop it: intake-sync runs cancel ${run}`,
  })
  await query(url, `update intake_ops.slices set state = 'done'`)
  await expect(remove()).rejects.toMatchObject(refusal(1))
  // The process has ended without a word; now workers have something to do.
  await unlock(process, 'run', '1')
  await query(url, `update intake_ops.slices set state = 'pending'`)
  await expect(remove()).rejects.toMatchObject(refusal(2))
  expect(await query(url, 'select from intake_ops.removed_teams')).toEqual([])
  // What no worker knows of any more is no run, and runs of another team, or that ended, block nothing.
  await query(url, `update intake_ops.slices set state = 'done'`)
  expect(await remove()).toMatchObject({ teamId: 1, events: 0 })
})

it('work in progress of the team goes, that of others stays; data that was to be deleted once cannot be kept later', async () => {
  await using database = await createTestDatabase()
  const { url } = database
  await query(
    url,
    `insert into intake.teams (name) values ('north'), ('south');
     insert into intake_ops.checkpoints (team_id, stream) values (1, 'forms'), (2, 'forms');
     insert into intake_ops.refetches (team_id, stream, id, reason, origin) values (1, 'forms', 'f', 'partial', 'x'), (2, 'forms', 'f', 'partial', 'x');
     insert into intake_ops.missed_once (team_id, stream, id, run_id) values (1, 'forms', 'f', 1), (2, 'forms', 'f', 1);
     insert into intake_ops.alerts (team_id, cause) values (1, 'drift'), (2, 'drift');
     insert into intake_ops.scans (team_id, stream, request, started_at, began_at, first_page, pages)
       select team, 'forms', '', now(), now(), '{}', 1 from unnest('{1,2}'::int[]) team;
     insert into intake_ops.schedule_ticks (team_id, job, due_at, taken_by)
       select team, 'backfill', now(), gen_random_uuid() from unnest('{1,2}'::int[]) team`,
  )
  const tables = ['alerts', 'checkpoints', 'missed_once', 'refetches', 'scans', 'schedule_ticks']
  const left = () =>
    query(url, tables.map((name) => `select team_id from intake_ops.${name}`).join(' union all '))
  const { signal } = new AbortController()
  await removeTeam({ url, name: 'north', data: 'kept', clock: systemClock, signal })
  expect(await left()).toEqual(tables.map(() => ({ team_id: 2 })))
  const mark = () => query(url, 'select data, finished_at is not null as done from intake_ops.removed_teams')
  expect(await mark()).toEqual([{ data: 'kept', done: true }])
  // One that began to delete, and was stopped.
  await query(url, `update intake_ops.removed_teams set data = 'deleted', finished_at = null`)
  await removeTeam({ url, name: 'north', data: 'kept', clock: systemClock, signal })
  expect(await mark()).toEqual([{ data: 'deleted', done: true }])
})
