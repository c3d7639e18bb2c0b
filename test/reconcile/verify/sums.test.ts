/** Counts and hashes of both sides: the same for the same rows, in any order, and as the documents say. */
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { describeTables } from '../../../src/reconcile/expected-tables.ts'
import { beginExpected } from '../../../src/reconcile/verify/expect-raw.ts'
import { computeSums } from '../../../src/reconcile/verify/sums.ts'
import { forms } from '../../../src/streams/forms.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'

/** More than the hash of the contents takes together. */
const FORMS = 4_100

test('of more records than a block, sides with equal rows in another order are equal, and those with one row twice are not', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  await using scanning = await openSession({ url: database.url, purpose: 'test' })
  const run = (text: string) => session.client.query<{ id: string; hash: Buffer }>(text)
  const tables = await describeTables(session, forms)
  await beginExpected(session, tables)
  // The numbers are no order of ids, and ids with capitals have another order by their bytes than by a language.
  await run(`
    insert into intake.forms (team_id, id, name, _version, _origin, _hash)
    select team, case when n % 2 = 0 then 'F' else 'f' end || n, 'form ' || n, now(), 'test', sha256(n::text::bytea)
    from unnest('{1,2}'::int[]) as team, generate_series(1, ${FORMS}) as n`)
  await run(
    `insert into intake.forms (team_id, id, _version, _origin, _deleted_at) values (1, 'gone', now(), 'test', now())`,
  )
  const columns = 'team_id, id, name, _version, _origin, _hash'
  await run(`
    insert into pg_temp.expected_forms (${columns})
    select ${columns} from intake.forms where team_id = 1 and _deleted_at is null order by md5(id)`)
  const sums = () => computeSums({ session, scanning }, { teamId: 1, tables })
  const { rows } = await run('select id, _hash as hash from pg_temp.expected_forms')
  const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest()
  const hashes = rows
    .sort((a, b) => Buffer.compare(Buffer.from(a.id), Buffer.from(b.id)))
    .map(({ hash }) => hash)
  const blocks = [hashes.slice(0, 4_096), hashes.slice(4_096)].map((block) => sha256(Buffer.concat(block)))
  const content = sha256(Buffer.concat(blocks)).toString('hex')
  const equal = await sums()
  expect(equal).toMatchObject({
    ...{ source: FORMS, warehouse: FORMS, sourceContentHash: content, warehouseContentHash: content },
    sourceHash: equal.warehouseHash,
  })
  for (const twice of ['F2', 'f3', 'f3', 'F2']) {
    await run(`
      insert into pg_temp.expected_forms (${columns})
      select ${columns} from intake.forms where team_id = 1 and id = '${twice}'`)
    const { sourceHash, warehouseHash } = await sums()
    expect([twice, sourceHash === warehouseHash]).toEqual([twice, false])
  }
})
