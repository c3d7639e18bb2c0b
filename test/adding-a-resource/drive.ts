/** Drives the stream that docs/adding-a-resource.md adds; run in a copy of the project that has it. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openScene, type Scene } from '../e2e/support/scene.ts'
import { createWebhook, type ServingProcess, settled, startServing, until } from '../e2e/support/serving.ts'
import { runCommand } from '../support/run-command.ts'

let scene: Scene
let serving: ServingProcess

beforeAll(async () => {
  scene = await openScene({ patients: 24, responses: 30, forms: 5 })
})

afterAll(async () => {
  await serving?.stop()
  await scene[Symbol.asyncDispose]()
})

const table = () => scene.emulator.control.world().declared('appointment')

const run = async (...words: string[]) => {
  const ended = await runCommand(words, { ...scene.env, LOG_LEVEL: 'error' })
  expect(ended.code, ended.output).toBe(0)
  return ended.stdout
}

interface Row {
  readonly id: string
  readonly patient_id: string
  readonly status: string
}

/** The live rows of the warehouse, and those of the service, ordered by id. */
const rows = () =>
  scene.query<Row>(
    'select id, patient_id, status from intake.appointments where _deleted_at is null order by id collate "C"',
  )
const records = () =>
  table()
    .slice(0, table().size)
    .map(({ id, patient, status }) => ({ id, patient_id: (patient as { id: string }).id, status }))
    .sort((a, b) => (a.id < b.id ? -1 : 1))

test('backfill loads it, and status, the metrics of freshness and the view of analysts show it', async () => {
  await run('backfill')
  expect((await rows()).length).toBe(48)
  expect(await rows()).toEqual(records())
  expect(await run('status')).toMatch(/appointments +48/)
  const [fresh] = await scene.query<{ newest_record_at: Date | null }>(
    `select newest_record_at from intake_analytics.freshness where stream = 'appointments'`,
  )
  expect(fresh!.newest_record_at).not.toBeNull()
  const shown = await scene.query<Record<string, unknown>>(
    'select * from intake_analytics.appointments join intake_analytics.patients using (team_id, patient)',
  )
  expect(shown).toHaveLength(48)
  const columns = await scene.query<{ name: string }>(
    `select attname as name from pg_attribute
     where attrelid = 'intake_analytics.appointments'::regclass and attnum > 0 order by attnum`,
  )
  expect(columns.map(({ name }) => name)).toEqual([
    ...['team_id', 'id', 'patient', 'status', 'starts_at', 'duration_minutes'],
  ])
})

test('a backfill of what did not change writes nothing', async () => {
  const document = JSON.parse(await run('backfill', '--streams', 'appointments', '--json'))
  expect(document.streams.appointments).toMatchObject({ fetched: 48, changed: 0, unchanged: 48, deleted: 0 })
})

test('what webhooks report is loaded: an update, a creation, a deletion', async () => {
  serving = await startServing(scene.env, '--cron', 'off')
  await createWebhook(scene.env, serving.document.webhooks!)
  const [first, second] = table().slice(0, 2)
  table().update(first!.id, (old) => ({ ...old, status: 'moved', updated_at: now() }))
  table().create((id) => ({ ...first!, id, status: 'created', created_at: now(), updated_at: now() }))
  table().remove(second!.id)
  // Answered 503 until the endpoint has read the secret that was stored a moment ago, and sent again.
  const { control } = scene.emulator
  await until('nothing is sent again', () => control.webhooks().pending + control.webhooks().retrying === 0)
  await settled(scene)
  expect(await rows()).toEqual(records())
  const states = await scene.query<{ status: string }>(
    `select status from intake.appointments where _origin like 'event:%' order by status`,
  )
  expect(states.map(({ status }) => status)).toEqual(['created', 'moved', null])
})

const now = () => scene.emulator.control.world().now()

test('verify finds it equal to the source, and deep too', async () => {
  // The webhook was created since.
  await run('backfill', '--streams', 'webhook_configs,webhook_deliveries')
  const { equal, streams } = JSON.parse(await run('verify', '--deep', '--json'))
  expect(equal).toBe(true)
  expect(streams.appointments).toMatchObject({
    source: 48,
    warehouse: 48,
    missing: [],
    extra: [],
    different: [],
  })
})

test('verify finds a changed row, and repairs it', async () => {
  const [{ id }] = (await scene.query<Row>(
    `update intake.appointments set status = 'lost' where id = (select min(id) from intake.appointments where _deleted_at is null) returning id`,
  )) as [Row]
  const words = ['verify', '--streams', 'appointments', '--json']
  const found = await runCommand(words, { ...scene.env, LOG_LEVEL: 'error' })
  expect(found.code, found.output).toBe(4)
  expect(JSON.parse(found.stdout).streams.appointments.different).toEqual([{ id, fields: ['status'] }])
  await run(...words, '--repair')
  expect(await rows()).toEqual(records())
})

test('replay rebuilds it from intake_raw', async () => {
  const before = await rows()
  await scene.query(`delete from intake.appointments where status = 'booked'`)
  await run('replay', '--streams', 'appointments')
  expect(await rows()).toEqual(before)
})

test('explain says which page and which event its states came from', async () => {
  const { id } = table().slice(0, 1)[0]!
  const text = await run('explain', 'appointments', id)
  expect(text).toMatch(/event:/)
  expect(text).toMatch(/run:/)
  expect(text).toContain('status')
  expect(text).not.toContain('moved')
})

test('erasing a patient removes the appointments, and nothing brings them back', async () => {
  const [{ patient_id: patient }] = (await rows()) as [Row]
  const theirs = (await rows()).filter((row) => row.patient_id === patient)
  expect(theirs.length).toBeGreaterThan(0)
  await run('erase', 'patient', patient, '--yes')
  const left = async () =>
    await scene.query(
      `select id from intake.appointments where patient_id = $1 or id = any($2)
       union all select id from intake_raw.records where stream = 'appointments' and id = any($2)
       union all select id from intake_raw.record_history where stream = 'appointments' and id = any($2)
       union all select record_id from intake_raw.inbox where source = 'appointment' and record_id = any($2)`,
      [patient, theirs.map(({ id }) => id)],
    )
  expect(await left()).toEqual([])
  table().update(theirs[0]!.id, (old) => ({ ...old, status: 'moved', updated_at: now() }))
  await settled(scene)
  await run('backfill', '--streams', 'appointments')
  expect(await left()).toEqual([])
  expect(await rows()).toEqual(records().filter((row) => row.patient_id !== patient))
  expect(JSON.parse(await run('verify', '--streams', 'appointments', '--json')).equal).toBe(true)
})
