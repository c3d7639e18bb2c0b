/** How a planned backfill ends: its status, and the stored reports by team. */

import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { placeHashOf, sourcesOf, type TeamSource } from '../../src/extract/backfill-options.ts'
import {
  BACKFILLS,
  planBackfill,
  readTeams,
  statusOf,
  type TeamSummary,
} from '../../src/extract/planned-backfill.ts'
import { EVERYTHING } from '../../src/extract/reading/window.ts'
import { claimSlices } from '../../src/load/claims.ts'
import { storeDeadLetters } from '../../src/load/dead-letters.ts'
import type { RunStatus } from '../../src/load/runs.ts'
import { insertRun, NOTHING } from '../../src/load/slice.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { forms } from '../../src/streams/forms.ts'
import { patients } from '../../src/streams/patients.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { rowsOf } from '../load/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { sourceNamed } from './support/source-named.ts'

const team = (waiting: number, ...statuses: readonly (RunStatus | number)[]): TeamSummary => ({
  ...{ name: 'one', waiting },
  streams: statuses.map((each) => {
    const made =
      typeof each === 'number' ? { status: 'succeeded' as const, deadLetters: each } : { status: each }
    return { stream: 'patients', report: { ...NOTHING, note: null, ...made } }
  }),
})

describe('a run', () => {
  test.each<[RunStatus, readonly TeamSummary[]]>([
    ['succeeded', []],
    ['succeeded', [team(0, 'succeeded', 'succeeded'), team(0, 'succeeded')]],
    ['needs_attention', [team(0, 'succeeded'), team(0, 'succeeded', 'needs_attention')]],
    ['needs_attention', [team(0, 'succeeded'), team(0, 'succeeded', 1)]],
    ['needs_attention', [team(0, 'succeeded'), team(1, 'succeeded')]],
    ['failed', [team(1, 'needs_attention', 1), team(0, 'succeeded', 'failed')]],
    ['interrupted', [team(1, 'needs_attention', 'failed'), team(0, 'succeeded', 'interrupted')]],
  ])('has ended as %s (%#)', (status, teams) => {
    expect(statusOf(teams)).toBe(status)
  })
})

describe('the stored reports of a run', () => {
  let database: TestDatabase
  let session: Session
  let ids: Record<'one' | 'two', number>
  beforeAll(async () => {
    database = await createTestDatabase()
    session = await openSession({ url: database.url, purpose: 'test' })
    ids = { two: await teamIdOf(session.db, 'two'), one: await teamIdOf(session.db, 'one') }
  })
  afterAll(async () => {
    await session.close()
    await database.drop()
  })
  beforeEach(() => rowsOf(session, 'delete from intake_ops.runs'))

  type Part = readonly ['one' | 'two', 'patients' | 'forms' | 'exports', RunStatus | null]
  /** Plans these, and stores a report of each. */
  async function stored(...parts: readonly Part[]): Promise<string> {
    const planned = parts.map(([name, stream]) => ({ teamId: ids[name], stream }))
    const runId = await session.db.transaction().execute((db) => insertRun(db, {}, {}, planned))
    for (const [name, stream, status] of parts) {
      if (status === null) continue
      await rowsOf(
        session,
        'update intake_ops.slices set result = $4 where run_id = $1 and team_id = $2 and stream = $3',
        [runId, ids[name], stream, { ...NOTHING, status, note: null }],
      )
    }
    return runId
  }

  test('are of the teams that it reads, which are named with what was asked for; no team waits for all streams of another', async () => {
    const gone = await teamIdOf(session.db, 'gone')
    await rowsOf(
      session,
      `insert into intake_ops.removed_teams (team_id, name, data) values ($1, 'gone', 'kept')`,
      [gone],
    )
    const planned = await planBackfill({
      ...{ url: database.url, teams: ['one', 'gone', 'two'].map(sourceNamed), streams: [patients, forms] },
      ...{ allowMassDelete: true, window: EVERYTHING, dry: false, migrated: true, isScheduled: true },
      ...{ clock: systemClock, random: Math.random, logger: pino({ level: 'silent' }) },
      ...{ signal: new AbortController().signal, onProgress: () => {} },
    })
    const teams = ['one', 'two']
    expect(planned).toEqual({ runId: planned.runId, teams, slices: 5, workers: 0 })
    expect(await rowsOf(session, 'select kind, options from intake_ops.runs')).toEqual([
      {
        kind: 'backfill',
        options: { streams: ['patients', 'forms'], teams, allow_mass_delete: true, is_detached: true },
      },
    ])
    const spec = { version: 1, kind: 'stream', window: EVERYTHING, allow_mass_delete: true }
    const slices = ['patients', 'forms'].flatMap((stream) =>
      teams.map((name) => ({
        name,
        stream,
        reserves: true,
        spec: { ...spec, source: placeHashOf(sourceNamed(name)) },
      })),
    )
    expect(
      await rowsOf(
        session,
        `select team.name, stream, reserves, spec from intake_ops.slices join intake.teams team using (team_id)
         order by slice_id`,
      ),
    ).toEqual(slices)
  })

  test('of a detached run are left alone by a worker for which the name means another team, and not for a new secret', async () => {
    const team = sourceNamed('one')
    await planBackfill({
      ...{
        url: database.url,
        teams: [team],
        streams: [patients],
        allowMassDelete: false,
        window: EVERYTHING,
      },
      ...{
        dry: false,
        migrated: true,
        clock: systemClock,
        random: Math.random,
        logger: pino({ level: 'silent' }),
      },
      ...{ signal: new AbortController().signal, onProgress: () => {} },
    })
    const claim = (...known: readonly TeamSource[]) =>
      claimSlices(session.db, {
        ...{ owner: 'a worker', teams: ['one', 'two'], streams: ['patients'], most: 8 },
        sources: known.flatMap(sourcesOf),
      })
    const another = { ...team, apiKey: 'of another team' }
    const swapped = { ...team, name: 'two' }
    expect(await claim(another, swapped)).toEqual([])
    expect(await claim({ ...team, baseUrl: 'http://127.0.0.1:2' })).toEqual([])
    expect(
      await claim({ ...team, baseUrl: `${team.baseUrl}/`, apiSecret: 'new', apiVersion: 'v3' }),
    ).toHaveLength(1)
  })

  const USUAL: readonly Part[] = [
    ['one', 'patients', 'succeeded'],
    ['two', 'patients', 'failed'],
    ['one', 'forms', 'succeeded'],
    ['two', 'forms', null],
  ]

  test('are in the order of planning, with the dead letters of these teams and streams that wait', async () => {
    await stored(['one', 'exports', 'failed'])
    const runId = await stored(...USUAL)
    const deadLetter = (id: string) => [{ recordId: id, origin: 'run:1 page:1', reason: 'r', body: '{}' }]
    for (const [at, [name, stream]] of (
      [
        ['one', 'patients'],
        ['one', 'forms'],
        ['one', 'packets'],
        ['two', 'patients'],
        ['two', 'forms'],
      ] as const
    ).entries())
      await storeDeadLetters(session.db, { teamId: ids[name], stream, runId: '1' }, deadLetter(`p${at}`))
    await rowsOf(
      session,
      `update intake_ops.dead_letters set status = 'discarded', settled_at = now() where stream = 'forms' and team_id = $1`,
      [ids.two],
    )
    const teams = await readTeams(session.db, runId)
    expect(
      teams.map(({ name, teamId, waiting, streams }) => {
        return [name, teamId, waiting, streams.map(({ stream, report }) => `${stream} ${report.status}`)]
      }),
    ).toEqual([
      ['one', ids.one, 2, ['patients succeeded', 'forms succeeded']],
      ['two', ids.two, 1, ['patients failed']],
    ])
    await rowsOf(session, 'delete from intake_ops.dead_letters')
  })

  test('name a team whose slices left no report, in its place and without streams', async () => {
    const runId = await stored(
      ['one', 'patients', null],
      ['two', 'patients', 'succeeded'],
      ['one', 'forms', null],
    )
    const teams = await readTeams(session.db, runId)
    expect(teams[0]).toEqual({ teamId: ids.one, name: 'one', streams: [], waiting: 0 })
    expect(teams.map(({ name, streams }) => [name, streams.length])).toEqual([
      ['one', 0],
      ['two', 1],
    ])
    const none = await readTeams(session.db, await stored(['one', 'exports', null]))
    expect(none.map(({ name }) => name)).toEqual(['one'])
  })

  describe('are closed', () => {
    const close = async (runId: string) => BACKFILLS.close!.close(session.db, runId)
    /** The questions of exports cannot be matched for this team. */
    async function withoutQuestions<Result>(teamId: number, work: () => Promise<Result>): Promise<Result> {
      await rowsOf(session, 'alter function intake_raw.match_columns rename to match_columns_of')
      await rowsOf(
        session,
        `create function intake_raw.match_columns(team smallint, e text, f text[], c regclass, n regclass) returns bigint
         language plpgsql as $$ begin
           if team = ${teamId} then raise exception 'no' using errcode = '22012'; end if;
           return intake_raw.match_columns_of(team, e, f, c, n);
         end $$`,
      )
      try {
        return await work()
      } finally {
        await rowsOf(session, 'drop function intake_raw.match_columns')
        await rowsOf(session, 'alter function intake_raw.match_columns_of rename to match_columns')
      }
    }

    test('with the status of the run, the names of its teams, and up-to-date views', async () => {
      const outcome = { status: 'failed', failures: [], stale: null, teams: ['one', 'two'] }
      expect(await close(await stored(...USUAL))).toEqual(outcome)
    })

    test('and questions that cannot be matched fail the run, but only of a team whose exports it read', async () => {
      const read = await stored(['one', 'exports', 'succeeded'], ['two', 'exports', 'succeeded'])
      const { status, failures, teams } = await withoutQuestions(ids.one, () => close(read))
      expect([status, teams]).toEqual(['failed', ['one', 'two']])
      expect(failures).toEqual([expect.stringMatching(/^one: /)])
      const other = await withoutQuestions(ids.two, () => close(read))
      expect(other.failures).toEqual([expect.stringMatching(/^two: /)])
      const unread = await stored(['one', 'patients', 'succeeded'])
      expect(await withoutQuestions(ids.one, () => close(unread))).toMatchObject({
        ...{ status: 'succeeded', failures: [] },
      })
    })
  })
})
