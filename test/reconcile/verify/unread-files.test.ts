/** Exports whose file the service does not return: what can be compared of them is, and nothing else is called different. */
import { expect, test } from 'vitest'
import { json } from '../../api/support/service.ts'
import { withoutPauses, withoutPausesOfVerify } from '../../e2e/support/impatient.ts'
import { startLittleService } from '../../e2e/support/little-service.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { runCommand } from '../../support/run-command.ts'

withoutPauses()
withoutPausesOfVerify()

/** Its time cannot be read, which is a problem of its export. */
const FILE =
  'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Smokes\np,A,B,a@b.example,yesterday,,False,No\n'

test('an export whose file is not returned is not different by its file, its rows or the problems of it, but by its entry', async () => {
  const warehouse = await openWarehouse()
  try {
    await using service = await startLittleService()
    let refused = ''
    service.interfere = ({ method, body }, response) => {
      if (method !== 'POST') return false
      if (refused !== '' && String(body).includes(refused)) json(response, { detail: 'no' }, 422)
      else response.writeHead(200, { 'content-type': 'text/plain' }).end(FILE)
      return true
    }
    const entry = (id: string) => ({
      id,
      name: id,
      form: { id: 'f', name: 'Form' },
      // The entry of the first has a problem too.
      created_at: id === 'e-read' ? 'long ago' : '2026-01-01T00:00:00Z',
    })
    service.records.exports.push(entry('e-read'), entry('e-refused'))
    const env = { ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'silent' }
    const loaded = await runCommand(['backfill', '--streams', 'exports'], env)
    expect(loaded.code, loaded.output).toBe(0)
    expect(await query(warehouse.url, 'select from intake.exports where _problems is not null')).toHaveLength(
      2,
    )
    const verify = async () => {
      const { stdout } = await runCommand(['verify', '--json', '--streams', 'exports'], env)
      const { missing, extra, different } = JSON.parse(stdout).streams.exports
      return { missing, extra, different }
    }
    refused = 'e-refused'
    expect(await verify()).toEqual({ missing: [], extra: [], different: [] })
    await query(
      warehouse.url,
      `update intake.export_cells set value = 'spoiled';
       update intake.export_columns set title = 'spoiled' where export_id = 'e-refused';
       delete from intake.export_rows where export_id = 'e-refused';
       update intake.exports set _problems = null, name = case when id = 'e-refused' then 'spoiled' else name end`,
    )
    expect(await verify()).toEqual({
      ...{ missing: [], extra: [] },
      different: [
        { id: 'e-read', fields: ['_problems', 'export_cells'] },
        { id: 'e-refused', fields: ['name'] },
      ],
    })
  } finally {
    await warehouse.drop()
  }
})
