/**
 * Law 10 for what changes: an action for one of two teams leaves every row of the other, in every table and view, unchanged.
 */
import { beforeAll, expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { openRefetcher } from '../../src/extract/conflicts/refetcher.ts'
import { openWorker } from '../../src/extract/work.ts'
import { storeDeadLetters } from '../../src/load/dead-letters.ts'
import { openReceived } from '../../src/operate/health/received.ts'
import { takeTick } from '../../src/operate/serve/schedule.ts'
import { WORKS } from '../../src/reconcile/slices.ts'
import { openBoundedQueries } from '../../src/warehouse/bounded-queries.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { query } from '../e2e/support/scene.ts'
import { changesBetween, type Relation, rowsOfTeam, type TeamRows } from '../support/team-rows.ts'
import {
  alertTwins,
  change,
  deadLettersOf,
  ERASABLE,
  eventsOf,
  type Name,
  patientOf,
  silent,
  type Twin,
  type Twins,
  unwatched,
  verifyTwins,
} from '../support/twins.ts'

let twins: Twins

interface Action {
  readonly what: string
  /** True if it changes nothing of its own team either. */
  readonly reads?: true
  /** True if its output covers both teams. */
  readonly saysBoth?: true
  /** Prepares the state that the action needs; the rows of the other team are read after that. */
  prepare?(one: Twin): Promise<void>
  act(one: Twin): Promise<unknown>
}

const command = (
  codes: readonly number[],
  words: (one: Twin) => readonly string[] | Promise<readonly string[]>,
) => {
  return async (one: Twin) => twins.done(codes, ...(await words(one)))
}
const own = (...words: readonly string[]) => {
  return command([0, 4], ({ name }) => [...words, '--team', name])
}
const deadLetterOf = async ({ teamId }: Twin, reason: string) => {
  const [id] = await deadLettersOf(twins.url, teamId, 'waiting', reason)
  if (id === undefined) throw new Error(`no dead letterOf waits that "${reason}"`)
  return String(id)
}
async function plannedRun({ name }: Twin): Promise<string> {
  const said = await twins.done(
    [0],
    'backfill',
    '--streams',
    'patients,forms',
    '--detach',
    '--json',
    '--team',
    name,
  )
  return String((JSON.parse(said) as { run_id: number }).run_id)
}
/** The same record for both teams, except for its content. */
async function setAsideOfBoth(recordId: string | null): Promise<void> {
  rounds += 1
  await using session = await openSession({ url: twins.url, purpose: 'test' })
  for (const { name, teamId } of [twins.north, twins.south]) {
    const body = JSON.stringify(patientOf(name, 'p4', { city: `${name} again ${rounds}` }))
    const planted = { recordId, origin: 'run:1 page:1', reason: 'was planted', body }
    await storeDeadLetters(session.db, { teamId, stream: 'patients', runId: '1' }, [planted])
  }
}
const later = (seconds: number) => new Date(Date.UTC(2026, 0, 4, 0, 0, seconds)).toISOString()

/** Other records for each team: the other team's copies must stay. */
const ERASED = { north: ['p6', 'p7'], south: ['p8', 'p13'] } as const

/** Refetches of erased patients' records are pending for both teams. */
async function asksForErasable(): Promise<void> {
  await query(
    twins.url,
    `insert into intake_ops.refetches (team_id, stream, id, reason, origin)
     select team_id, 'patients', id, 'contested', 'event:x' from intake.teams cross join unnest($1::text[]) as id
     on conflict do nothing`,
    [ERASABLE],
  )
}

let rounds = 0

const ACTIONS: readonly Action[] = [
  { what: 'status', reads: true, saysBoth: true, act: command([0], () => ['status', '--json']) },
  { what: 'runs', reads: true, saysBoth: true, act: command([0], () => ['runs', '--json']) },
  {
    what: 'explain of a record',
    reads: true,
    act: own('explain', 'patients', 'p4', '--show-values', '--json'),
  },
  { what: 'classify list', reads: true, act: own('classify', 'list', '--json') },
  { what: 'access list', reads: true, saysBoth: true, act: command([0], () => ['access', 'list', '--json']) },
  { what: 'webhooks list', reads: true, act: own('webhooks', 'list', '--json') },
  { what: 'dead-letters list', reads: true, act: own('dead-letters', 'list', '--status', 'all', '--json') },
  {
    what: 'dead-letters show',
    reads: true,
    act: command([0], async (one) => [
      'dead-letters',
      'show',
      await deadLetterOf(one, 'has no id'),
      '--show-values',
    ]),
  },
  { what: 'the drain of its events', act: ({ drain }) => drain() },
  {
    what: 'a drain that takes one event at a time',
    async prepare({ name, store }) {
      rounds += 1
      await store(...eventsOf(name, `again-${rounds}`, 120 + rounds))
    },
    act: ({ drain }) => drain({ batch: 1, workers: 1 }),
  },
  {
    what: 'refetches after conflicting events',
    async act({ source, teamId }) {
      const teams = [{ ...source, teamId }]
      const options = { url: twins.url, teams, clock: systemClock, logger: silent, watch: unwatched }
      await query(twins.url, 'update intake_ops.refetches set due_at = now() where team_id = $1', [teamId])
      await using refetcher = openRefetcher({ ...options, random: Math.random, pollMs: 10 })
      await refetcher.idle()
    },
  },
  { what: 'a backfill', act: own('backfill') },
  {
    what: 'a full backfill that finds records new, changed, gone and as they were',
    async prepare({ name, service }) {
      change(service, 'p1', { city: `${name} of late`, updated_at: later(1) })
      const { records } = service
      records.patients = records.patients.filter(({ id }) => id !== 'p9')
      records.patients.push(patientOf(name, 'late', { updated_at: later(2) }))
      records.forms[0] = { ...records.forms[0]!, text: `${name} of late`, updated_at: later(3) }
      records.responses = records.responses.filter(({ id }) => id !== 'r3')
      records.exports = records.exports.map((each) => ({ ...each, name: `${each.name} of late` }))
    },
    act: own('backfill', '--full'),
  },
  {
    what: 'a planned run that is canceled before a worker claims it',
    async act(one) {
      return await twins.done([0], 'runs', 'cancel', await plannedRun(one))
    },
  },
  {
    what: 'a planned run that a worker of both teams executes',
    async prepare({ name, service }) {
      change(service, 'p5', { city: `${name} planned`, updated_at: later(20) })
    },
    async act(one) {
      const runId = await plannedRun(one)
      const options = {
        url: twins.url,
        clock: systemClock,
        random: Math.random,
        logger: silent,
        version: '1',
      }
      const teams = [twins.north.source, twins.south.source]
      await using _worker = openWorker({ ...options, teams, works: WORKS, onRunEnded: async () => {} })
      // Some of its records are dead letters.
      await expect
        .poll(() => query(twins.url, 'select status from intake_ops.runs where run_id = $1', [runId]))
        .toEqual([{ status: 'needs_attention' }])
    },
  },
  {
    what: 'a verification',
    async prepare({ name, service }) {
      change(service, 'p2', { city: `${name} unseen`, updated_at: later(10) })
    },
    act: (one) => verifyTwins(twins, [one]),
  },
  {
    what: 'a verification with repair',
    async prepare({ service }) {
      const { records } = service
      records.patients = records.patients.filter(({ id }) => id !== 'p14')
    },
    act: (one) => verifyTwins(twins, [one], { repair: true }),
  },
  {
    what: 'a round of the alerts',
    async prepare({ teamId }) {
      await query(
        twins.url,
        `insert into intake_ops.drift (team_id, stream, path, type) values ($1, 'patients', 'of late', 'string')`,
        [teamId],
      )
    },
    act: ({ name }) => alertTwins(twins, [name]),
  },
  {
    what: 'a round of the alerts that clears one',
    async prepare({ teamId }) {
      await query(
        twins.url,
        `update intake_ops.dead_letters set status = 'resolved', settled_at = now()
         where team_id = $1 and stream = 'inbox' and status = 'waiting'`,
        [teamId],
      )
    },
    act: ({ name }) => alertTwins(twins, [name]),
  },
  {
    what: 'replay',
    async prepare() {
      // Both teams have faults: the other's are left for its own replay.
      await query(twins.url, `update intake.patients set city = 'wrong' where id = 'p3'`)
      await query(twins.url, `delete from intake.patient_tags where patient_id = 'p4'`)
      await query(twins.url, `delete from intake.responses where id = 'r2'`)
    },
    act: own('replay'),
  },
  {
    what: 'replay of the inbox',
    act: command([0, 4], ({ name }) => ['replay', '--inbox', '--since', '2026-01-01', '--team', name]),
  },
  { what: 'classify set', act: own('classify', 'set', 'weight', 'hidden', '--concept', 'weight') },
  { what: 'classify set, of another concept', act: own('classify', 'set', 'story', '--concept', 'tale') },
  { what: 'access revoke', act: command([0], ({ name }) => ['access', 'revoke', 'somebody', name]) },
  { what: 'access grant', act: command([0], ({ name }) => ['access', 'grant', 'intake_analyst', name]) },
  {
    what: 'dead-letters retry, of an event',
    prepare: async ({ name, store, drain }) => {
      rounds += 1
      await store(...eventsOf(name, `retried-${rounds}`, 240 + rounds))
      await drain()
    },
    act: command([0], async (one) => [
      'dead-letters',
      'retry',
      await deadLetterOf(one, 'an event that is not JSON'),
    ]),
  },
  {
    what: 'dead-letters retry, of a record that is asked for',
    prepare: () => setAsideOfBoth('p4'),
    act: command([0], async (one) => ['dead-letters', 'retry', await deadLetterOf(one, 'was planted')]),
  },
  {
    what: 'dead-letters retry, of a record that is read again',
    prepare: () => setAsideOfBoth(null),
    act: command([0], async (one) => ['dead-letters', 'retry', await deadLetterOf(one, 'was planted')]),
  },
  {
    what: 'dead-letters discard',
    act: command([0], async (one) => ['dead-letters', 'discard', await deadLetterOf(one, 'has no id')]),
  },
  { what: 'a backfill that meets again what was discarded', act: own('backfill', '--full') },
  {
    what: 'webhooks create',
    act: own('webhooks', 'create', '--url', 'https://a.example.com/', '--events', 'all', '--sources', 'all'),
  },
  { what: 'webhooks delete', act: own('webhooks', 'delete', 'w1') },
  {
    what: 'the count of what it received',
    async act({ name }) {
      await using bounded = openBoundedQueries(twins.url)
      await using received = openReceived({ bounded, logger: silent })
      received.note(name, false)
    },
  },
  {
    what: 'a moment of its schedule',
    async act({ name }) {
      const taken = { job: 'backfill', due: new Date(), by: '4f9f5b68-9a5e-4b0a-8a53-6b7e5d6f0f11' }
      await takeTick(twins.url, { ...taken, teams: [name] })
    },
  },
  {
    what: 'erase',
    prepare: asksForErasable,
    act: command([0], ({ name }) => ['erase', 'patient', ERASED[name][0], '--yes', '--team', name]),
  },
  {
    what: 'erase with --forget',
    prepare: asksForErasable,
    act: command([0], ({ name }) => [
      'erase',
      'patient',
      ERASED[name][1],
      '--yes',
      '--forget',
      '--team',
      name,
    ]),
  },
  { what: 'a backfill after that', act: own('backfill', '--full') },
]

/** Each action for the team `name`, one after the other. */
export function changesApart(twinsOf: () => Twins, name: Name): void {
  beforeAll(() => {
    twins = twinsOf()
  })

  // Of its own team, views say nothing that the tables do not, and take most of the time.
  const tables = ({ is_view }: Relation) => !is_view
  const ownRows = ({ teamId }: Twin) => rowsOfTeam(twins.url, teamId, tables)
  const allRows = ({ teamId }: Twin) => rowsOfTeam(twins.url, teamId)
  /** The rows after the previous action. */
  let known: { readonly mine: TeamRows; readonly others: TeamRows } | undefined

  it.each(ACTIONS)('$what', async ({ prepare, act, reads = false, saysBoth = false }) => {
    const one = twins[name]
    const other = twins.other(one)
    await prepare?.(one)
    if (prepare !== undefined) known = undefined
    const before = known ?? { mine: await ownRows(one), others: await allRows(other) }
    const said = await act(one)
    known = { mine: await ownRows(one), others: await allRows(other) }
    expect(changesBetween(before.others, known.others)).toEqual([])
    const changes = changesBetween(before.mine, known.mine)
    if (reads) expect(changes).toEqual([])
    else expect(changes.length).toBeGreaterThan(0)
    // Every value contains the name of its team, so that one of the other would show.
    if (typeof said === 'string' && !saysBoth) expect(said).not.toContain(other.name)
  })
}
