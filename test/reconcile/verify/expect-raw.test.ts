/** What a verification expects of a list that it reads again. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { describeTables } from '../../../src/reconcile/expected-tables.ts'
import { beginExpected, noteUnknown, UNKNOWN } from '../../../src/reconcile/verify/expect-raw.ts'
import { patients } from '../../../src/streams/patients.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'

test('a record that could not be expected is known again when the list is read again', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  const tables = await describeTables(session, patients)
  const unknown = async () => (await sql<{ id: string }>`select id from ${UNKNOWN}`.execute(session.db)).rows
  await beginExpected(session, tables)
  await noteUnknown(session, 'p')
  expect(await unknown()).toEqual([{ id: 'p' }])
  await beginExpected(session, tables)
  expect(await unknown()).toEqual([])
})
