/** A source that is read twice in one session, as for a second look: nothing of the first reading is left. */
import { expect, test } from 'vitest'
import { describeTables } from '../../../src/reconcile/expected-tables.ts'
import { expectSource } from '../../../src/reconcile/verify/expect-source.ts'
import { streamNamed } from '../../../src/streams/catalogue.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { json } from '../../api/support/service.ts'
import { ago, openRig } from '../../extract/support/reading.ts'

const HEADER = 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived'

test('of records that the first reading listed again, and files that it could not read, the second has the whole state', async () => {
  await using rig = await openRig()
  await using scanning = await openSession({ url: rig.url, purpose: 'test' })
  const { session, service } = rig
  const read = async (name: 'patients' | 'exports') => {
    const tables = await describeTables(session, streamNamed(name)!)
    return await expectSource(await rig.source(name), session, scanning, tables)
  }

  let lists = 0
  service.records.patients = ['p1', 'p2', 'p3'].map((id) => ({ id, first_name: 'new' }))
  service.interfere = ({ url }, response) => {
    lists += 1
    // The first list has fewer than it counts, so that it is read again.
    if (lists > 1 || !url.includes('/patients')) return false
    json(response, { count: 3, next: null, previous: null, results: [{ id: 'p1', first_name: 'old' }] })
    return true
  }
  const names = () =>
    rig.rows('select id, first_name as name from pg_temp.expected_patients order by id, first_name')
  const all = ['p1', 'p2', 'p3'].map((id) => ({ id, name: 'new' }))
  expect((await read('patients')).stable).toBe(true)
  expect([lists, await names()]).toEqual([2, all])
  await read('patients')
  expect([lists, await names()]).toEqual([3, all])

  await rig.hold('exports', [{ id: 'e1', name: 'E' }], ago(60))
  service.records.exports = [{ id: 'e1', name: 'E' }]
  let isRefused = true
  service.interfere = ({ method }, response) => {
    if (method !== 'POST') return false
    if (isRefused) json(response, { detail: 'no' }, 422)
    else response.writeHead(200, { 'content-type': 'text/plain' }).end(`${HEADER}\np1,A,B,,,,False\n`)
    return true
  }
  const files = () =>
    rig.rows(`select (select count(*)::int from pg_temp.unread_files) as unread,
      (select count(*)::int from pg_temp.expected_export_rows) as rows`)
  await read('exports')
  expect(await files()).toEqual([{ unread: 1, rows: 0 }])
  isRefused = false
  await read('exports')
  expect(await files()).toEqual([{ unread: 0, rows: 1 }])
})
