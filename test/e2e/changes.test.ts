/** Changes at the service between two runs are in the warehouse after the second, and nothing else is. */
import { describe, expect, it } from 'vitest'
import { runCommand } from '../support/run-command.ts'
import { expectedOf, storedTables } from './support/expected.ts'
import { withoutPauses } from './support/impatient.ts'
import { littlePatient, littlePatients, startLittleService } from './support/little-service.ts'
import { documentOf, openScene, openWarehouse, query } from './support/scene.ts'

withoutPauses()

describe.concurrent('after a second run', () => {
  it('created, changed and deleted patients, and renamed, reworded and deleted forms, are equal to the service', async () => {
    await using scene = await openScene()
    const { control } = scene.emulator
    expect((await scene.backfill()).code).toBe(0)
    const { patients, forms } = control.world()
    const [gone, changed] = [patients.at(3)!.id, patients.at(12)!.id]
    const [renamed, reworded, removed] = [forms.at(0)!, forms.at(1)!, forms.at(2)!]
    control.deletePatient(gone)
    control.updatePatient(changed, {
      last_name: 'Changed',
      patient_tags: [{ name: 'new', color: '#00ff00' }],
      custom_fields: {},
      emergency_contact: null,
    })
    const created = control.createPatient({ first_name: 'New', last_name: 'Here', custom_fields: { a: 'b' } })
    control.renameForm(renamed.id, 'Another name')
    control.renameQuestion(reworded.id, reworded.questions[0]!.id, 'Asked otherwise')
    control.deleteForm(removed.id)

    // Changes of patients and packets inside old responses show when these are read again.
    const second = await scene.backfill('--full', '--json')
    expect(second.code).toBe(0)
    const { streams } = documentOf(second)
    expect(streams.patients).toMatchObject({ changed: 2, unchanged: 43, deleted: 1 })
    expect(streams.forms).toMatchObject({ changed: 2, unchanged: 4, deleted: 1 })
    expect(await storedTables(scene.url)).toEqual(expectedOf(control.world()))
    expect(await lastNames(scene.url, [changed, created.id])).toEqual(['Changed', 'Here'].sort())
    const left = await query<Record<string, unknown>>(
      scene.url,
      `select to_jsonb(p) - array['team_id', 'id', '_version', '_deleted_at', '_origin', '_loaded_at', '_hash'] as fields,
         p._deleted_at = p._version as stamped
       from intake.patients p where id = $1 and _deleted_at is not null`,
      [gone],
    )
    expect(left).toHaveLength(1)
    expect(left[0]!.stamped).toBe(true)
    expect(Object.values(left[0]!.fields as object).filter((value) => value !== null)).toEqual([])
  })

  it('changes of a service without timestamps are loaded, even a change and its reversal within a second', async () => {
    await using scene = await openScene({ shape: 'no-timestamps' })
    const { control } = scene.emulator
    const { id, last_name: original } = control.world().patients.at(0)!
    expect((await scene.backfill('--streams', 'patients')).code).toBe(0)
    for (const name of ['Once', 'Twice', original]) {
      control.updatePatient(id, { last_name: name })
      expect((await scene.backfill('--streams', 'patients')).code).toBe(0)
      expect(await lastNames(scene.url, [id])).toEqual([name])
    }
  })

  it('two edits with the same updated_at are both loaded', async () => {
    await using service = await startLittleService(littlePatients(3))
    await using warehouse = await openWarehouse()
    const env = { ...service.env, DATABASE_URL: warehouse.url }
    for (const name of ['first', 'second', 'third', 'first']) {
      service.records.patients[1] = littlePatient('p2', name)
      expect((await runCommand(['backfill', '--streams', 'patients'], env)).code).toBe(0)
      expect(await lastNames(warehouse.url, ['p2'])).toEqual([name])
    }
  })
})

describe.concurrent('a delete', () => {
  it('is written only after the list missed the record and a GET by id answered 404', async () => {
    await using service = await startLittleService(littlePatients(25))
    await using warehouse = await openWarehouse()
    const env = { ...service.env, DATABASE_URL: warehouse.url }
    expect((await runCommand(['backfill', '--streams', 'patients'], env)).code).toBe(0)
    service.unlisted.add('p7')
    service.records.patients.splice(10, 1)
    const asked = service.received.length
    const second = await runCommand(['backfill', '--streams', 'patients', '--json'], env)
    expect(second.code).toBe(0)
    expect(documentOf(second).streams.patients).toMatchObject({ deleted: 1 })
    expect(await deleted(warehouse.url)).toEqual(['p11'])
    const byId = service.received.slice(asked).filter(({ url }) => url.startsWith('/v2/patients/'))
    expect(byId.map(({ url }) => url).sort()).toEqual(['/v2/patients/p11', '/v2/patients/p7'])
    expect((await storedTables(warehouse.url)).patients).toHaveLength(24)
  })

  it('is not written while the GET by id fails: the record is a dead letter, and is deleted by the next run', async () => {
    await using service = await startLittleService(littlePatients(5))
    await using warehouse = await openWarehouse()
    const env = { ...service.env, DATABASE_URL: warehouse.url }
    expect((await runCommand(['backfill', '--streams', 'patients'], env)).code).toBe(0)
    service.records.patients.pop()
    service.interfere = ({ url }, response) => {
      if (url !== '/v2/patients/p5') return false
      response.writeHead(400, { 'content-type': 'application/json' }).end('{"detail":"no"}')
      return true
    }
    // A dead letter, so that one failing record does not stop the others.
    const refused = await runCommand(['backfill', '--streams', 'patients', '--json'], env)
    expect(refused.code).toBe(4)
    expect(JSON.parse(refused.stdout).streams.patients).toMatchObject({
      fetched: 4,
      deleted: 0,
      dead_letters: 1,
    })
    expect(await deleted(warehouse.url)).toEqual([])
    service.interfere = () => false
    expect((await runCommand(['backfill', '--streams', 'patients'], env)).code).toBe(0)
    expect(await deleted(warehouse.url)).toEqual(['p5'])
  })

  it('is undone when the service has the id again', async () => {
    await using service = await startLittleService(littlePatients(3))
    await using warehouse = await openWarehouse()
    const env = { ...service.env, DATABASE_URL: warehouse.url }
    expect((await runCommand(['backfill', '--streams', 'patients'], env)).code).toBe(0)
    const [removed] = service.records.patients.splice(1, 1)
    expect((await runCommand(['backfill', '--streams', 'patients'], env)).code).toBe(0)
    expect(await deleted(warehouse.url)).toEqual(['p2'])
    service.records.patients.push(removed!)
    expect((await runCommand(['backfill', '--streams', 'patients'], env)).code).toBe(0)
    expect(await deleted(warehouse.url)).toEqual([])
    expect(await lastNames(warehouse.url, ['p2'])).toEqual(['first'])
    expect((await storedTables(warehouse.url)).patient_custom_fields).toHaveLength(3)
  })
})

it.concurrent('fifty deletes need no approval; fifty-one wait, are reported, delay no other stream, and are made when allowed', async () => {
  await using scene = await openScene({ patients: 110 })
  const { control } = scene.emulator
  const patients = control.world().patients
  const remove = (from: number, to: number) => {
    for (let at = from; at < to; at++) control.deletePatient(patients.at(at)!.id)
  }
  expect((await scene.backfill()).code).toBe(0)
  remove(0, 50)
  expect((await scene.backfill()).code).toBe(0)
  expect(await deleted(scene.url)).toHaveLength(50)

  remove(50, 101)
  const form = control.world().forms.at(0)!
  control.renameForm(form.id, 'Renamed meanwhile')
  control.updatePatient(patients.at(105)!.id, { last_name: 'Meanwhile' })
  const waiting = await scene.backfill()
  expect(waiting.code).toBe(4)
  expect(waiting.stdout).toMatch(/patients: 51 patients are missing .*--allow-mass-delete/)
  expect(await deleted(scene.url)).toHaveLength(50)
  expect(await lastNames(scene.url, [patients.at(105)!.id])).toEqual(['Meanwhile'])
  const [name] = await query(scene.url, 'select name from intake.forms where id = $1', [form.id])
  expect(name).toEqual({ name: 'Renamed meanwhile' })
  const [run] = await query(scene.url, 'select status from intake_ops.runs order by run_id desc limit 1')
  expect(run).toEqual({ status: 'needs_attention' })

  expect((await scene.backfill('--allow-mass-delete', '--full')).code).toBe(0)
  expect(await deleted(scene.url)).toHaveLength(101)
  expect(await storedTables(scene.url)).toEqual(expectedOf(control.world()))
})

async function lastNames(url: string, ids: readonly string[]): Promise<readonly string[]> {
  const rows = await query<{ last_name: string }>(
    url,
    'select last_name from intake.patients where id = any ($1) order by last_name',
    [ids],
  )
  return rows.map(({ last_name }) => last_name)
}

async function deleted(url: string): Promise<readonly string[]> {
  const rows = await query<{ id: string }>(
    url,
    `select id from intake.patients where _deleted_at is not null
     intersect select id from intake_raw.records where deleted and stream = 'patients' order by 1`,
  )
  return rows.map(({ id }) => id)
}
