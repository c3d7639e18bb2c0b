/**
 * Streams do not affect each other, to the byte: one team whose records of all streams have the same id. Whatever is done
 * for one stream, every row of the others is the one that it was; and what is read of it does not depend on theirs.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import type { StreamName } from '../../src/core/envelope.ts'
import type { Instant } from '../../src/core/time.ts'
import { teamsDue } from '../../src/extract/conflicts/due-rows.ts'
import { missedBefore } from '../../src/extract/reading/read-exports.ts'
import { countLive, openSeenIds } from '../../src/extract/scan/seen-ids.ts'
import type { Source } from '../../src/extract/source.ts'
import { openUsualFields } from '../../src/ingest/drain/current.ts'
import { countWaiting, storeDeadLetters, waitingIds } from '../../src/load/dead-letters.ts'
import { storedVersions } from '../../src/load/merge/skip-unchanged.ts'
import { cursorOf } from '../../src/load/slice.ts'
import { listDeadLetters } from '../../src/operate/dead-letters.ts'
import { explain } from '../../src/operate/explain.ts'
import { readStatus } from '../../src/operate/health/status.ts'
import { readTrouble } from '../../src/operate/health/team-status.ts'
import { verify } from '../../src/reconcile/verify/verify.ts'
import { ALL_STREAMS, streamNamed } from '../../src/streams/catalogue.ts'
import type { Stream } from '../../src/streams/stream.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { type LittleService, startLittleService } from '../e2e/support/little-service.ts'
import { openScene, type Scene, silent } from '../ingest/drain/scene.ts'
import { runCommand } from '../support/run-command.ts'
import { changesBetween, relations, type TeamRows, withoutRows } from '../support/team-rows.ts'
import { conditionsOf, withoutAges } from './reads-apart.ts'

let scene: Scene
let service: LittleService
let rounds = 0

const at = (day: number) => new Date(Date.UTC(2026, 0, day)).toISOString()
const stamps = (day = 2) => ({ created_at: at(1), updated_at: at(day) })

/** A record of each resource; all have the same id, and name another patient than that one. */
const RECORDS = {
  patients: () => ({ id: 'same', first_name: 'A', last_name: 'A', ...stamps() }),
  forms: () => ({ id: 'same', name: 'Form', questions: [], enabled: true, ...stamps() }),
  packets: () => ({ id: 'same', name: 'Packet', forms: [], ...stamps() }),
  documents: () => ({ id: 'same', name: 'Document', input_fields: [], ...stamps() }),
  responses: () => ({
    ...{ id: 'same', form: { id: 'same' }, patient: { id: 'other' }, is_submitted: true, answers: [] },
    ...{ submitted_at: at(2), ...stamps() },
  }),
  messages: () => ({
    ...{ id: 'same', patient: { id: 'other' }, form: { id: 'same' }, status: 'sent', sent_at: at(2) },
    ...stamps(),
  }),
  exports: () => ({ id: 'same', name: 'Export', form: { id: 'same', name: 'Form' }, created_at: at(1) }),
  webhookConfigs: () => ({
    ...{ id: 'same', target_url: 'https://x.example.com', event_types: ['updated'], sources: ['patient'] },
    ...{ is_active: true, created_at: at(1) },
  }),
  webhookDeliveries: () => ({
    ...{ id: 'same', event_id: 'e', webhook_config_id: 'same', event_type: 'updated', source: 'patient' },
    ...{ status: 'delivered', response_status_code: 200, created_at: at(1) },
  }),
} as const
const FILE = `Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Q\nother,A,B,,,,False,x\n`

const run = async (...words: string[]) => {
  const ended = await runCommand(words, {
    ...{
      ...service.env,
      DATABASE_URL: scene.url,
      LOG_LEVEL: 'error',
      INTAKE_ANALYTICS_KEY: 'a key that only this test has',
    },
  })
  if (ended.code !== 0 && ended.code !== 4) throw new Error(`${words.join(' ')}: ${ended.output}`)
  return ended.stdout
}

/** Without the pauses of `verify` before it looks again. */
async function verifyStreams(streams: readonly Stream[], repair: boolean): Promise<void> {
  const access = { apiKey: 'k', apiSecret: 's', apiVersion: 'v2.1', concurrency: 4 }
  const { status } = await verify({
    ...{ url: scene.url, streams, deep: !repair, random: Math.random, logger: silent, onProgress: () => {} },
    teams: [{ name: 'default', baseUrl: service.url, ...access }],
    repair: repair ? { allowMassDelete: false } : null,
    clock: { ...systemClock, sleep: (_, signal) => systemClock.sleep(1, signal) },
    signal: new AbortController().signal,
  })
  expect(['succeeded', 'needs_attention']).toContain(status)
}

/** Newer than whatever was read so far. */
const soon = () => {
  rounds += 1
  return new Date(Date.now() + rounds * 10).toISOString()
}
const event = (source: string, data: object) => {
  const stamp = soon()
  return {
    ...{ id: `event-${rounds}`, timestamp: stamp, event_type: 'updated', source },
    data: { id: 'same', ...data, updated_at: stamp },
  }
}
const recordOf = (name: StreamName): object =>
  name === 'packet_responses'
    ? { packet: { id: 'same' }, is_submitted: false, responses: [], ...stamps() }
    : (service.records[name as keyof typeof RECORDS]?.[0] ?? {})

const store = (events: Parameters<Scene['store']>[0]) =>
  scene.store(events, { receivedAt: `${new Date().toISOString().slice(0, -1)}000Z` as Instant })

const teamId = () => scene.teamId
const place = (stream: StreamName) => ({ teamId: teamId(), stream, runId: '0', slice: '' })

async function deadLetter(stream: StreamName, recordId: string | null): Promise<number> {
  rounds += 1
  await using session = await openSession({ url: scene.url, purpose: 'test' })
  const planted = {
    recordId,
    origin: 'run:1 page:1',
    reason: `planted ${recordId}`,
    body: JSON.stringify(recordOf(stream)),
  }
  await storeDeadLetters(session.db, place(stream), [planted])
  const [row] = await scene.rows<{ id: number }>('select max(id)::int as id from intake_ops.dead_letters')
  return row!.id
}

beforeAll(async () => {
  scene = await openScene()
  service = await startLittleService()
  for (const [name, record] of Object.entries(RECORDS))
    service.records[name as keyof typeof RECORDS].push({ ...record() })
  service.interfere = ({ method }, response) => {
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end(FILE)
    return method === 'POST'
  }
  await run('backfill')
  // Every stream has a superseded state, and an event that was drained.
  await store(
    ALL_STREAMS.flatMap(({ name, source }) =>
      source === undefined ? [] : event(source, { ...recordOf(name), more: name }),
    ),
  )
  await scene.drain()
  await verifyStreams(ALL_STREAMS, false)
  // The newest run is of another stream than those that are looked at.
  await run('backfill', '--streams', 'messages')
  for (const { name } of ALL_STREAMS) await deadLetter(name, 'same')
  await scene.rows(
    `with stream as (select * from unnest($2::text[]) as stream (name)), asked as (
       insert into intake_ops.refetches (team_id, stream, id, reason, origin, due_at)
       select $1, name, 'same', 'contested', 'event:x', now() + interval '1 day' from stream on conflict do nothing
     ), missed as (
       insert into intake_ops.missed_once (team_id, stream, id, run_id) select $1, name, 'same', 1 from stream
     ), entries as (
       insert into intake_raw.list_entries (team_id, stream, id, hash) select $1, name, 'same', '\\x00' from stream
       on conflict do nothing
     ), alerts as (
       insert into intake_ops.alerts (team_id, cause, stream, figures) select $1, 'drift', name, '{}' from stream
     ), pruned as (
       insert into intake_ops.pruned_logs (team_id, stream, before) select $1, name, '2001-01-01' from stream
     ), removed as (
       insert into intake_raw.removed_records (team_id, stream, key) select $1, name, 'gone' from stream
     ), lines as (
       insert into intake_ops.run_log (run_id, line, at, level, team_id, stream, message)
       select run.id, 1000 + number, now(), 'info', $1, name, 'planted'
       from unnest($2::text[]) with ordinality as stream (name, number), (select max(run_id) as id from intake_ops.runs) run
     ), progress as (
       insert into intake_ops.run_progress
         (run_id, team_id, stream, phase, pages, requests, throttled, fetched, began_at)
       select run.id, $1, name, 'ended', 1, 1, 0, 1, now() from stream, (select max(run_id) as id from intake_ops.runs) run
       on conflict do nothing
     ), slices as (
       insert into intake_ops.slices (run_id, team_id, stream, spec, state)
       select run.id, $1, name, '{}', 'done' from stream, (select max(run_id) as id from intake_ops.runs) run
     ), scans as (
       insert into intake_ops.scans (team_id, stream, request, started_at, began_at, first_page, pages)
       select $1, name, 'planted', now(), now(), '{}', 1 from stream
     ), scan_pages as (
       insert into intake_ops.scan_pages (team_id, stream, page, facts, ids) select $1, name, 1, '{}', '{planted}' from stream
     ), problems as (
       insert into intake_ops.problems (team_id, stream, path, reason) select $1, name, 'more', 'planted' from stream
     )
     insert into intake_ops.drift (team_id, stream, path, type) select $1, name, 'more', 'string' from stream
     on conflict do nothing`,
    [teamId(), ALL_STREAMS.map(({ name }) => name)],
  )
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await scene[Symbol.asyncDispose]()
})

/** By table, the condition of the rows that belong to other streams. */
async function conditionsOfOthers({ name, table, children, source }: (typeof ALL_STREAMS)[number]) {
  const own = new Set([table, ...children.map((child) => child.table)].map((each) => `intake.${each}`))
  const withStream = await scene.rows<{ name: string; is_view: boolean }>(
    `select format('%I.%I', n.nspname, c.relname) as name, c.relkind = 'v' as is_view
     from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
     where n.nspname ~ '^intake' and a.attname = 'stream' and not c.relispartition and c.relkind in ('r', 'p', 'v')
       and c.relname <> 'changes'`,
  )
  const tables = (await relations(scene.url, true)).filter(
    (each) => each.name.startsWith('intake.') && !each.is_view && each.name !== 'intake.teams',
  )
  return [
    [
      'intake_raw.set_aside',
      `dead_letter_id in (select id from intake_ops.dead_letters where stream <> '${name}')`,
      false,
    ],
    // The slice that ends a run has no stream.
    ...withStream.map(({ name: each, is_view }) => {
      const ofStreams = each === 'intake_ops.slices' ? 'team_id is not null and ' : ''
      return [each, `${ofStreams}stream <> '${name}'`, is_view] as const
    }),
    ...tables.filter((each) => !own.has(each.name)).map((each) => [each.name, 'true', false] as const),
    ['intake_raw.inbox', `source is distinct from '${source ?? 'none'}'`, false],
  ] as readonly (readonly [name: string, condition: string, isView: boolean])[]
}

async function rowsOfOthers(stream: (typeof ALL_STREAMS)[number]): Promise<TeamRows> {
  const conditions = await conditionsOfOthers(stream)
  const parts = conditions.map(([name, condition, isView]) => {
    const line = isView ? `(to_jsonb(t) - 'lag')::text` : `t.xmin::text || ' ' || t::text`
    return `select '${name}' as name, ${line} as line from ${name} t where ${condition}`
  })
  const rows = await scene.rows<{ name: string; line: string }>(`${parts.join(' union all ')} order by 1, 2`)
  const found = new Map<string, string[]>(conditions.map(([name]) => [name, []]))
  for (const { name, line } of rows) found.get(name)!.push(line)
  return found
}

it('every table with a stream has rows of several', async () => {
  for (const name of ['patients', 'forms'] as const) {
    const rows = await rowsOfOthers(streamNamed(name)!)
    const empty = [...rows].flatMap(([table, lines]) => (lines.length === 0 ? [table] : []))
    // Parts of records, which these records have none of.
    expect(empty.filter((table) => !table.startsWith('intake.'))).toEqual([])
  }
})

interface Action {
  readonly what: string
  prepare?(name: StreamName): Promise<unknown>
  act(name: StreamName): Promise<unknown>
}

const ACTIONS: readonly Action[] = [
  { what: 'a backfill', act: (name) => run('backfill', '--streams', name) },
  {
    what: 'the drain of an event',
    prepare: (name) => store([event(streamNamed(name)!.source!, { ...recordOf(name), more: 'again' })]),
    act: () => scene.drain(),
  },
  {
    what: 'the drain of an event of less than the record',
    prepare: (name) => store([event(streamNamed(name)!.source!, {})]),
    act: () => scene.drain(),
  },
  {
    what: 'dead-letters retry',
    prepare: (name) => deadLetter(name, 'same'),
    act: async (name) => run('dead-letters', 'retry', String(await deadLetter(name, 'same'))),
  },
  {
    what: 'dead-letters discard, and the same dead letter again',
    act: async (name) => {
      await run('dead-letters', 'discard', String(await deadLetter(name, 'discarded')))
      await deadLetter(name, 'discarded')
    },
  },
  { what: 'replay', act: (name) => run('replay', '--streams', name) },
  {
    what: 'replay of the inbox',
    act: (name) => run('replay', '--inbox', '--since', '2025-01-01', '--streams', name),
  },
  {
    what: 'verify with repair',
    prepare: (name) => scene.rows(`delete from intake.${streamNamed(name)!.table} where id = 'same'`),
    act: (name) => verifyStreams([streamNamed(name)!], true),
  },
  {
    what: 'a full backfill that finds the record changed',
    prepare: async (name) => {
      const records = service.records[name as keyof typeof RECORDS]
      records[0] = { ...records[0]!, name: 'another', last_name: 'another', updated_at: soon() }
    },
    act: (name) => run('backfill', '--full', '--streams', name),
  },
  {
    what: 'a full backfill that finds it gone',
    prepare: async (name) => service.records[name as keyof typeof RECORDS].splice(0),
    act: (name) => run('backfill', '--full', '--streams', name),
  },
]

describe.each(['patients', 'forms'] as const)('%s,', (name) => {
  const stream = streamNamed(name)!
  const isOther = (line: { stream?: string }) => line.stream === name

  it('reads return the same without the other streams', async () => {
    const answers = async () => {
      await using session = await openSession({ url: scene.url, purpose: 'test' })
      const { db } = session
      const seen = await openSeenIds(session)
      const known = { ...place(name), table: stream.table }
      const usual = await openUsualFields(systemClock).of(session, stream, [teamId()])
      const { runs, ...explained } = await explain(
        scene.url,
        { teamId: teamId(), stream, id: 'same' },
        'v2.1',
      )
      return withoutAges([
        (await readStatus(scene.url, 30)).streams.filter(isOther),
        (await readTrouble(db)).filter(isOther),
        (await conditionsOf(session, ['default'])).filter(isOther),
        await listDeadLetters(db, { stream: name, limit: 100 }),
        [explained, [...runs]],
        await countLive(session, known),
        await countWaiting(db, teamId(), [name]),
        await waitingIds(db, known, 100),
        [...(await storedVersions(db, known, ['same']))],
        await seen.missing(known, '2100-01-01T00:00:00.000000Z' as Instant, 10),
        await teamsDue(db, [{ teamId: teamId(), streams: [name] }], 1e9),
        await missedBefore({ taken: known } as unknown as Source, session, ['same']),
        await cursorOf(db, known),
        [...usual],
        await scene.rows(
          `select newest_record_at, last_run_at from intake_analytics.freshness where stream = $1`,
          [name],
        ),
      ])
    }
    const together = await answers()
    const others = (await conditionsOfOthers(stream)).filter(([, , isView]) => !isView)
    expect(
      await withoutRows(
        scene.url,
        others.map(([table, condition]) => [table, condition]),
        answers,
      ),
    ).toEqual(together)
  })

  it.each(ACTIONS)('$what of them changes no row of another stream', async ({ prepare, act }) => {
    await prepare?.(name)
    const before = await rowsOfOthers(stream)
    const whole = await scene.rows(`select xmin, * from intake_ops.dead_letters where stream = $1`, [name])
    await act(name)
    expect(changesBetween(before, await rowsOfOthers(stream))).toEqual([])
    expect(whole.length).toBeGreaterThan(0)
  })
})

it('erase of a patient leaves the records of other streams that have the patient’s id', async () => {
  service.records.patients.push({ ...RECORDS.patients() })
  await run('backfill', '--streams', 'patients')
  const stream = streamNamed('patients')!
  const before = await rowsOfOthers(stream)
  await run('erase', 'patient', 'same', '--yes')
  const changes = changesBetween(before, await rowsOfOthers(stream))
  // Events name the patient whom their records are of, and the hash of the erased id is no stream's.
  expect(changes).toEqual([])
  expect(
    await scene.rows(`select from intake_raw.records where stream = 'patients' and id = 'same'`),
  ).toEqual([])
})
