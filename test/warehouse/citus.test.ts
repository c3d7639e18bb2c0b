/**
 * Keys that let the warehouse be distributed by team, and sql/citus.sql, which does it.
 *
 * Where Citus is not installed, functions of its names apply its rules to the real tables: the distribution column is in
 * every unique key, co-located columns have one type, and a foreign key stays on one node.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { partition } from '../support/partition.ts'
import { openTestSession } from '../support/sessions.ts'

const script = readFileSync(resolve(import.meta.dirname, '../../sql/citus.sql'), 'utf8')

let database: TestDatabase
let client: pg.Client

beforeAll(async () => {
  database = await createTestDatabase()
  client = new pg.Client({ connectionString: database.url, application_name: 'citus' })
  await client.connect()
})

afterAll(async () => {
  await client.end()
  await database.drop()
})

const named = (rows: readonly { readonly name: string }[]) => rows.map(({ name }) => name)

/** Unique keys of tables, with their columns in order; of partitioned tables, those of the parent. */
const KEYS = `
  select format('%s.%s', n.nspname, t.relname) as name, n.nspname as schema,
    array(select a.attname::text from unnest(x.indkey::int[]) with ordinality as k (number, place)
      join pg_attribute a on a.attrelid = t.oid and a.attnum = k.number order by k.place) as columns
  from pg_index x
  join pg_class t on t.oid = x.indrelid and not t.relispartition
  join pg_namespace n on n.oid = t.relnamespace
  where x.indisunique and n.nspname in ('intake', 'intake_raw')
  order by 1, 3`

interface Key {
  readonly name: string
  readonly schema: string
  readonly columns: readonly string[]
}

describe('keys', () => {
  test('begin with the team and the id of the root, in every table of intake', async () => {
    const { rows } = await client.query<Key>(KEYS)
    const keys = rows.filter(({ schema, name }) => schema === 'intake' && name !== 'intake.teams')
    expect(keys.length).toBeGreaterThan(20)
    for (const { name, columns } of keys)
      expect([name, columns]).toEqual([
        name,
        ['team_id', expect.stringMatching(/^(\w+_)?id$/), ...columns.slice(2)],
      ])
  })

  test('hold the team in every table of intake and intake_raw that has one, with these exceptions', async () => {
    const { rows } = await client.query<Key>(KEYS)
    const { rows: tables } = await client.query<{ name: string; has_team: boolean }>(`
      select format('%s.%s', n.nspname, t.relname) as name,
        exists (select from pg_attribute a where a.attrelid = t.oid and a.attname = 'team_id') as has_team
      from pg_class t join pg_namespace n on n.oid = t.relnamespace
      where t.relkind in ('r', 'p') and not t.relispartition and n.nspname in ('intake', 'intake_raw')
      order by 1`)
    const withTeam = named(tables.filter((table) => table.has_team))
    const without = rows.filter(
      ({ name, columns }) => withTeam.includes(name) && !columns.includes('team_id'),
    )
    expect(without.map(({ name, columns }) => `${name} (${columns})`)).toEqual([
      'intake.teams (name)',
      'intake_raw.wide_views (kind,view_name)',
    ])
    const keyed = new Set(named(rows))
    expect(withTeam.filter((name) => !keyed.has(name))).toEqual(['intake_raw.record_history'])
  })
})

/** Of Citus' own functions, what they check before they move a row. */
const RULES = `
  create schema if not exists citus_rules;
  create table if not exists citus_rules.placed (relation regclass primary key, type regtype, is_reference boolean not null);
  truncate citus_rules.placed;

  create or replace function citus_rules.place(relation regclass, "column" name, is_reference boolean) returns void
  language plpgsql set search_path = pg_catalog as $$
  declare
    type regtype;
    problem text;
  begin
    if (select relkind from pg_class where oid = relation) not in ('r', 'p') then
      raise exception '% is no table', relation;
    end if;
    if exists (select from pg_trigger where tgrelid = relation and not tgisinternal)
       and current_setting('citus.enable_unsafe_triggers', true) is distinct from 'on' then
      raise exception '% has triggers', relation;
    end if;
    if not is_reference then
      select atttypid into type from pg_attribute where attrelid = relation and attname = "column" and attnum > 0;
      if type is null then raise exception '% has no column %', relation, "column"; end if;
      select i.relname into problem from pg_index x join pg_class i on i.oid = x.indexrelid
      where x.indrelid = relation and x.indisunique and not exists (
        select from pg_attribute a where a.attrelid = relation and a.attname = "column" and a.attnum = any (x.indkey::int[]));
      if problem is not null then raise exception 'key % does not hold %', problem, "column"; end if;
    end if;
    select k.conname into problem from pg_constraint k
    left join citus_rules.placed p on p.relation = k.confrelid
    where k.conrelid = place.relation and k.contype = 'f' and (p.relation is null or place.is_reference and not p.is_reference
      or not p.is_reference and not exists (
        select from pg_attribute a where a.attrelid = k.conrelid and a.attname = "column" and a.attnum = any (k.conkey)));
    if problem is not null then raise exception 'foreign key % leaves the node', problem; end if;
    insert into citus_rules.placed values (relation, type, is_reference);
  end $$;

  create or replace function citus_rules.create_reference_table(table_name regclass) returns void
  language sql as $$ select citus_rules.place(table_name, null, true) $$;

  create or replace function citus_rules.create_distributed_table(table_name regclass, distribution_column text,
    distribution_type text default 'hash', colocate_with text default 'default', shard_count int default null)
  returns void language plpgsql as $$
  begin
    perform citus_rules.place(table_name, distribution_column::name, false);
    if (colocate_with = 'none') <> (select count(*) = 1 from citus_rules.placed where not is_reference) or colocate_with = 'default' then
      raise exception '% is placed by %', table_name, colocate_with;
    end if;
    if colocate_with <> 'none' and not exists (
      select from citus_rules.placed as first join citus_rules.placed as own on own.type = first.type
      where first.relation = colocate_with::regclass and not first.is_reference and own.relation = table_name) then
      raise exception '% cannot be co-located with %', table_name, colocate_with;
    end if;
  end $$;
  set search_path = citus_rules, public;`

describe('sql/citus.sql', () => {
  /** Runs a variant of the script, and leaves the tables as they were. */
  async function place(text: string): Promise<ReadonlyMap<string, boolean>> {
    try {
      await client.query(text.replace(/\bcommit;\s*$/, ''))
      const { rows } = await client.query<{ name: string; is_reference: boolean }>(`
        select relation::text as name, is_reference from citus_rules.placed order by 1`)
      return new Map(rows.map(({ name, is_reference }) => [name, is_reference]))
    } finally {
      await client.query('rollback')
    }
  }

  beforeEach(async () => void (await client.query(RULES)))

  test('places every table of intake also where sql/partitions.sql has divided them', async () => {
    await using divided = await createTestDatabase()
    const session = await openTestSession(divided.url)
    try {
      await partition(session, 3)
      await session.query(RULES)
      await session.query(script)
      const { rows } = await session.query(`
        select oid::regclass::text as name from pg_class
        where relnamespace = 'intake'::regnamespace and relkind in ('r', 'p')
          and oid not in (select relation from citus_rules.placed)`)
      expect(rows).toEqual([])
    } finally {
      await session.end()
    }
  })

  test('follows the rules of Citus for the tables as they are, and places every table of intake', async () => {
    const placed = await place(script)
    const { rows } = await client.query<{ name: string }>(`
      select oid::regclass::text as name from pg_class
      where relnamespace = 'intake'::regnamespace and relkind in ('r', 'p') order by 1`)
    const inSchema = (schema: string) =>
      [...placed.keys()].filter((name) => name.startsWith(`${schema}.`)).toSorted()
    expect(inSchema('intake')).toEqual(named(rows).toSorted())
    expect(
      inSchema('intake_raw')
        .map((name) => name.slice(11))
        .join(' '),
    ).toBe('export_chunks export_files known_pages list_entries record_history records removed_records')
    expect(
      [...placed].filter(([, isReference]) => isReference).map(([name]) => name.replace(/^intake\./, '')),
    ).toEqual([
      'document_input_fields',
      'documents',
      'form_questions',
      'forms',
      'packet_forms',
      'packets',
      'question_choices',
      'teams',
    ])
  })

  test('could distribute one large team by the id of the root, which is in each of these keys too', async () => {
    const { rows } = await client.query<Key>(KEYS)
    const roots = rows.filter(({ name, columns }) => name.startsWith('intake.') && columns[1] !== undefined)
    const [first, ...others] = [
      'intake.patients',
      ...named(roots).filter((name) => name !== 'intake.patients'),
    ].map((name) => [name, roots.find((key) => key.name === name)!.columns[1]!] as const)
    const statement = ([name, column]: readonly [string, string], with_: string) =>
      `select create_distributed_table('${name}', '${column}', colocate_with => '${with_}');`
    const text = [
      'begin; set local citus.enable_unsafe_triggers = on;',
      statement(first!, 'none'),
      ...others.map((other) => statement(other, 'intake.patients')),
      statement(['intake_raw.records', 'id'], 'intake.patients'),
    ]
    expect((await place(text.join('\n'))).size).toBe(roots.length + 1)
  })

  test.each([
    [
      'a table that does not exist',
      "'intake_raw.known_pages'",
      "'intake_raw.unknown_pages'",
      /does not exist/,
    ],
    [
      'a column that is not in the key',
      "'intake_raw.known_pages', 'team_id'",
      "'intake_raw.known_pages', 'ids'",
      /does not hold ids/,
    ],
    ['triggers without consent', 'set local citus.enable_unsafe_triggers = on;', '', /has triggers/],
    [
      'columns of two types side by side',
      "'intake_raw.known_pages', 'team_id'",
      "'intake_raw.known_pages', 'stream'",
      /cannot be co-located/,
    ],
    [
      'chunks before their files',
      /select create_distributed_table\('intake_raw\.export_files'.*\n/,
      '',
      /foreign key .* leaves the node/,
    ],
  ])('the rules find %s', async (_, from, to, message) => {
    const altered = script.replace(from, to)
    expect(altered).not.toBe(script)
    await expect(place(altered)).rejects.toThrow(message)
  })

  test('distributes a warehouse where Citus is installed', async (context) => {
    const { rows } = await client.query(`select from pg_available_extensions where name = 'citus'`)
    if (rows.length === 0) return context.skip('this Postgres has no extension citus')
    await client.query('reset search_path; create extension citus')
    await client.query(script)
    const placed = await client.query(
      `select from citus_tables where table_name = 'intake.responses'::regclass`,
    )
    expect(placed.rows).toHaveLength(1)
  })
})
