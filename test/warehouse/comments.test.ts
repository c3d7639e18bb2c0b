/** The COMMENTs of the migrated schema are complete and use the terms of the glossary. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

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

let database: TestDatabase
let client: pg.Client

beforeAll(async () => {
  database = await createTestDatabase()
  client = new pg.Client({ connectionString: database.url, application_name: 'comments' })
  await client.connect()
})

afterAll(async () => {
  await client.end()
  await database.drop()
})

/** Every object with a comment, named as in `comment on`; columns and partitions included. */
const COMMENTS = `
  select identity.type || ' ' || identity.identity as object, d.description as comment
  from pg_description d
  cross join lateral pg_identify_object(d.classoid, d.objoid, d.objsubid) identity
  where coalesce(identity.schema, identity.name) = any ($1)
  order by 1`

test('no COMMENT of the migrated schema contains a private word', async () => {
  const { rows } = await client.query<{ object: string; comment: string }>(COMMENTS, [SCHEMAS])
  const commented = rows.map(({ object }) => object)
  expect(commented).toContain('schema intake')
  expect(commented).toContain('table column intake_ops.dead_letters.reason')
  expect(commented).toContain('view column intake_analytics.answers.patient')
  expect(commented.some((object) => object.startsWith('function intake_ops.pseudonym('))).toBe(true)
  expect(commented).toContain('table column intake_raw.inbox_rest.status')

  const folder = mkdtempSync(join(tmpdir(), 'intake-sync-comments-'))
  try {
    const file = join(folder, 'comments.md')
    writeFileSync(file, rows.map(({ comment }) => `${comment.replaceAll('\n', ' ')}\n`).join(''))
    const script = resolve(import.meta.dirname, '../../scripts/check-words.mjs')
    const { stdout, stderr } = spawnSync(process.execPath, [script, file], { encoding: 'utf8' })
    expect(stderr).toBe('')
    const findings = [...stdout.matchAll(/comments\.md:(\d+): (.*)/g)].map(([, line, finding]) => {
      return `${rows[Number(line) - 1]!.object}: ${finding}`
    })
    expect(findings).toEqual([])
    expect(stdout).toBe('')
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('every function and sequence has a COMMENT', async () => {
  const { rows } = await client.query(
    `select p.oid::regprocedure::text as name, obj_description(p.oid, 'pg_proc') as comment
     from pg_proc p where p.pronamespace::regnamespace::text = any ($1)
     union all
     select c.oid::regclass::text, obj_description(c.oid, 'pg_class')
     from pg_class c where c.relnamespace::regnamespace::text = any ($1) and c.relkind = 'S'
       and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'i')`,
    [SCHEMAS],
  )
  expect(rows.length).toBeGreaterThan(10)
  expect(rows.filter(({ comment }) => comment === null)).toEqual([])
})

test('the columns of each partition of the inbox have the COMMENTs of the inbox', async () => {
  const { rows } = await client.query(
    `select a.attrelid::regclass::text as table_name, a.attname as name,
       col_description(a.attrelid, a.attnum) as comment, col_description(i.inhparent, p.attnum) as expected
     from pg_inherits i
     join pg_attribute a on a.attrelid = i.inhrelid and a.attnum > 0 and not a.attisdropped
     join pg_attribute p on p.attrelid = i.inhparent and p.attname = a.attname
     where i.inhparent = 'intake_raw.inbox'::regclass`,
  )
  expect(rows.map(({ name }) => name)).toContain('received_at')
  expect(rows.filter(({ comment, expected }) => comment === null || comment !== expected)).toEqual([])
})
