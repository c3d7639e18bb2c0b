/** Records that are read a second time: what was expected of them before is forgotten, in every table. */
import { expect, test } from 'vitest'
import { linesOf } from '../../../src/normalize/lines.ts'
import { describeTables } from '../../../src/reconcile/expected-tables.ts'
import { beginExpected, expectLines } from '../../../src/reconcile/verify/expect-raw.ts'
import { forget } from '../../../src/reconcile/verify/expect-source.ts'
import { patients } from '../../../src/streams/patients.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'
import { at, recordEnvelope } from '../../support/envelopes.ts'

test('of these records nothing stays expected, and of the others everything', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  const tables = await describeTables(session, patients)
  await beginExpected(session, tables)
  const records = ['a', 'b', 'c'].map((id) =>
    recordEnvelope(
      {
        ...{ id, first_name: id, custom_fields: { size: 1 }, emergency_contact: { first_name: id } },
        patient_tags: [{ name: 'one' }, { name: 'two' }],
      },
      { teamId: 1, stream: 'patients', observedAt: at(0) },
    ),
  )
  await expectLines(session, tables, linesOf(patients, records))
  const rows = async () => {
    const found: Record<string, string> = {}
    for (const { name, expected, parent } of [tables.root, ...tables.children, tables.records]) {
      const text = `select coalesce(string_agg(${parent}, '' order by ${parent}), '') as ids from ${expected}`
      found[name] = (await session.client.query<{ ids: string }>(text)).rows[0]!.ids
    }
    return found
  }
  expect(await rows()).toEqual({
    'intake.patients': 'abc',
    'intake.patient_emergency_contacts': 'abc',
    'intake.patient_tags': 'aabbcc',
    'intake.patient_custom_fields': 'abc',
    'intake_raw.records': 'abc',
  })
  await forget(session, tables, ['a', 'c'])
  expect(await rows()).toEqual({
    'intake.patients': 'b',
    'intake.patient_emergency_contacts': 'b',
    'intake.patient_tags': 'bb',
    'intake.patient_custom_fields': 'b',
    'intake_raw.records': 'b',
  })
})
