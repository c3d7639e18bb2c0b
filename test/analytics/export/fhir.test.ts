/** An export to FHIR that is interrupted. */
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { exportFhir } from '../../../src/analytics/export/fhir.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const folder = makeFolder('fhir-')
afterAll(() => removeFolder(folder))

test('an export to FHIR ends at once when it is interrupted, and otherwise has what there is', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north');
    insert into intake.patients (team_id, id, _version, _origin) values (1, 'p', now(), 'test')`)
  const exported = (name: string, signal: AbortSignal) =>
    exportFhir(session, { folder: join(folder, name), team: undefined, about: {}, signal })
  const interrupted = AbortSignal.abort(new Error('interrupted'))
  await expect(exported('interrupted', interrupted)).rejects.toThrow('interrupted')
  await session.client.query('rollback')
  expect(await exported('whole', new AbortController().signal)).toMatchObject({
    output: [{ type: 'Patient', count: 1 }, { count: 0 }, { count: 0 }],
  })
})
