/** sql/partitions.sql in a warehouse that has rows: every row is kept, in parts of the number and by the key that it says. */
import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { PARTITIONS_SCRIPT, partition } from '../support/partition.ts'
import { openTestSession, withSession } from '../support/sessions.ts'

/** What grows with patients and their responses, and by which columns it is divided. */
const LARGE = {
  'intake.export_cells': 'team_id, export_id, row_number',
  'intake.export_rows': 'team_id, export_id, row_number',
  'intake.messages': 'team_id, id',
  'intake.packet_response_members': 'team_id, packet_response_id',
  'intake.packet_responses': 'team_id, id',
  'intake.patient_custom_fields': 'team_id, patient_id',
  'intake.patient_emergency_contacts': 'team_id, patient_id',
  'intake.patient_tags': 'team_id, patient_id',
  'intake.patients': 'team_id, id',
  'intake.response_answers': 'team_id, response_id',
  'intake.response_files': 'team_id, response_id',
  'intake.response_matrix_cells': 'team_id, response_id',
  'intake.response_signatures': 'team_id, response_id',
  'intake.responses': 'team_id, id',
  'intake_raw.record_history': 'team_id, id',
  'intake_raw.records': 'team_id, id',
} as const

/** Of this file: roles belong to the server. It is gone when its transaction ends. */
const OWNER = `intake_test_${randomBytes(6).toString('hex')}`

let database: TestDatabase
let session: pg.Client
let before: Readonly<Record<string, readonly string[]>>
let countsBefore: readonly string[]

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openTestSession(database.url)
  await session.query(`insert into intake.teams (name) values ('north'), ('south')`)
  for (const name of Object.keys(LARGE)) await fill(name)
  before = await rowsOfAll()
  countsBefore = await derivedRows()
})
afterAll(async () => {
  await session.end()
  await database.drop()
})

/** Three rows of each team, with a value in each column. */
async function fill(name: string): Promise<void> {
  const { rows: columns } = await session.query<{ column: string; type: string }>(
    `select quote_ident(attname) as column, format_type(atttypid, null) as type from pg_attribute
     where attrelid = '${name}'::regclass and attnum > 0 and attgenerated = '' and not attisdropped`,
  )
  const values: Readonly<Record<string, string>> = {
    boolean: 'n % 2 = 0',
    bytea: `decode(lpad(n::text, 64, '0'), 'hex')`,
    date: `date '2000-01-01' + n::int`,
    json: `json_build_object('n', n)`,
    jsonb: `jsonb_build_object('n', n)`,
    'timestamp with time zone': `timestamptz '2026-01-01Z' + n * interval '1 day'`,
  }
  const cellOf = ({ column, type }: { column: string; type: string }) => {
    if (column === 'team_id') return `1 + n % 2`
    if (column === 'stream') return `'patients'`
    return /int|numeric|double/.test(type) ? 'n' : (values[type] ?? `'${column} ' || n`)
  }
  await session.query(
    `insert into ${name} (${columns.map(({ column }) => column).join(', ')})
     select ${columns.map(cellOf).join(', ')} from generate_series(1, 6) n`,
  )
}

async function rowsOfAll(): Promise<Readonly<Record<string, readonly string[]>>> {
  const found: Record<string, readonly string[]> = {}
  for (const name of Object.keys(LARGE)) {
    const { rows } = await session.query<{ row: string }>(`select x::text as row from ${name} x order by 1`)
    found[name] = rows.map(({ row }) => row)
  }
  return found
}

/** What triggers note of rows that are inserted, changed and removed. */
async function derivedRows(): Promise<readonly string[]> {
  const { rows } = await session.query<{ row: string }>(
    `select 'counts ' || x as row from intake_ops.record_counts x union all select 'newest ' || x from intake_ops.newest_times x
     union all select 'removed ' || x from intake_raw.removed_records x order by 1`,
  )
  return rows.map(({ row }) => row)
}

const divided = async () => {
  const { rows } = await session.query<{ name: string; key: string; parts: number }>(
    `select format('%s.%s', n.nspname, c.relname) as name, replace(pg_get_partkeydef(c.oid), 'HASH ', '') as key,
       (select count(*)::int from pg_inherits where inhparent = c.oid) as parts
     from pg_partitioned_table p join pg_class c on c.oid = p.partrelid join pg_namespace n on n.oid = c.relnamespace
     where p.partstrat = 'h' order by 1`,
  )
  return rows
}

describe('sql/partitions.sql refuses', () => {
  test.each([
    ['alter table intake.messages replica identity full', 'intake.messages has a replica identity, which'],
    [
      'alter table intake.response_files set unlogged',
      'intake.response_files has another kind than that of a logged table, which this script does not keep',
    ],
    [
      'create table public.child () inherits (intake.export_cells); create rule none as on delete to intake.export_cells do instead nothing',
      'intake.export_cells has parents or children and rules, which',
    ],
    [
      'create table public.parent (team_id smallint); alter table intake.patient_tags inherit public.parent',
      'intake.patient_tags has parents or children, which',
    ],
  ])('what it would not keep: %s', async (change, message) => {
    await session.query(`begin; ${change}`)
    await expect(partition(session)).rejects.toThrow(message)
    await session.query('rollback')
  })

  test('to lose rows that a policy hides from the owner of the tables', async () => {
    await session.query(`begin; create role ${OWNER};
      grant create on database ${session.database} to ${OWNER};
      alter schema intake owner to ${OWNER}; grant usage, create on schema intake_raw to ${OWNER};
      grant usage on schema intake_ops to ${OWNER};
      grant execute on all functions in schema intake_raw, intake_ops to ${OWNER};
      do $$ declare own regclass; begin
        for own in select oid from pg_class where relkind in ('r', 'p')
          and relnamespace in ('intake'::regnamespace, 'intake_raw'::regnamespace)
        loop execute format('alter table %s owner to ${OWNER}', own); end loop;
      end $$;
      alter table intake.messages force row level security`)
    await expect(partition(session)).rejects.toThrow(
      'query would be affected by row-level security policy for table "messages_plain"',
    )
  })

  test.each([
    [1, 'intake.partitions is 1, and must be 2 to 256'],
    [2, 'this is no migrated warehouse: run intake-sync migrate before'],
    [256, 'this is no migrated warehouse: run intake-sync migrate before'],
    [257, 'intake.partitions is 257, and must be 2 to 256'],
  ])('%i partitions where nothing was migrated: %s', async (parts, message) => {
    await using empty = await createTestDatabase({ empty: true })
    await withSession(empty.url, async (client) => {
      await expect(partition(client, parts)).rejects.toThrow(message)
    })
  })
})

describe('a warehouse with rows that was partitioned', () => {
  beforeAll(async () => {
    await session.query('reset intake.partitions; alter default privileges grant select on tables to public')
    // It is no process that is in the way, nor is one of another database.
    await session.query(`set application_name = 'intake-sync psql'`)
    await using other = await createTestDatabase({ empty: true })
    await withSession(other.url, async (client) => {
      await client.query(`set application_name = 'intake-sync serve'`)
      await session.query(PARTITIONS_SCRIPT)
    })
  })

  test('has these tables in sixteen parts, by the keys that keep a record with its children', async () => {
    expect(await divided()).toEqual(
      Object.entries(LARGE).map(([name, key]) => ({ name, key: `(${key})`, parts: 16 })),
    )
  })

  test('has every row with every value, and no table without parts is left', async () => {
    expect(Object.values(before).map((rows) => rows.length)).toEqual(Array(16).fill(6))
    expect(await rowsOfAll()).toEqual(before)
    // Moving a row is no change of it.
    expect(countsBefore.length).toBeGreaterThan(2)
    expect(await derivedRows()).toEqual(countsBefore)
    const { rows } = await session.query(`select relname from pg_class where relname ~ 'plain'`)
    expect(rows).toEqual([])
  })

  test('gives nobody what the owner gives by default', async () => {
    const { rows } = await session.query(
      `select c.relname from pg_inherits join pg_class c on c.oid in (inhrelid, inhparent) cross join aclexplode(c.relacl) acl
       where acl.grantee = 0`,
    )
    expect(rows).toEqual([])
  })

  test('divides only what is new when the script runs again', async () => {
    const places = async () =>
      (
        await session.query(
          `select inhrelid::int from pg_inherits where inhparent = 'intake.patients'::regclass`,
        )
      ).rows
    const patients = await places()
    await session.query(`
      create table public.kept (like intake.patient_tags including all);
      insert into public.kept select * from intake.patient_tags;
      drop table intake.patient_tags cascade;
      alter table public.kept set schema intake;
      alter table intake.kept rename to patient_tags`)
    await session.query(PARTITIONS_SCRIPT)
    expect(await divided()).toHaveLength(16)
    expect(await places()).toEqual(patients)
    expect(await rowsOfAll()).toEqual(before)
  })
})
