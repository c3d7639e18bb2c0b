/**
 * Law 10 for what is read: whatever one asks about a team, the answer is the one that a warehouse gives that has no other
 * team. The other has the same ids everywhere, so a question that leaves out the team anywhere is answered differently.
 */
import { describe, expect, it } from 'vitest'
import { listAccess } from '../../src/analytics/access.ts'
import { countQuestions, listQuestions } from '../../src/analytics/classify.ts'
import { systemClock } from '../../src/core/clock.ts'
import type { Instant } from '../../src/core/time.ts'
import { teamsDue } from '../../src/extract/conflicts/due-rows.ts'
import { missedBefore } from '../../src/extract/reading/read-exports.ts'
import { countLive, openSeenIds } from '../../src/extract/scan/seen-ids.ts'
import type { Source } from '../../src/extract/source.ts'
import { openUsualFields, overtaken } from '../../src/ingest/drain/current.ts'
import { isAnyDue, takeDue } from '../../src/ingest/drain/inbox-rows.ts'
import { countWaiting, waitingIds } from '../../src/load/dead-letters.ts'
import { erasedAmong, hashesOf } from '../../src/load/erasures.ts'
import { storedExports } from '../../src/load/exports/export-file.ts'
import { storedVersions } from '../../src/load/merge/skip-unchanged.ts'
import { cursorOf } from '../../src/load/slice.ts'
import { countRaised, readAlerts } from '../../src/operate/alerts/alert-rows.ts'
import { findConditions } from '../../src/operate/alerts/conditions.ts'
import { listDeadLetters } from '../../src/operate/dead-letters.ts'
import { previewErasure } from '../../src/operate/erase/erase.ts'
import { findClients, findIdentities } from '../../src/operate/erase/identities.ts'
import { explain } from '../../src/operate/explain.ts'
import { readRuns } from '../../src/operate/health/runs.ts'
import { readStatus } from '../../src/operate/health/status.ts'
import { readInbox, readTrouble, readWebhooks } from '../../src/operate/health/team-status.ts'
import { openWebhookChecks } from '../../src/operate/health/webhook-checks.ts'
import { ALL_STREAMS, streamNamed } from '../../src/streams/catalogue.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { listTeams } from '../../src/warehouse/teams.ts'
import { query } from '../e2e/support/scene.ts'
import { changesBetween, rowsOfTeam, withoutTeam } from '../support/team-rows.ts'
import { NAMES, type Twin, type Twins } from '../support/twins.ts'

interface Place {
  readonly url: string
  readonly session: Session
  readonly one: Twin
}

type Read = (place: Place) => Promise<unknown>

/** The part of one team in results about several. */
const own = <Row extends { readonly team?: string; readonly name?: string }>(
  rows: readonly Row[],
  { name }: Twin,
) => rows.filter((row) => (row.team ?? row.name) === name)

/** Of each stream some. */
const SOME_IDS = ['p1', 'p4', 'p10', 'r1', 'r4', 'f', 'k', 'k-first', 'd', 'e', 'e2', 'm-p1', 'w', 'v']
/** By then everything had been read. */
const LATER = '2100-01-01T00:00:00.000000Z' as Instant

const READS: Readonly<Record<string, Read>> = {
  status: async ({ url, one }) => {
    const { streams, teams } = await readStatus(url, 30)
    return [own(streams, one), own(teams, one)]
  },
  'teams list': async ({ url, one }) => own(await listTeams(url), one),
  'metrics of runs and dead letters': async ({ session, one }) => own(await readTrouble(session.db), one),
  'the other metrics': async ({ session: { db }, one }) => [
    own(await readInbox(db), one),
    own(await countRaised(db), one),
    own(await readWebhooks(db, { inboxDays: 30 }), one),
  ],
  runs: async ({ url, one }) =>
    (await readRuns(url, 100)).flatMap(({ run_id, streams }) =>
      own(streams, one).map((stream) => ({ run_id, ...stream })),
    ),
  'the conditions of alerts': async ({ session, one }) => await conditionsOf(session, [one.name]),
  alerts: async ({ session, one }) => await readAlerts(session.db, [one.name]),
  'dead letters': async ({ session, one }) =>
    await listDeadLetters(session.db, { team: one.name, limit: 1_000 }),
  questions: async ({ session, one: { teamId } }) => [
    await listQuestions(session.db, { teamId }),
    await countQuestions(session.db, { teamId, form: 'Intake' }, 'story'),
  ],
  'who may read': async ({ session, one }) => own(await listAccess(session.db), one),
  'explain of some records': async ({ url, one: { teamId } }) => {
    const records = await query<{ stream: string; id: string }>(
      url,
      'select stream, id from intake_raw.records where team_id = $1 and id = any ($2) order by 1, 2',
      [teamId, SOME_IDS],
    )
    const explained: unknown[] = []
    for (const { stream, id } of records) {
      const key = { teamId, stream: streamNamed(stream)!, id }
      const { runs, ...found } = await explain(url, key, 'v2.1')
      explained.push({ ...found, runs: [...runs] })
    }
    return explained
  },
  'what erase would remove': async ({ url, session, one: { teamId } }) => {
    const patients = await query<{ id: string }>(
      url,
      'select id from intake.patients where team_id = $1 order by id',
      [teamId],
    )
    const previews: unknown[] = []
    for (const { id } of patients) {
      const { found, erasedBefore } = await previewErasure(url, { teamId, id })
      const identities = await findIdentities(session.db, { teamId, id }, found)
      const clients = await findClients(session.db, { teamId, id }, identities)
      previews.push([id, [...found], erasedBefore, identities, clients])
    }
    return previews
  },
  'who was erased': async ({ session, one: { teamId } }) => {
    const erasures = await hashesOf(session.db, teamId)
    const hashes = ['p6', 'p12'].map((id) => erasures.hashOf({ stream: 'patients', id }))
    return [...(await erasedAmong(session.db, hashes))]
  },
  'what a drain takes, and what that overtakes': async ({ session, one: { teamId } }) => {
    await session.client.query('begin')
    const rows = await takeDue(session, [teamId], 3)
    const passed = await overtaken(session, rows.slice(1))
    await session.client.query('rollback')
    return [rows.map(({ seq }) => seq), [...passed], await isAnyDue(session, [teamId])]
  },
  'the usual fields of a stream': async ({ session, one: { teamId } }) => {
    const usual = openUsualFields(systemClock)
    const fields: unknown[] = []
    for (const stream of ALL_STREAMS) fields.push([...(await usual.of(session, stream, [teamId]))])
    return fields
  },
  'what a backfill knows of each stream': async ({ session, one: { teamId } }) => {
    const known: unknown[] = []
    for (const stream of ALL_STREAMS) {
      const place = { teamId, stream: stream.name, table: stream.table, runId: '0' }
      const seen = await openSeenIds(session)
      seen.add('p1')
      known.push(
        await cursorOf(session.db, { ...place, slice: '' }),
        await countLive(session, place),
        await countWaiting(session.db, teamId, [stream.name]),
        [...(await waitingIds(session.db, place, 1_000))].sort(),
        await seen.missing(place, LATER, 1_000),
        await teamsDue(session.db, [{ teamId, streams: [stream.name] }], 1e9),
        [...(await storedVersions(session.db, place, SOME_IDS))].sort(),
        await missedBefore({ taken: place } as unknown as Source, session, SOME_IDS),
      )
    }
    return [known, [...(await storedExports(session.db, teamId, ['e', 'e2']))]]
  },
}

/** Every condition, however long the warehouse takes to find one. */
export async function conditionsOf({ db }: Session, teams: readonly string[]) {
  for (;;) {
    const { conditions, late } = await findConditions(db, {
      ...{ inboxSeconds: 0, maxAgeHours: 0.000_001, teams, thorough: true, raised: new Set<string>() },
      webhookChecks: openWebhookChecks({ inboxDays: 30 }),
    })
    if (late.length === 0) return conditions
  }
}

/** Without ages, which grow between two reads, and in one order: many queries return rows in any. */
export const withoutAges = (value: unknown): unknown =>
  sorted(
    JSON.parse(
      JSON.stringify(value, (key, each: unknown) => {
        if (/seconds|hours|minutes|lag/.test(key)) return null
        return each instanceof Map || each instanceof Set ? [...each] : each
      }) ?? 'null',
    ),
  )

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) {
    const texts = value.map((each) => JSON.stringify(sorted(each))).sort()
    return texts.map((text) => JSON.parse(text) as unknown)
  }
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, sorted(each)]))
}

export async function answersOf({ url }: Twins, one: Twin): Promise<Readonly<Record<string, unknown>>> {
  await using session = await openSession({ url, purpose: 'test' })
  const found: Record<string, unknown> = {}
  for (const [what, read] of Object.entries(READS))
    found[what] = withoutAges(await read({ url, session, one }))
  return found
}

export function readsApart(twinsOf: () => Twins): void {
  describe.each(NAMES)('what is read of %s is the same whether the other is there or not:', (name) => {
    it('every table and view', async () => {
      const { url, [name]: one } = twinsOf()
      const together = await rowsOfTeam(url, one.teamId)
      const alone = await withoutTeam(url, twinsOf().other(one).teamId, () => rowsOfTeam(url, one.teamId))
      // A run of both is a run of one then.
      const changes = changesBetween(together, alone).filter((line) => !line.startsWith('+ intake_ops.runs '))
      expect(changes).toEqual([])
    })

    it('every question that the program asks', async () => {
      const { url, [name]: one } = twinsOf()
      const answers = () => answersOf(twinsOf(), one)
      const together = await answers()
      for (const [what, answer] of Object.entries(together))
        expect([what, JSON.stringify(answer).length]).toEqual([
          what,
          expect.toSatisfy((length) => length > 2),
        ])
      const alone = await withoutTeam(url, twinsOf().other(one).teamId, answers)
      expect(alone).toEqual(together)
    })
  })
}
