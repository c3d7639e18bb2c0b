/** The emulator's exports in every shape and through every fault: the warehouse has the content of its world. */
import { afterEach, expect, test } from 'vitest'
import { columnsOf } from '../../../src/emulator/http/resources/export-columns.ts'
import { exportOf } from '../../../src/emulator/http/resources/export-rows.ts'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import type { World } from '../../../src/emulator/world/world.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { often } from '../../support/thorough.ts'
import { query, type RunOptions, rowVersions, runExports, shownTables } from './run.ts'

const open: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

async function scene(options: { shape?: string; pageSize?: number } = {}) {
  const emulator = await startEmulator({
    port: 0,
    patients: 30,
    responses: 120,
    forms: 14,
    pageSize: 5,
    ...options,
  })
  open.push(() => emulator.close())
  const database = await createTestDatabase()
  open.push(() => database.drop())
  const run = (more: RunOptions = {}) => runInto(emulator, database, more)
  return { emulator, database, run, world: emulator.control.world() }
}

function runInto(emulator: Emulator, { url }: TestDatabase, more: RunOptions) {
  const { base_url, teams } = emulator.environments[0]!
  const { api_key: apiKey, api_secret: apiSecret } = teams[0]!
  return runExports(base_url, url, { ...more, client: { apiKey, apiSecret, ...more.client } })
}

/** The export of every form as expected from the world, by the form's name. */
async function expectedOf(world: World, style: 'flat' | 'legacy') {
  const expected: Record<string, unknown> = {}
  for (let index = 0; index < world.forms.end; index++) {
    const form = world.forms.at(index)
    if (form === undefined) continue
    const table = exportOf(world, form, style, (id) => id)
    const rows: (readonly string[])[] = []
    for await (const batch of table.rows) rows.push(...batch)
    expected[form.name] = { titles: table.titles.slice(7), rows: rows.map((row) => row.slice(7)) }
  }
  return expected
}

async function storedIn({ url }: TestDatabase) {
  const stored = await query<{ form_name: string; titles: string[]; rows: string[][] }>(
    url,
    `select form_name,
       array(select title from intake.export_columns c where c.export_id = e.id order by position) as titles,
       coalesce((select jsonb_agg(row order by row_number) from (
         select r.row_number, coalesce((
           select jsonb_agg(coalesce(x.value, '') order by c.position)
           from intake.export_columns c left join intake.export_cells x
             on x.export_id = e.id and x.row_number = r.row_number and x.position = c.position
           where c.export_id = e.id), '[]') as row
         from intake.export_rows r where r.export_id = e.id) rows), '[]') as rows
     from intake.exports e`,
  )
  return Object.fromEntries(stored.map(({ form_name, ...table }) => [form_name, table]))
}

const shapes = [
  'default',
  'export-form-id',
  'raw-text-csv',
  'raw-text-quoted',
  'raw-text-bom',
  'raw-text-quoted+raw-text-bom+export-form-id',
]

/** Each shape with either version, and all with both. */
const asked = shapes.flatMap((shape, at) => {
  const versions = ['v2.1', '']
  return often([versions[at % 2]!], versions).map((apiVersion) => ({ shape, apiVersion }))
})

test.each(asked)(
  'in shape $shape, requested with version "$apiVersion", every cell is in its place, and a second run writes nothing',
  async ({ shape, apiVersion }) => {
    const { database, run, world } = await scene({ shape })
    const { tally } = await run({ client: { apiVersion } })
    expect(tally).toMatchObject({ deadLetters: 0, problems: 0 })
    expect(await storedIn(database)).toEqual(await expectedOf(world, apiVersion === '' ? 'legacy' : 'flat'))
    const before = await rowVersions(database.url)
    await run({ client: { apiVersion } })
    expect(await rowVersions(database.url)).toEqual(before)
  },
)

test('columns are matched to the questions of their forms, including those of matrices', async () => {
  const { database, run, world } = await scene()
  for (let index = 0; index < world.forms.end; index++) {
    const form = world.forms.at(index)!
    for (const [at, { id, text, question_type }] of form.questions.entries()) {
      await query(
        database.url,
        `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
         values (1, $1, $2, $3, $4, $5)`,
        [form.id, at + 1, id, question_type.question_type, text],
      )
    }
  }
  await run()
  let tables = 0
  for (let index = 0; index < world.forms.end; index++) {
    const form = world.forms.at(index)!
    const texts = form.questions.map(({ text }) => text)
    const columns = columnsOf(form, 'flat')
    const expected = columns.map(({ question }) =>
      texts.filter((text) => text === question.text).length === 1 ? question.id : null,
    )
    tables += columns.filter(({ cell }) => cell !== undefined).length
    const stored = await query<{ question_id: string | null }>(
      database.url,
      `select question_id from intake.export_columns c join intake.exports e on e.id = c.export_id
       where e.form_id = $1 order by position`,
      [form.id],
    )
    expect(stored.map(({ question_id }) => question_id)).toEqual(expected)
  }
  expect(tables).toBeGreaterThan(0)
})

/** One of each kind: no answer, a cut body, a wrong content, and a wrong list. */
const FAULTS = [
  'http-500=0.4',
  'truncate=0.4',
  'html-200=0.4',
  'invalid-utf8=0.4',
  'wrong-count=3',
  'drop-rows=0.5',
]
const MORE_FAULTS = [
  ...['html-502=0.4', 'reset=0.4', 'empty-body=0.4', 'cut-json=0.4', 'corrupt-json=0.4', 'drip=0.4:1'],
  ...['slow=0.4:1', 'duplicate-rows=0.5'],
]

test.each([...FAULTS, ...often([], MORE_FAULTS)])(
  'after the fault %s one more run leaves the same as a fresh load',
  async (fault) => {
    const { emulator, database, run } = await scene({ pageSize: 100 })
    const [name, value] = fault.split('=')
    const strike = () => emulator.control.setFaults(`${name}@export-csv=${value}`)
    strike()
    await run().catch(() => {})
    emulator.control.renameForm(emulator.control.world().forms.at(1)!.id, 'Renamed')
    await run().catch(() => {})
    emulator.control.setFaults('')
    await run()
    const fresh = await createTestDatabase()
    open.push(() => fresh.drop())
    await runInto(emulator, fresh, {})
    expect(await shownTables(database.url)).toEqual(await shownTables(fresh.url))
    const waiting = await query(
      database.url,
      `select * from intake_ops.dead_letters where status = 'waiting'`,
    )
    expect(waiting).toEqual([])
  },
)

test('a run that is stopped, or whose session ends, anywhere is completed by the next', async () => {
  const { emulator, database, run } = await scene()
  for (let stops = 1; stops <= 6; stops++) {
    const stop = new AbortController()
    const ending = setTimeout(() => {
      if (stops % 2 === 0) stop.abort(new Error('stopped'))
      else {
        void query(
          database.url,
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and application_name = 'intake-sync load'`,
        )
      }
    }, stops * 40)
    await run({ signal: stop.signal }).catch(() => {})
    clearTimeout(ending)
  }
  await run()
  const fresh = await createTestDatabase()
  open.push(() => fresh.drop())
  await runInto(emulator, fresh, {})
  expect(await shownTables(database.url)).toEqual(await shownTables(fresh.url))
})
