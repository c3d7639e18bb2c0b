/** Row by row what readers see of small worlds: every value, bound and gap that a view distinguishes. */
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect, openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'
import { expectedOf, linesOf, named } from './fixtures/tables.ts'
import { WORLDS } from './fixtures/worlds.ts'
import { makeLogin } from './logins.ts'

let warehouse: TestDatabase
let client: pg.Client
const logins: Record<string, string> = {}

beforeAll(async () => {
  warehouse = await openWarehouse()
  for (const role of ['intake_analyst', 'intake_clinical', 'intake_researcher'])
    logins[role] = (await makeLogin(warehouse.url, role)).name
  client = await connect(warehouse.url)
  // No result depends on it.
  await client.query(`set timezone to 'Asia/Tokyo'`)
})
afterAll(async () => {
  await client.end()
  await warehouse.drop()
})

/** Each world is in a transaction of its own, which is rolled back. */
describe.each(WORLDS)('$name', ({ fill, ids, promises }) => {
  beforeAll(async () => {
    await client.query('begin')
    await fill((text, values) => client.query(text, values))
    await client.query(
      'insert into intake_ops.access (login, team_id) select login, 1 from unnest($1::text[]) login',
      [Object.values(logins)],
    )
  })
  afterAll(() => client.query('rollback'))

  it.each(promises)('$promise', async ({ role = 'intake_analyst', query: text, rows }) => {
    await client.query(`savepoint own; ${role === 'owner' ? '' : `set local role ${logins[role]}`}`)
    const found = await linesOf(async (each) => (await client.query(each)).rows, text)
    await client.query('rollback to own')
    expect(found.map((line) => named(line, ids)).sort()).toEqual(expectedOf(rows).sort())
  })

  it('a login of two teams sees the same rows of the first as a login of that team alone', async () => {
    const views = new Set(
      promises.flatMap(({ role = 'intake_analyst', query: text }) =>
        (role === 'owner' ? [] : (text.match(/\bintake\w*\.\w+/g) ?? [])).map((view) => `${role} ${view}`),
      ),
    )
    for (const each of views) {
      const [role, view] = each.split(' ')
      const rowsOf = async (...teams: readonly number[]) => {
        await client.query('savepoint own; delete from intake_ops.access')
        await client.query(
          'insert into intake_ops.access (login, team_id) select $1, team_id from unnest($2::int[]) team_id',
          [logins[role!], teams],
        )
        await client.query(`set local role ${logins[role!]}`)
        const { rows } = await client.query(`select team_id, to_json(x)::text as row from ${view} x`)
        await client.query('rollback to own')
        return rows
      }
      const ofFirst = (await rowsOf(1, 2)).filter(({ team_id }) => team_id === 1)
      const inOrder = (rows: readonly { row: string }[]) => rows.map(({ row }) => row).sort()
      expect(inOrder(ofFirst), view).toEqual(inOrder(await rowsOf(1)))
    }
  })
})

it('worlds leave nothing behind', async () => {
  expect(await query(warehouse.url, 'select from intake.teams')).toEqual([])
})
