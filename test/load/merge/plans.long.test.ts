/**
 * Pages that statements read of tables with a million rows: those of the given keys, and no more.
 *
 * Real batches run through the real code, with and without statistics. The oldest Postgres is the strictest (`npm run
 * test:oldest -- --config vitest.long.config.ts test/load/plans`): before version 18 a plan that must scan a staging
 * table while sequential scans are off costs so much that all others seem equal.
 */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openRefetcher } from '../../../src/extract/conflicts/refetcher.ts'
import { openDrain } from '../../../src/ingest/drain/drain.ts'
import { openIngester } from '../../../src/ingest/http/server.ts'
import { nextPortion, recordsOf } from '../../../src/reconcile/expected-from-raw.ts'
import { describeTables } from '../../../src/reconcile/expected-tables.ts'
import { rewritePart } from '../../../src/reconcile/rewrite.ts'
import { patients } from '../../../src/streams/patients.ts'
import { openSession, PLANNER, type Session } from '../../../src/warehouse/connect.ts'
import { type LittleService, startLittleService } from '../../e2e/support/little-service.ts'
import { noonPlus, patient, silent, unwatched } from '../../ingest/drain/scene.ts'
import { known, PATIENT, post, SECRET } from '../../ingest/support/ingest.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { explainedUrl, type Plan, type Watching, watchPlans } from '../../support/plans.ts'
import { runCommand } from '../../support/run-command.ts'

const STORED = 1_000_000
/** Some portions or batches of at most 2,500 records, far from the whole table. */
const MAX_ROWS = 10_000
const TEAMS = [
  { name: 'default', teamId: 1 },
  { name: 'other', teamId: 2 },
]
/** The statement that compares all seen ids with all stored ones, once per run, reads everything. */
const ONCE_A_RUN = [/^with absent as materialized/]

let database: TestDatabase
let session: Session
let service: LittleService
let watching: Watching

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'plans' })
  service = await startLittleService()
  await fill()
  watching = watchPlans()
}, 600_000)

afterAll(async () => {
  watching[Symbol.dispose]()
  await service[Symbol.asyncDispose]()
  await session.close()
  await database.drop()
})

const run = (text: string, values: readonly unknown[] = []) => session.client.query(text, [...values])

const idOf = (number: number) => `p${String(number).padStart(8, '0')}`
const ID = `'p' || lpad(number::text, 8, '0')`

/** A million patients with their children and history, and other tables as large as after years of use. */
async function fill(): Promise<void> {
  const tables = {
    'intake.patients': [
      `(team_id, id, first_name, last_name, _version, _origin, _hash, _loaded_at)`,
      `1, ${ID}, 'Ann', 'Other', '2026-01-01T12:00:00Z', 'run:1 page:1', decode(md5(number::text), 'hex'),
        now() - interval '1 day' + number / 25000 * interval '1 second'`,
      STORED,
    ],
    'intake.patient_tags': ['(team_id, patient_id, position, name)', `1, ${ID}, 1, 'tag'`, STORED],
    'intake.patient_emergency_contacts': ['(team_id, patient_id, first_name)', `1, ${ID}, 'Bo'`, STORED],
    'intake.patient_custom_fields': ['(team_id, patient_id, key, value)', `1, ${ID}, 'plan', 'x'`, STORED],
    'intake_raw.records': [
      '(team_id, stream, id, version, observed_at, hash, origin, payload)',
      `1, 'patients', ${ID}, '2026-01-01T12:00:00Z', '2026-01-01T12:00:00Z', decode(md5(number::text), 'hex'), 'run:1 page:1',
        jsonb_set($2::jsonb, '{id}', to_jsonb(${ID}))`,
      STORED,
    ],
    'intake_raw.record_history': [
      '(team_id, stream, id, version, observed_at, deleted, hash, origin)',
      `1, 'patients', ${ID}, '2025-01-01', '2025-01-01', false, '', 'run:0 page:1'`,
      STORED,
    ],
    'intake_raw.inbox_rest': [
      '(team_id, event_id, body_hash, received_on, received_at, seq, source, record_id, body, status, settled_at)',
      `1, 'old ' || number, sha256(number::text::bytea), (now() at time zone 'UTC')::date, now(), -number, 'patient', ${ID}, '', 'done', now()`,
      STORED / 4,
    ],
    'intake_ops.dead_letters': [
      '(team_id, stream, record_id, fingerprint, origin, reason, status)',
      `1, 'patients', 'x' || number, number::text, 'run:1 page:1', '', 'resolved'`,
      STORED / 10,
    ],
    'intake_ops.refetches': [
      '(team_id, stream, id, reason, origin, due_at)',
      `2, 'patients', ${ID}, 'contested', 'event:1', now() + interval '1 day'`,
      STORED / 10,
    ],
    'intake_ops.erasures': [
      '(team_id, hash, patient_hash)',
      `1, sha256(number::text::bytea), sha256(number::text::bytea)`,
      STORED / 10,
    ],
  } as const
  await run(`insert into intake.teams (name) values ('default'), ('other')`)
  const payload = JSON.stringify(patient('', { created_at: noonPlus(0), updated_at: noonPlus(0) }))
  for (const [table, [columns, values, rows]] of Object.entries(tables)) {
    const parts = `select relid::regclass::text as part from pg_partition_tree('${table}') where isleaf`
    for (const { part } of (await run(parts)).rows)
      await run(`alter table ${part} set (autovacuum_enabled = false)`)
    const statement = `insert into ${table} ${columns} select ${values} from generate_series(1, $1::int) number`
    await run(statement, values.includes('$2') ? [rows, payload] : [rows])
  }
}

let serial = 0
const stampIn = (seconds: number) => new Date(Date.now() + seconds * 1_000).toISOString()

/** Events of fifty patients: changed, partial, new, deleted, and older than the stored state. */
async function store(url: string, from: number): Promise<void> {
  const bodies: Buffer[] = []
  const add = (at: number, seconds: number, data: object, type = 'updated') => {
    serial += 1
    const envelope = {
      id: `event-${serial}`,
      timestamp: stampIn(seconds),
      event_type: type,
      source: 'patient',
    }
    bodies.push(Buffer.from(JSON.stringify({ ...envelope, data: { id: idOf(from + at * 997), ...data } })))
  }
  for (let at = 0; at < 50; at++) {
    const id = idOf(from + at * 997)
    const changed = (name: string) => patient(id, { last_name: `${name} ${serial}`, patient_tags: ['a'] })
    if (at % 5 === 0) add(at, 60, changed('ahead'))
    else if (at % 5 === 1) add(at, -60, { last_name: 'in part' })
    else if (at % 5 === 2) add(at, -60, {}, 'deleted')
    else if (at % 5 === 3) add(at, -60, { ...changed('new'), id: `new ${from + at}` })
    else {
      add(at, -60, changed('now'))
      add(at, -90, changed('older'))
    }
  }
  await using ingester = await openIngester({
    ...{
      url,
      host: '127.0.0.1',
      port: 0,
      clock: systemClock,
      logger: silent,
      onStored() {},
      limits: PATIENT,
    },
    teams: [{ ...TEAMS[0]!, secrets: known(SECRET) }],
    watch: { stored() {}, rejected() {}, committed() {} },
  })
  // The last ones a second time.
  for (const body of [...bodies, ...bodies.slice(-5)]) {
    expect((await post(ingester.url, body, { path: '/webhooks/default' })).status).toBe(200)
  }
}

async function drain(url: string): Promise<void> {
  await using opened = openDrain({ url, teams: TEAMS, clock: systemClock, logger: silent, watch: unwatched })
  await opened.idle()
}

async function refetch(url: string, from: number): Promise<void> {
  service.records.patients = Array.from({ length: 50 }, (_, at) =>
    patient(idOf(from + at * 997), { last_name: 'asked for', updated_at: stampIn(-1) }),
  )
  await run('update intake_ops.refetches set due_at = now() where team_id = 1')
  const place = { baseUrl: service.url, apiKey: 'k', apiSecret: 's', apiVersion: 'v2.1', concurrency: 4 }
  await using refetcher = openRefetcher({
    ...{ url, clock: systemClock, random: Math.random, logger: silent, watch: unwatched, pollMs: 20 },
    teams: [{ ...TEAMS[0]!, ...place }],
  })
  await refetcher.idle()
}

/** A list in which two batches changed, some of them in conflict with events. */
async function backfill(url: string, from: number): Promise<void> {
  await store(url, from)
  await drain(url)
  service.records.patients = Array.from({ length: 5_000 }, (_, at) =>
    patient(idOf(from + at * 50), { last_name: `listed ${serial}`, updated_at: stampIn(-1) }),
  )
  const ended = await runCommand(['backfill', '--streams', 'patients'], { ...service.env, DATABASE_URL: url })
  // Nearly all are missing from the list.
  expect(ended.code, ended.output).toBe(4)
}

async function replay(url: string, from: number): Promise<void> {
  await using own = await openSession({ url, purpose: 'replay', planner: PLANNER.load })
  const tables = await describeTables(own, patients)
  const ids = Array.from({ length: 50 }, (_, at) => idOf(from + at * 997))
  await run(`update intake.patients set last_name = 'wrong' where team_id = 1 and id = any ($1)`, [ids])
  const place = { teamId: 1, stream: patients.name }
  const envelopes = await recordsOf(own, place, ids)
  await rewritePart(own, { teamId: 1, tables, envelopes, scope: { kind: 'ids', ids } })
  const portion = await nextPortion(own, place, ids[0]!)
  const scope = { kind: 'range', after: ids[0]!, to: portion.to } as const
  await rewritePart(own, { teamId: 1, tables, envelopes: portion.envelopes, scope })
}

function tooMuch(plans: readonly Plan[]): readonly string[] {
  const found = new Set<string>()
  for (const { statement, scans } of plans) {
    if (ONCE_A_RUN.some((whole) => whole.test(statement))) continue
    for (const { table, node, condition, rows } of scans) {
      if (rows > MAX_ROWS)
        found.add(`${rows} rows of ${table} by ${node} [${condition ?? ''}]: ${statement.slice(0, 200)}`)
    }
  }
  return [...found]
}

for (const statistics of [false, true]) {
  test(`with ${statistics ? '' : 'no '}statistics, only its own keys are read`, async () => {
    if (statistics) await run('analyze')
    const url = explainedUrl(database.url)
    const from = 1 + serial
    const found: Record<string, readonly string[]> = {}
    for (const [name, step] of Object.entries({ store, drain, refetch, backfill, replay })) {
      watching.take()
      await step(url, from)
      const plans = watching.take()
      expect(plans.length, `plans of ${name}`).toBeGreaterThan(5)
      found[name] = tooMuch(plans)
    }
    expect(found).toEqual({ store: [], drain: [], refetch: [], backfill: [], replay: [] })
  })
}
