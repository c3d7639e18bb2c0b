/** Plans that were prepared while tables were small look up by key once they are large. */
import { expect, test } from 'vitest'
import { TAKE_SHARES } from '../../src/ingest/drain/inbox-rows.ts'
import { CHANGED_OR_PENDING, OTHER_OR_PENDING } from '../../src/load/merge/skip-unchanged.ts'
import {
  LOOK_UP_IN_TRANSACTION,
  NESTED_LOOPS_IN_TRANSACTION,
  openSession,
  PLANNER,
  TID_SCANS_IN_TRANSACTION,
} from '../../src/warehouse/connect.ts'
import { createTestDatabase } from '../support/database.ts'

/** After so many executions, Postgres may keep a plan for all values. */
const TILL_KEPT = 6

test.each([
  [
    'load',
    'pending (smallint, text, text, text[], text[], timestamptz[], timestamptz[], text, boolean)',
    CHANGED_OR_PENDING,
    `pending (1::smallint, 'patients', 'patient', '{p1,p2}', '{00,00}', '{now,now}', '{now,now}', 'run:1 ', false)`,
  ],
  [
    'load',
    'pending (smallint, text, text, text, bytea)',
    OTHER_OR_PENDING,
    `pending (1::smallint, 'patients', 'patient', E'p1\\np2', '')`,
  ],
  ['drain', 'take (smallint[], bigint[], int, bigint)', TAKE_SHARES, `take ('{1,2}', '{0,0}', 500, 8000000)`],
] as const)('of %s', async (purpose, declared, statement, call) => {
  await using database = await createTestDatabase()
  await using session = await openSession({
    url: database.url,
    purpose: 'planner test',
    planner: PLANNER[purpose],
  })
  const { client } = session
  const store = (from: number, to: number) =>
    client.query(
      `insert into intake_raw.inbox
         (team_id, event_id, body_hash, received_on, received_at, source, record_id, body)
       select 1, 'e' || n, sha256(n::text::bytea), '2026-01-01', now(), 'patient', 'p' || n, ''
       from generate_series($1::int, $2::int) n`,
      [from, to],
    )
  await store(1, 3)
  // As autovacuum does, which counts them again only some time after they have grown.
  await client.query('analyze intake_raw.inbox')
  await client.query(`prepare ${declared} as ${statement}`)
  for (let time = 0; time < TILL_KEPT; time++) await client.query(`execute ${call}`)
  await store(4, 5_000)
  const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain (costs off) execute ${call}`)
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
  expect(plan).toMatch(/Index (Only )?Scan using inbox/)
  expect(plan).not.toMatch(/Seq Scan on inbox|Bitmap/)
})

test.each([
  ['LOOK_UP_IN_TRANSACTION', LOOK_UP_IN_TRANSACTION, { enable_nestloop: 'on', enable_seqscan: 'off' }],
  ['NESTED_LOOPS_IN_TRANSACTION', NESTED_LOOPS_IN_TRANSACTION, { enable_nestloop: 'on' }],
  [
    'TID_SCANS_IN_TRANSACTION',
    TID_SCANS_IN_TRANSACTION,
    { enable_indexscan: 'off', enable_bitmapscan: 'off', enable_seqscan: 'off' },
  ],
])(
  '%s changes these settings of the planner, and no longer than the transaction lasts',
  async (_, statement, changes) => {
    await using database = await createTestDatabase()
    await using session = await openSession({ url: database.url, purpose: 'test', planner: PLANNER.compare })
    const settings = async () => {
      const { rows } = await session.client.query<{ name: string; setting: string }>(
        `select name, setting from pg_settings where name like 'enable%' or name ~ 'jit|plan_cache'`,
      )
      return Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))
    }
    const before = await settings()
    expect(before.enable_nestloop).toBe('off')
    await session.client.query('begin')
    await session.client.query(statement)
    expect(await settings()).toEqual({ ...before, ...changes })
    await session.client.query('commit')
    expect(await settings()).toEqual(before)
  },
)

test('a session has its own settings, and those of its purpose in addition, whatever the server has', async () => {
  await using database = await createTestDatabase({ empty: true })
  const settingsOf = async (planner?: readonly string[]) => {
    const options = planner === undefined ? {} : { planner }
    await using session = await openSession({ url: database.url, purpose: 'test', ...options })
    const { rows } = await session.client.query<{ name: string; setting: string }>(
      `select name, setting from pg_settings where source in ('client', 'session')`,
    )
    return Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))
  }
  const own = await settingsOf()
  expect(own).toEqual({
    ...{
      application_name: 'intake-sync test',
      client_encoding: 'UTF8',
      TimeZone: 'UTC',
      DateStyle: 'ISO, MDY',
    },
    ...{ lock_timeout: '10000', statement_timeout: '0', standard_conforming_strings: 'on' },
    ...{ idle_in_transaction_session_timeout: '0', idle_session_timeout: '0' },
    ...{ tcp_keepalives_idle: '5', tcp_keepalives_interval: '2', tcp_keepalives_count: '3' },
  })
  const byKey = { ...own, enable_seqscan: 'off', jit: 'off' }
  expect(await settingsOf(PLANNER.load)).toEqual(byKey)
  expect(await settingsOf(PLANNER.drain)).toEqual({ ...byKey, enable_bitmapscan: 'off' })
  expect(await settingsOf(PLANNER.inbox)).toEqual({
    ...{ ...byKey, plan_cache_mode: 'force_generic_plan', enable_hashjoin: 'off', enable_mergejoin: 'off' },
  })
  expect(await settingsOf(PLANNER.compare)).toEqual({ ...own, enable_nestloop: 'off', jit: 'off' })
})
