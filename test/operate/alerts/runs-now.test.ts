/** Several runs of several teams: the newest outcome of each kind and stream is read, and which streams are busy. */
import { expect, test } from 'vitest'
import { readRunsNow } from '../../../src/operate/alerts/runs-now.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'

interface Planted {
  readonly kind?: string
  readonly teams: string
  readonly streams: string
  readonly status?: string
  /** How long ago it began; an hour before its end. */
  readonly began: string
  readonly isOpen?: boolean
}

test('each stream of each team is judged by its newest run that has ended, and a run whose process died by its start', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  await using process = await openSession({ url: database.url, purpose: 'process' })
  const { db, client } = session
  await client.query(`insert into intake.teams (name) values ('south'), ('north'), ('elsewhere')`)
  const plant = async ({ kind = 'backfill', teams, streams, status = 'succeeded', ...when }: Planted) => {
    const { rows } = await client.query<{ id: number }>(
      `insert into intake_ops.runs (kind, status, options, started_at, finished_at) values
         ($1, $2, $3, now() - $4::interval, case when $5 then now() - $4::interval + interval '1 hour' end)
       returning run_id::int as id`,
      [
        ...[kind, status, JSON.stringify({ teams: teams.split(' '), streams: streams.split(' ') })],
        ...[when.began, when.isOpen !== true],
      ],
    )
    return rows[0]!.id
  }
  const streamOf = (run: number, team: string, stream: string, status: string) =>
    client.query(
      `insert into intake_ops.run_streams (run_id, team_id, stream, status) select $1, team_id, $3, $4 from intake.teams where name = $2`,
      [run, team, stream, status],
    )
  const verified = (run: number, team: string, stream: string, figures: string) =>
    client.query(
      `insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different, repaired,
         missing_ids, extra_ids, different_ids) select $1, team_id, $3, false, 9, 9, ${figures}, '{}', '{}', '[]' from intake.teams where name = $2`,
      [run, team, stream],
    )

  await plant({ teams: 'north south', streams: 'forms packets', status: 'failed', began: '50 hours' })
  const mixed = await plant({
    teams: 'north south',
    streams: 'forms packets',
    status: 'failed',
    began: '9 hours',
  })
  await streamOf(mixed, 'north', 'forms', 'succeeded')
  await streamOf(mixed, 'north', 'packets', 'needs_attention')
  await streamOf(mixed, 'south', 'forms', 'failed')
  await streamOf(mixed, 'south', 'packets', 'interrupted')
  // Its process ended before it stored anything.
  const old = await plant({
    teams: 'south',
    streams: 'documents',
    status: 'running',
    began: '30 hours',
    isOpen: true,
  })
  const dead = await plant({
    teams: 'south',
    streams: 'messages',
    status: 'running',
    began: '4 seconds',
    isOpen: true,
  })
  // A person stopped this one: what was before it counts.
  await plant({ teams: 'south', streams: 'messages documents', status: 'interrupted', began: '2 hours' })
  const differs = await plant({ kind: 'verify', teams: 'north south', streams: 'forms', began: '5 hours' })
  await verified(differs, 'north', 'forms', '1, 2, 3, 4')
  await verified(differs, 'south', 'forms', '1, 2, 3, 6')
  const replay = await plant({
    ...{ kind: 'replay', teams: 'north', streams: 'forms packets', status: 'needs_attention' },
    began: '5 hours',
  })
  await plant({ teams: 'elsewhere', streams: 'forms', status: 'failed', began: '40 hours' })
  const running = await plant({
    ...{
      teams: 'north elsewhere',
      streams: 'messages forms',
      status: 'running',
      began: '25 hours',
      isOpen: true,
    },
  })
  const long = await plant({
    teams: 'south',
    streams: 'exports',
    status: 'running',
    began: '27 hours',
    isOpen: true,
  })
  for (const run of [running, long])
    await process.client.query('select pg_advisory_lock(intake_ops.lock_key(7204312, $1))', [run])

  const { conditions, busy } = await readRunsNow(db, ['south', 'north'], 26)
  expect(
    conditions.map(({ team, cause, stream, mark, figures }) => [team, cause, stream, mark, figures]),
  ).toEqual([
    ['north', 'backfill_needs_attention', 'packets', null, { run_id: mixed }],
    ['north', 'replay_failed', '', null, { run_id: replay }],
    ['north', 'verify_differs', 'forms', null, { run_id: differs, missing: 1, extra: 2, different: 3 }],
    ['south', 'backfill_failed', 'documents', null, { run_id: old }],
    ['south', 'backfill_overdue', 'documents', null, { hours: 30 }],
    ['south', 'backfill_failed', 'forms', null, { run_id: mixed }],
    ['south', 'backfill_failed', 'messages', null, { run_id: dead }],
  ])
  expect([...busy].sort()).toEqual(['north forms', 'north messages'])
  // Another limit is also the one of runs that are in progress; without one, 26 hours are.
  expect([...(await readRunsNow(db, ['south', 'elsewhere'], 30)).busy].sort()).toEqual([
    ...['elsewhere forms', 'elsewhere messages', 'south exports'],
  ])
  const unlimited = await readRunsNow(db, ['south'], null)
  expect(unlimited.conditions.filter(({ cause }) => cause === 'backfill_overdue')).toEqual([])
  expect([...unlimited.busy]).toEqual([])
})
