/** Commands, metrics and views that only look read changes and kept figures, and no table of records. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { refreshAnalytics } from '../../../src/analytics/refresh.ts'
import { readOverview } from '../../../src/console/pages/overview.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { openGauges } from '../../../src/operate/health/gauges.ts'
import { openMetrics } from '../../../src/operate/health/registry.ts'
import { openWebhookChecks } from '../../../src/operate/health/webhook-checks.ts'
import { ALL_STREAMS } from '../../../src/streams/catalogue.ts'
import { openBoundedQueries } from '../../../src/warehouse/bounded-queries.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { explainedUrl, type Watching, watchPlans } from '../../support/plans.ts'
import { runCommand } from '../../support/run-command.ts'

/** Rows of each table. */
const STORED = 10_000
/** Rows of one table that one statement may read: far fewer than there are, and more than any reader needs. */
const MAX_ROWS = 500

let database: TestDatabase
let session: Session
let watching: Watching

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'readers' })
  await fill()
  watching = watchPlans()
}, 120_000)

afterAll(async () => {
  watching?.[Symbol.dispose]()
  await session?.close()
  await database?.drop()
})

const run = (text: string) => session.client.query(text)

async function fill(): Promise<void> {
  await run(`insert into intake.teams (name) values ('default'), ('other')`)
  const numbers = `generate_series(1, ${STORED}) n`
  const at = `timestamptz '2026-01-01' + n * interval '1 second'`
  for (const { name, table, columns } of ALL_STREAMS) {
    const times = ['created_at', 'updated_at'].filter((each) =>
      columns.some((column) => column.name === each),
    )
    const form = columns.some((column) => column.name === 'form_id') ? ['form_id'] : []
    const own = [...times.map(() => at), ...form.map(() => `'f' || n % 20`)]
    await run(
      `insert into intake.${table} (${['team_id', 'id', '_version', '_origin', '_hash', ...times, ...form].join(', ')})
       select ${['1', `'r' || n`, at, `'run:1 page:1'`, `decode(md5(n::text), 'hex')`, ...own].join(', ')} from ${numbers}`,
    )
    await run(
      `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, payload)
       select 1, '${name}', 'r' || n, ${at}, now(), decode(md5(n::text), 'hex'), 'run:1 page:1', '{"a": 1}' from ${numbers}`,
    )
  }
  await run(
    `insert into intake.response_answers (team_id, response_id, position, value_position, question_id, value_text)
     select 1, 'r' || n, 1, 1, 'q', 'yes' from ${numbers}`,
  )
  await run(
    `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin)
     select 1, 'patients', 'r' || n, '2025-01-01', '2025-01-01', false, '', 'run:0 page:1' from ${numbers}`,
  )
  await run(
    `insert into intake_raw.inbox_rest (team_id, event_id, body_hash, received_on, received_at, seq, source, record_id, body, status, settled_at)
     select 1, 'e' || n, sha256(n::text::bytea), (now() at time zone 'UTC')::date, now(), -n, 'patient', 'r' || n, '', 'done', now()
     from ${numbers}`,
  )
  await run(
    `insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason, status)
     select 1, 'patients', 'x' || n, n::text, 'run:1 page:1', '', 'resolved' from ${numbers}`,
  )
  await run(
    `insert into intake_ops.erasures (team_id, hash, patient_hash)
     select 1, sha256(n::text::bytea), sha256(n::text::bytea) from ${numbers}`,
  )
}

const open = async (work: (own: Session) => Promise<unknown>) => {
  await using own = await openSession({ url: explainedUrl(database.url), purpose: 'reader' })
  await work(own)
}
const env = () => ({
  DATABASE_URL: explainedUrl(database.url),
  INTAKE_API_KEY: 'k',
  INTAKE_API_SECRET: 's',
  INTAKE_BASE_URL: 'http://127.0.0.1:9',
})

const READERS: Readonly<Record<string, () => Promise<unknown>>> = {
  status: () => runCommand(['status'], env()),
  freshness: () => open(({ client }) => client.query('select * from intake_analytics.freshness')),
  refresh: () => open(({ db }) => refreshAnalytics(db)),
  doctor: () => runCommand(['doctor'], env()),
  metrics: async () => {
    const url = explainedUrl(database.url)
    await using bounded = openBoundedQueries(url)
    await openGauges({
      ...{ url, bounded, registry: openMetrics().registry, clock: systemClock, inboxDays: 30 },
      inFlight: () => ({ events: 0, bytes: 0 }),
    }).refresh()
  },
  overview: () =>
    open(({ db }) =>
      readOverview(db, { maxAgeHours: 26, webhookChecks: openWebhookChecks({ inboxDays: 30 }) }),
    ),
}

test.each(Object.keys(READERS))('%s reads no table of records', async (name) => {
  if (name === 'refresh') {
    // The first one reads all responses, and this change is the only one since. While a transaction of the server is
    // older than the rows, the second one would read them again.
    await expect
      .poll(async () => {
        const { rows } = await run(
          `select max(change_seq) < pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20 as over from intake_raw.records`,
        )
        return rows[0].over
      })
      .toBe(true)
    await READERS[name]!()
    await run(
      `with changed as (update intake_raw.records set change_seq = default where stream in ('patients', 'responses') and id = 'r7')
       update intake.responses set form_id = 'other' where id = 'r7'`,
    )
  }
  watching.take()
  await READERS[name]!()
  const plans = watching.take()
  expect(plans.length).toBeGreaterThan(1)
  const found = plans.flatMap(({ statement, scans }) =>
    scans.flatMap(({ table, node, rows }) =>
      rows > MAX_ROWS && !table.startsWith('pg_catalog.')
        ? [`${rows} rows of ${table} by ${node}: ${statement.slice(0, 150)}`]
        : [],
    ),
  )
  expect([...new Set(found)]).toEqual([])
  if (name !== 'refresh') return
  const { rows } = await run(`select form_id from intake_raw.answered_questions where form_id = 'other'`)
  expect(rows).toHaveLength(1)
})
