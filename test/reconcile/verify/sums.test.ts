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

test('sides are equal where every row and cell of every table is, however they were written, and whatever other teams have', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  await using scanning = await openSession({ url: database.url, purpose: 'test' })
  const run = (text: string) => session.client.query(text)
  const tables = await describeTables(session, forms)
  await beginExpected(session, tables)
  await run(`
    insert into intake.forms (team_id, id, name, _version, _origin, _hash)
      select team, id, id, now(), 'test', sha256(id::bytea) from unnest('{1,2}'::int[]) team, unnest('{a,b}'::text[]) id;
    insert into intake.form_questions (team_id, form_id, position, question_id, text)
      select team_id, id, n, id || n, 'Q' from intake.forms, generate_series(1, 2) n;
    insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, payload, origin)
      select team_id, 'forms', id, now(), now(), false, _hash, jsonb_build_object('id', id), 'test' from intake.forms`)
  for (const { name, expected, columns } of [tables.root, ...tables.children, tables.records]) {
    const own = columns.join(', ')
    const stream = name === 'intake_raw.records' ? "and stream = 'forms'" : ''
    await run(`insert into ${expected} (${own}) select ${own} from ${name} where team_id = 1 ${stream}`)
  }
  const judged = async (change = 'select') => {
    await run(`begin; ${change}; commit`)
    const { source, warehouse, sourceHash, warehouseHash, sourceContentHash, warehouseContentHash } =
      await computeSums({ session, scanning }, { teamId: 1, tables })
    return [source, warehouse, sourceHash === warehouseHash, sourceContentHash === warehouseContentHash]
  }
  const equal = [2, 2, true, true]
  const different = [2, 2, false, true]
  expect(await judged()).toEqual(equal)
  const innocent = [
    `update intake.forms set _loaded_at = '2020-01-01', _origin = 'other', _version = '2020-01-01'`,
    `update intake.forms set name = 'theirs' where team_id = 2; update intake.form_questions set text = 'x' where team_id = 2`,
    `insert into intake.forms (team_id, id, _version, _origin, _deleted_at) values (1, 'gone', now(), 'test', now())`,
    `insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, origin)
     values (1, 'forms', 'gone', now(), now(), true, '', 'test'), (1, 'packets', 'a', now(), now(), false, '', 'test')`,
  ]
  for (const change of innocent) expect([change, await judged(change)]).toEqual([change, equal])
  const changes = [
    [
      `update intake.forms set name = 'x' where team_id = 1 and id = 'a'`,
      `update intake.forms set name = id where id = 'a'`,
    ],
    [
      `update intake.form_questions set text = 'x' where form_id = 'b' and position = 2`,
      `update intake.form_questions set text = 'Q'`,
    ],
    [
      `update intake.form_questions set form_id = 'gone' where form_id = 'b' and team_id = 1`,
      `update intake.form_questions set form_id = 'b' where form_id = 'gone'`,
    ],
    [
      `update intake_raw.records set payload = '{}' where id = 'a'`,
      `update intake_raw.records set payload = '{"id": "a"}' where id = 'a'`,
    ],
    [
      `update intake_raw.records set deleted = true where id = 'b'`,
      `update intake_raw.records set deleted = false where id = 'b'`,
    ],
  ] as const
  for (const [change, back] of changes) {
    expect([change, await judged(change)]).toEqual([change, different])
    expect([back, await judged(back)]).toEqual([back, equal])
  }
  // A live row without a value is a row too.
  const bare = `insert into intake.forms (team_id, id, _version, _origin) values (1, 'bare', now(), 'test')`
  expect(await judged(bare)).toEqual([2, 3, false, true])
  expect(await judged(`delete from intake.forms where id = 'bare'`)).toEqual(equal)
  // A tombstone with values is a row that a fresh load would not write, though it is not live.
  const spoiled = `update intake.forms set name = 'x' where id = 'gone'`
  expect(await judged(spoiled)).toEqual(different)
})
