/**
 * Erasing with the command, in both orders with the deletion at the service, and with exports under each kind of client
 * id: neither a dump nor the files of the tables contain an identifier of the patient, and the receipt verifies.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openScene, patientEvent, type Scene } from '../../ingest/drain/scene.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'
import { tablesHolding } from '../everywhere.ts'
import { filesHolding, loadExport } from './files.ts'

const ID = 'patient-71c0ffee'
const PERSON = {
  ...{ external_id: 'EHR-20774411', first_name: 'Annegret', last_name: 'Leewenhook' },
  ...{ email: 'annegret@example.com', phone_number: '+1 555 010 7733' },
}
const FORMER = {
  ...PERSON,
  external_id: 'EHR-10000099',
  last_name: 'Vorherbach',
  email: 'vorher@example.com',
}
/** Everything that names the patient, and a text that only their rows of exports contain. */
const IDENTIFIERS = [ID, ...Object.values(PERSON), ...Object.values(FORMER), 'a cell of this patient']

/** The row of the patient in the export, by what is in its client id. */
const ROWS = {
  'the patient id': `${ID},Annegret,Leewenhook,annegret@example.com,,,False,a cell of this patient`,
  'the external id': 'EHR-20774411,Annegret,Leewenhook,annegret@example.com,,,False,a cell of this patient',
  'a former external id':
    'EHR-10000099,Annegret,Vorherbach,vorher@example.com,,,False,a cell of this patient',
  nothing: ',Annegret,Leewenhook,annegret@example.com,,,False,a cell of this patient',
} as const

let folder: string
beforeAll(() => {
  folder = makeFolder('erased-')
})
afterAll(() => removeFolder(folder))

/** A dump in plain text, where the pg_dump of this machine is new enough for the server; else null. */
function dumpOf(url: string, version: number): string | null {
  try {
    const own = /(\d+)\./.exec(String(execFileSync('pg_dump', ['--version'])))?.[1]
    if (Number(own) < Math.trunc(version / 10_000)) return null
  } catch {
    return null
  }
  return String(
    execFileSync('pg_dump', ['--dbname', url], { maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] }),
  )
}

const holds = (text: string) =>
  IDENTIFIERS.filter((each) =>
    [each, Buffer.from(each).toString('hex')].some((one) => text.toLowerCase().includes(one.toLowerCase())),
  )

const versionOf = async (scene: Scene) =>
  (await scene.rows<{ version: number }>(`select current_setting('server_version_num')::int as version`))[0]!
    .version

const cases = (['before', 'after'] as const).flatMap((order) =>
  (Object.keys(ROWS) as (keyof typeof ROWS)[]).map((client) => [order, client] as const),
)

test.each(cases)('deleted at the service %s the erasure, in an export under %s', async (order, client) => {
  await using scene = await openScene()
  const receive = async (event: object) => {
    await scene.store([event as ReturnType<typeof patientEvent>])
    await scene.drain()
  }
  const deletion = () => receive({ ...patientEvent(ID, 9, {}, { event_type: 'deleted' }), data: { id: ID } })
  await scene.session.client.query(
    `insert into intake.exports (team_id, id, _version, _origin) values ($1, 'e', now(), 'test')`,
    [scene.teamId],
  )
  await receive(patientEvent(ID, 1, FORMER))
  await receive(patientEvent(ID, 2, PERSON))
  await receive(patientEvent('p-2', 3, { first_name: 'Bea' }))
  await loadExport(scene, [ROWS[client], 'p-2,Bea,Other,bea@example.com,,,False,a cell of another'])
  expect(Object.keys(await tablesHolding(scene.url, IDENTIFIERS)).length).toBeGreaterThan(4)
  expect((await filesHolding(scene, IDENTIFIERS)).length).toBeGreaterThan(4)

  if (order === 'before') await deletion()
  const env = { DATABASE_URL: scene.url }
  const receipt = join(folder, `${order} ${client}.json`)
  const words = [
    'erase',
    'patient',
    ID,
    '--yes',
    '--unnamed-rows',
    '--vacuum',
    '--json',
    '--receipt',
    receipt,
  ]
  const { code, stdout, output } = await runCommand(words, env)
  expect([code, output]).toEqual([0, expect.any(String)])
  expect(JSON.parse(stdout)).toMatchObject({
    ...{ erased: { export_rows: 1 }, left: [], unnamed_rows_left: 0 },
    rewritten: { complete: true, kept_for: [] },
  })
  if (order === 'after') {
    await deletion()
    // The event went through the inbox: what it left in the files goes with another rewriting.
    expect((await runCommand(['erase', 'patient', ID, '--yes', '--vacuum'], env)).code).toBe(0)
  }

  const version = await versionOf(scene)
  expect(await tablesHolding(scene.url, IDENTIFIERS)).toEqual({})
  const dump = dumpOf(scene.url, version)
  if (dump !== null) expect([holds(dump), dump.includes('Bea')]).toEqual([[], true])
  // Before Postgres 18, statistics of a table without rows stay; the command says so.
  const [{ name: statistics }] = (await scene.rows<{ name: string }>(
    `select pg_relation_filenode('pg_statistic')::text as name`,
  )) as [{ name: string }]
  const files = await filesHolding(scene, IDENTIFIERS)
  expect(files.filter((name) => version >= 180_000 || name !== statistics)).toEqual([])
  expect(await scene.rows('select value from intake.export_cells')).toEqual([{ value: 'a cell of another' }])
  const checked = await runCommand(['receipt', 'check', receipt, '--patient', ID], env)
  expect([checked.code, checked.output]).toEqual([0, expect.not.stringContaining('Annegret')])
  expect((await runCommand(['receipt', 'check', receipt, '--patient', 'p-2'], env)).code).not.toBe(0)
})
