/** The tables, what the streams declare and what the contract promises are one and the same; and all is commented. */
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ALL_STREAMS } from '../../src/streams/catalogue.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import type { ExpectedTable } from './expected-tables.ts'
import { TABLES } from './fixtures/all.ts'

let database: TestDatabase
let client: pg.Client

beforeAll(async () => {
  database = await createTestDatabase()
  client = new pg.Client({ connectionString: database.url, application_name: 'declarations' })
  await client.connect()
})

afterAll(async () => {
  await client.end()
  await database.drop()
})

const SCHEMAS = [
  'intake',
  'intake_raw',
  'intake_ops',
  'intake_analytics',
  'intake_exports',
  'intake_forms',
  'intake_fhir',
  'intake_safe_harbor',
]

async function tablesOf(schema: string): Promise<Record<string, ExpectedTable>> {
  const { rows } = await client.query<{
    name: string
    columns: Record<string, string>
    key: string[] | null
  }>(
    `select c.relname as name,
       (select jsonb_object_agg(a.attname, format_type(a.atttypid, a.atttypmod)) from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
       (select jsonb_agg(a.attname order by k.place) from pg_index i,
          unnest(i.indkey::int2[]) with ordinality k (attnum, place)
          join pg_attribute a on a.attrelid = c.oid and a.attnum = k.attnum
        where i.indrelid = c.oid and i.indisprimary and a.attrelid = i.indrelid) as key
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = $1 and c.relkind in ('r', 'p')`,
    [schema],
  )
  return Object.fromEntries(rows.map(({ name, columns, key }) => [name, { key: key ?? [], columns }]))
}

test.each(Object.entries(TABLES))(
  'intake.%s has the columns, types and key of the contract',
  async (name, expected) => {
    expect((await tablesOf('intake'))[name]).toEqual(expected)
  },
)

/** Laid out from an export's file, not from its record. */
const OF_FILES = ['export_columns', 'export_rows', 'export_cells']

test('every table of intake but teams belongs to a stream, and every stream has its tables', async () => {
  const ofRecords = ALL_STREAMS.flatMap((stream) => [
    stream.table,
    ...stream.children.map((child) => child.table),
  ])
  const declared = [...ofRecords, ...OF_FILES]
  const there = Object.keys(await tablesOf('intake')).filter((name) => name !== 'teams')
  expect(there.sort()).toEqual(declared.sort())
  expect(Object.keys(TABLES).sort()).toEqual(there)
})

test.each(ALL_STREAMS.map((stream) => ({ name: stream.name, stream })))(
  '$name writes every column of its tables, and names none that is not there',
  async ({ stream }) => {
    const tables = await tablesOf('intake')
    const columns = (table: string) => Object.keys(tables[table]!.columns).sort()
    const own = stream.columns.map((column) => column.name)
    const meta = columns(stream.table).filter((name) => name.startsWith('_'))
    expect(['team_id', 'id', ...own, ...meta].sort()).toEqual(columns(stream.table))
    expect(meta).toEqual(['_deleted_at', '_extra', '_hash', '_loaded_at', '_origin', '_problems', '_version'])
    for (const child of stream.children) {
      expect(['team_id', child.parent, ...child.columns].sort()).toEqual(columns(child.table))
    }
  },
)

test.each(ALL_STREAMS.map((stream) => ({ name: stream.name, stream })))(
  "$name reads each of its columns as the column's type",
  async ({ stream }) => {
    const sql = {
      text: 'text',
      reference: 'text',
      boolean: 'boolean',
      time: 'timestamp with time zone',
      date: 'date',
      integer: 'integer',
      bigint: 'bigint',
      number: 'numeric',
      texts: 'text[]',
    } as const
    const { columns } = (await tablesOf('intake'))[stream.table]!
    for (const column of stream.columns) expect(columns[column.name], column.name).toBe(sql[column.type])
  },
)

test('every key begins with the team, and ids are text', async () => {
  for (const [name, { key, columns }] of Object.entries(await tablesOf('intake'))) {
    expect(key[0], name).toBe('team_id')
    expect(columns.team_id, name).toBe('smallint')
    for (const column of Object.keys(columns).filter(
      (each) => each === 'id' || (each.endsWith('_id') && each !== 'team_id'),
    ))
      expect(columns[column], `${name}.${column}`).toBe('text')
  }
})

test('no foreign key joins tables of intake, because records arrive in any order', async () => {
  const { rows } = await client.query(
    `select conrelid::regclass::text from pg_constraint where contype = 'f' and connamespace = 'intake'::regnamespace`,
  )
  expect(rows).toEqual([])
})

test('every schema, table and column has a comment', async () => {
  const { rows } = await client.query<{ name: string; comment: string | null }>(
    `select n.nspname as name, obj_description(n.oid, 'pg_namespace') as comment
     from pg_namespace n where n.nspname = any ($1)
     union all
     select format('%s.%s', n.nspname, c.relname), obj_description(c.oid, 'pg_class')
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = any ($1) and c.relkind in ('r', 'p', 'v', 'm') and c.relname not in ('migrations', 'migrations_lock')
     union all
     select format('%s.%s.%s', n.nspname, c.relname, a.attname), col_description(c.oid, a.attnum)
     from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
     where n.nspname = any ($1) and c.relkind in ('r', 'p', 'v', 'm') and a.attnum > 0 and not a.attisdropped
       and c.relname not in ('migrations', 'migrations_lock')`,
    [SCHEMAS],
  )
  expect(rows.length).toBeGreaterThan(150)
  expect(
    rows.filter(({ comment }) => comment === null || comment.trim().length < 5).map(({ name }) => name),
  ).toEqual([])
})

test.each(
  ALL_STREAMS.flatMap(({ name, table, children, analysts, reading }) => {
    const tables = [table, ...children.map((child) => child.table)]
    const files = reading?.kind === 'files' ? reading.tables.map((file) => file.table) : []
    const views = analysts === 'nothing' ? [] : 'views' in analysts ? analysts.views : [table]
    return views.map((view) => ({ name, view, tables: [...tables, ...files] }))
  }),
)('analysts see $name in $view', async ({ view, tables }) => {
  const { rows } = await client.query<{ table: string }>(
    `with recursive used as (
       select ('intake_analytics.' || $1)::regclass::oid as relation
       union
       select d.refobjid from used join pg_rewrite r on r.ev_class = used.relation
       join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
     )
     select relname as table from used join pg_class c on c.oid = used.relation
     where relnamespace = 'intake'::regnamespace`,
    [view],
  )
  expect(rows.map(({ table }) => table).filter((table) => tables.includes(table))).not.toEqual([])
})

test('freshness has every stream that analysts see', async () => {
  const { rows } = await client.query<{ definition: string }>(
    `select pg_get_viewdef('intake_analytics.freshness') as definition`,
  )
  const lines = rows[0]!.definition.split('UNION ALL').map((part) => {
    const [, name] = /SELECT '(\w+)'::text AS stream/.exec(part) ?? []
    const [, table] = /FROM (?:intake\.)?(\w+) x\b/.exec(part) ?? []
    return [name, table]
  })
  const expected = ALL_STREAMS.filter(({ analysts }) => analysts !== 'nothing')
  expect(lines).toEqual(expected.map(({ name, table }) => [name, table]))
})
