/** A service that is wrong about itself: its clock, its count, or a listed record that it does not return. */
import { expect, it } from 'vitest'
import { createTestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { withoutPauses } from './support/impatient.ts'
import { littlePatients, startLittleService } from './support/little-service.ts'
import { openWarehouse, query } from './support/scene.ts'

withoutPauses()

interface Figures {
  readonly changed: number
  readonly deleted: number
  readonly dead_letters: number
  readonly note: string | null
}

async function scene() {
  const service = await startLittleService(littlePatients(5))
  const warehouse = await openWarehouse()
  const env = { ...service.env, DATABASE_URL: warehouse.url }
  return {
    service,
    url: warehouse.url,
    async backfill(...words: string[]) {
      const run = await runCommand(['backfill', '--json', ...words], env)
      return { code: run.code, streams: JSON.parse(run.stdout).streams as Record<string, Figures> }
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await warehouse[Symbol.asyncDispose]()
    },
  }
}

it('one answer whose Date is a year ahead does not block later edits and deletes', async () => {
  await using at = await scene()
  const ahead = new Date(Date.now() + 365 * 86_400_000).toUTCString()
  at.service.interfere = (_, response) => {
    response.setHeader('date', ahead)
    return false
  }
  expect((await at.backfill('--streams', 'patients')).code).toBe(0)
  at.service.interfere = () => false
  const { patients } = at.service.records
  patients.splice(0, 1)
  patients[0] = { ...patients[0]!, last_name: 'Edited' }
  const second = await at.backfill('--streams', 'patients')
  expect(second).toMatchObject({ code: 0, streams: { patients: { changed: 1, deleted: 1 } } })
  const rows = await query(
    at.url,
    'select last_name, _deleted_at is null as alive from intake.patients order by id limit 2',
  )
  expect(rows).toEqual([
    { last_name: null, alive: false },
    { last_name: 'Edited', alive: true },
  ])
  expect((await at.backfill('--streams', 'patients')).streams.patients).toMatchObject({
    changed: 0,
    deleted: 0,
  })
})

it('a summary whose id is not found or is refused becomes a dead letter; the others are loaded', async () => {
  await using at = await scene()
  at.service.records.forms.push(
    { id: 'f1', name: 'Lost' },
    { id: 'f2', name: 'Refused' },
    { id: '..', name: 'Dots' },
  )
  at.service.records.forms.push({ id: 'f4', name: 'Whole', questions: [] })
  at.service.interfere = ({ url }, response) => {
    if (!/forms\/f[12]$/.test(url)) return false
    response
      .writeHead(url.endsWith('f1') ? 404 : 400, { 'content-type': 'application/json' })
      .end('{"detail":"no"}')
    return true
  }
  const run = await at.backfill('--streams', 'forms')
  expect(run).toMatchObject({ code: 4, streams: { forms: { changed: 1, dead_letters: 3 } } })
  expect(await query(at.url, 'select id from intake.forms')).toEqual([{ id: 'f4' }])
  const kept = await query<{ body: string }>(
    at.url,
    `select convert_from(body, 'UTF8') as body from intake_raw.set_aside join intake_ops.dead_letters on id = dead_letter_id`,
  )
  expect(kept.map(({ body }) => JSON.parse(body).name).sort()).toEqual(['Dots', 'Lost', 'Refused'])
})

it('a record that is listed twice with the same content is written once, and not again by the next run', async () => {
  await using at = await scene()
  const { patients } = at.service.records
  patients.push(patients[0]!)
  await at.backfill('--streams', 'patients')
  const versions = () => query(at.url, 'select id, xmin::text, ctid::text from intake.patients order by id')
  const before = await versions()
  const again = await at.backfill('--streams', 'patients')
  expect(again.streams.patients).toMatchObject({
    changed: 0,
    note: expect.stringContaining('counts 6 but lists 5'),
  })
  expect(await versions()).toEqual(before)
})

it('an updated_at in the future is no longer a problem once that time has passed', async () => {
  await using at = await scene()
  at.service.records.patients.splice(0, 5, { id: 'p1', updated_at: new Date().toISOString() })
  const behind = new Date(Date.now() - 3_600_000).toUTCString()
  at.service.interfere = (_, response) => {
    response.setHeader('date', behind)
    return false
  }
  const problems = () => query(at.url, 'select _problems is null as clean from intake.patients')
  await at.backfill('--streams', 'patients')
  expect(await problems()).toEqual([{ clean: false }])
  at.service.interfere = () => false
  await at.backfill('--streams', 'patients')
  expect(await problems()).toEqual([{ clean: true }])
})

it('a dry run on an empty database reads a list that contains a record twice, and creates nothing', async () => {
  await using service = await startLittleService(littlePatients(5))
  await using empty = await createTestDatabase({ empty: true })
  const { patients } = service.records
  patients.push(patients[0]!)
  const run = await runCommand(['backfill', '--json', '--dry-run'], {
    ...service.env,
    DATABASE_URL: empty.url,
  })
  expect(JSON.parse(run.stdout)).toMatchObject({
    run_id: null,
    streams: { patients: { status: 'needs_attention' } },
  })
  expect(run.code).toBe(4)
  expect(await query(empty.url, "select nspname from pg_namespace where nspname like 'intake%'")).toEqual([])
})
