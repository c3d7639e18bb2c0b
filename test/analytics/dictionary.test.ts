/** docs/warehouse.md matches the COMMENTs of the schema; UPDATE_DOCS=1 regenerates it. */
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { connect, openWarehouse } from '../e2e/support/scene.ts'
import { dictionary } from '../support/dictionary.ts'

const document = new URL('../../docs/warehouse.md', import.meta.url)

it('docs/warehouse.md matches the comments of the schema', async () => {
  await using warehouse = await openWarehouse()
  const client = await connect(warehouse.url)
  const introduction = readFileSync(new URL('../support/warehouse-introduction.md', import.meta.url), 'utf8')
  const text = await dictionary(client, introduction).finally(() => client.end())
  if (process.env.UPDATE_DOCS === '1') writeFileSync(document, text)
  expect(readFileSync(document, 'utf8')).toBe(text)
})

it('every view and column of the views has a comment', async () => {
  await using warehouse = await openWarehouse()
  const client = await connect(warehouse.url)
  const { rows } = await client.query(
    `select c.relname, a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0
     where c.relkind = 'v' and c.relnamespace in ('intake'::regnamespace, 'intake_analytics'::regnamespace, 'intake_fhir'::regnamespace,
       'intake_safe_harbor'::regnamespace)
       and (obj_description(c.oid) is null or col_description(c.oid, a.attnum) is null)`,
  )
  await client.end()
  expect(rows).toEqual([])
})
