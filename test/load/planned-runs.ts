/** Planned runs of two teams in a warehouse of the test file, and the workers that execute them. */
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { claimSlices, openWorkSession } from '../../src/load/claims.ts'
import { insertRun, type Planning } from '../../src/load/slice.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { rowsOf } from './loading.ts'

export let database: TestDatabase
export let session: Session
export let [north, south] = [0, 0]
/** Sessions that are closed when their test ends. */
export const opened: Session[] = []

/** To be called once by a test file: each of its tests begins without runs and workers. */
export function keepPlannedRuns(): void {
  beforeAll(async () => {
    database = await createTestDatabase()
    session = await openSession({ url: database.url, purpose: 'test' })
    north = await teamIdOf(session.db, 'north')
    south = await teamIdOf(session.db, 'south')
  })
  afterAll(async () => {
    await session.close()
    await database.drop()
  })
  beforeEach(() => rowsOf(session, 'delete from intake_ops.runs; delete from intake_ops.checkpoints'))
  afterEach(async () => {
    for (const each of opened.splice(0)) await each.close()
    await expect
      .poll(() =>
        rowsOf(
          session,
          `select from pg_stat_activity where application_name like '%worker%' and datname = current_database()`,
        ),
      )
      .toEqual([])
  })
}

/** A run of these streams, each as `team stream`. */
export function plan(streams: readonly string[], options: object = {}, planning?: Planning): Promise<string> {
  const parts = streams.map((each) => {
    const [team, stream] = each.split(' ')
    return { teamId: team === 'north' ? north : south, stream: stream! }
  })
  return session.db.transaction().execute((db) => insertRun(db, options, {}, parts, planning))
}

/** A worker that lives until the test ends. */
export async function work(worker: string, isOfRun = false) {
  const { session: own, owner } = await openWorkSession(database.url, worker, { isOfRun })
  opened.push(own)
  const claim = (most: number, teams = ['north', 'south']) =>
    claimSlices(own.db, {
      owner,
      teams,
      streams: ['forms', 'packets'],
      most,
    })
  return { session: own, owner, claim }
}

export const runs = () =>
  rowsOf(
    session,
    'select run_id, status, error, finished_at is not null as dated from intake_ops.runs order by 1',
  )
export const states = async (runId: string) =>
  (
    await rowsOf<{ line: string }>(
      session,
      `select concat_ws(' ', coalesce(team.name, 'end'), nullif(stream, ''), state, result ->> 'note') as line
       from intake_ops.slices left join intake.teams team using (team_id) where run_id = $1 order by slice_id`,
      [runId],
    )
  ).map(({ line }) => line)
export const reports = () =>
  rowsOf(
    session,
    `select run_id, team_id, stream, status, note, requests + fetched + changed + unchanged + deleted + problems as figures
     from intake_ops.run_streams order by run_id, team_id, stream`,
  )
