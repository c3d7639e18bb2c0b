/** The tables are compared with the source, and repaired, by the command itself. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { withoutPausesOfVerify } from '../../e2e/support/impatient.ts'
import { connect, openScene, query, type Scene } from '../../e2e/support/scene.ts'
import { rowVersions } from '../../e2e/support/tables.ts'
import { wholeWarehouse } from '../../operate/whole-warehouse.ts'
import type { Ended } from '../../support/cli.ts'
import { runCommand } from '../../support/run-command.ts'

interface Found {
  readonly source: number
  readonly warehouse: number
  readonly missing: readonly string[]
  readonly extra: readonly string[]
  readonly different: readonly { readonly id: string; readonly fields: readonly string[] }[]
  readonly repaired: number
  readonly payloads_only: number
  readonly source_hash: string
  readonly warehouse_hash: string
  readonly note: string | null
}

interface Document {
  readonly run_id: number
  readonly equal: boolean
  readonly streams: Readonly<Record<string, Found>>
}

const documentOf = ({ stdout }: Ended) => JSON.parse(stdout) as Document

const looks = withoutPausesOfVerify()

let scene: Scene

beforeAll(async () => {
  scene = await openScene({ patients: 24, responses: 30, forms: 5 })
  const loaded = await scene.backfill()
  expect(loaded.code, loaded.output).toBe(0)
})

afterAll(async () => {
  await scene[Symbol.asyncDispose]()
})

function verify(...words: string[]): Promise<Ended> {
  return runCommand(['verify', '--json', ...words], { ...scene.env, LOG_LEVEL: 'error' })
}

async function liveIds(table: string): Promise<string[]> {
  const rows = await scene.query<{ id: string }>(
    `select id from intake.${table} where _deleted_at is null order by id`,
  )
  return rows.map(({ id }) => id)
}

it('loaded records are equal, to the content hash, and nothing is written', async () => {
  const before = await rowVersions(scene.url)
  const slices = () => scene.query('select * from intake_ops.checkpoints order by team_id, stream, slice')
  const taken = await slices()
  const ended = await verify()
  expect(ended.code, ended.output).toBe(0)
  expect(await slices()).toEqual(taken)
  const { equal, streams, run_id } = documentOf(ended)
  expect(equal).toBe(true)
  expect(streams.patients).toMatchObject({
    source: 24,
    warehouse: 24,
    missing: [],
    extra: [],
    different: [],
    repaired: 0,
  })
  for (const [name, { source, warehouse, source_hash, warehouse_hash }] of Object.entries(streams)) {
    expect({ name, rows: warehouse, hash: warehouse_hash }).toEqual({ name, rows: source, hash: source_hash })
  }
  expect(await rowVersions(scene.url)).toEqual(before)
  const stored = await scene.query('select is_equal from intake_ops.verifications where run_id = $1', [
    run_id,
  ])
  expect(stored).toHaveLength(Object.keys(streams).length)
  const [run] = await scene.query(
    'select kind, status, error, options from intake_ops.runs where run_id = $1',
    [run_id],
  )
  expect(run).toEqual({
    ...{ kind: 'verify', status: 'succeeded', error: null },
    options: { streams: Object.keys(streams), teams: ['default'], repair: false },
  })
})

it('finds exactly the rows that were changed, deleted and added by hand, and repairs exactly those', async () => {
  const patients = await liveIds('patients')
  const [p0, p1, p2, p3, p4, p5, p6] = patients
  const responses = await scene.query<{ id: string }>(
    'select distinct response_id as id from intake.response_answers order by 1',
  )
  const [r0, r1] = responses.map(({ id }) => id)
  const [form] = await liveIds('forms')
  const [first, second] = (await liveIds('exports')) as [string, string]
  const damage: readonly [string, unknown[]][] = [
    [`update intake.patients set last_name = 'Canary', email = null where id = $1`, [p0]],
    ['delete from intake.patients where id = $1', [p1]],
    [`update intake.patients set _deleted_at = now() where id = $1`, [p2]],
    [
      `insert into intake.patient_tags select team_id, id, 77, 'more', null from intake.patients where id = $1`,
      [p3],
    ],
    [`delete from intake_raw.records where stream = 'patients' and id = $1`, [p4]],
    [
      `update intake_raw.records set payload = payload || '{"city": "Elsewhere"}' where stream = 'patients' and id = $1`,
      [p5],
    ],
    [`update intake_raw.records set hash = '\\x00' where stream = 'patients' and id = $1`, [p6]],
    [
      `insert into intake.patients (team_id, id, last_name, _version, _origin) values (1, 'nobody', 'X', now(), 'hand')`,
      [],
    ],
    [`insert into intake.patient_custom_fields values (1, 'no parent', 'plan', 'x')`, []],
    ['delete from intake.response_answers where response_id = $1 and position = 1', [r0]],
    [
      `update intake.response_answers set value_text = 'Canary' where response_id = $1 and position = 1`,
      [r1],
    ],
    [
      `update intake.form_questions set position = position + 100 where form_id = $1 and position = 1`,
      [form],
    ],
    [
      `update intake.export_cells set value = 'Canary' where export_id = $1 and (row_number, position) =
        (select row_number, position from intake.export_cells where export_id = $1 order by 1, 2 limit 1)`,
      [first],
    ],
    [`delete from intake.export_rows where export_id = $1`, [second]],
  ]
  const before = await wholeWarehouse(scene.url)
  for (const [text, values] of damage) await scene.query(text, values)

  const ended = await verify()
  expect(ended.code).toBe(4)
  expect(ended.output).not.toContain('Canary')
  // For people a payload that differs has no names of tables.
  const text = await runCommand(['verify', '--streams', 'patients'], { ...scene.env, LOG_LEVEL: 'error' })
  expect(text.stdout).toContain(`${p4} (the stored payload)`)
  expect(text.stdout).not.toMatch(/_hash|intake_raw/)
  const { streams: found, run_id } = documentOf(ended)
  const [run] = await scene.query<{ error: string }>('select error from intake_ops.runs where run_id = $1', [
    run_id,
  ])
  expect(run!.error.split('\n')).toEqual([
    'default/patients: 2 missing, 2 extra, 5 different, 0 repaired',
    'default/forms: 0 missing, 0 extra, 1 different, 0 repaired',
    'default/responses: 0 missing, 0 extra, 2 different, 0 repaired',
    'default/exports: 0 missing, 0 extra, 2 different, 0 repaired',
  ])
  expect(found.patients).toMatchObject({
    source: 24,
    missing: [p1, p2],
    extra: ['no parent', 'nobody'],
    repaired: 0,
  })
  expect(found.patients!.different).toEqual(
    [
      { id: p0, fields: ['email', 'last_name'] },
      { id: p3, fields: ['patient_tags'] },
      { id: p4, fields: ['intake_raw.records'] },
      { id: p5, fields: ['intake_raw.records'] },
      { id: p6, fields: ['intake_raw.records'] },
    ].sort((a, b) => (a.id! < b.id! ? -1 : 1)),
  )
  expect(found.responses).toMatchObject({
    missing: [],
    extra: [],
    different: [r0, r1].sort().map((id) => ({ id, fields: ['response_answers'] })),
  })
  expect(found.forms!.different).toEqual([{ id: form, fields: ['form_questions'] }])
  expect(found.exports!.different).toEqual([
    { id: first, fields: ['export_cells'] },
    { id: second, fields: ['export_rows'] },
  ])
  for (const name of ['packets', 'documents', 'messages', 'webhook_configs']) {
    expect(found[name]).toMatchObject({ missing: [], extra: [], different: [] })
  }

  const versions = new Set(await rowVersions(scene.url))
  const repaired = await verify('--repair')
  expect(repaired.code, repaired.output).toBe(0)
  const repairedStreams = documentOf(repaired).streams
  expect(repairedStreams.patients).toMatchObject({
    missing: [p1, p2],
    extra: ['no parent', 'nobody'],
    repaired: 9,
  })
  const [stored] = await scene.query(
    `select is_equal, missing::int, extra::int, different::int, repaired::int, newer::int, missing_ids, extra_ids,
       different_ids, source_hash
     from intake_ops.verifications where stream = 'patients' order by run_id desc limit 1`,
  )
  const [asked] = await scene.query('select kind, options from intake_ops.runs order by run_id desc limit 1')
  expect(asked).toMatchObject({ kind: 'verify', options: { teams: ['default'], repair: true } })
  expect(stored).toEqual({
    ...{ is_equal: false, missing: 2, extra: 2, different: 5, repaired: 9, newer: 0 },
    ...{ missing_ids: [p1, p2], extra_ids: ['no parent', 'nobody'] },
    different_ids: repairedStreams.patients!.different,
    source_hash: repairedStreams.patients!.source_hash,
  })
  expect([
    repairedStreams.responses!.repaired,
    repairedStreams.forms!.repaired,
    repairedStreams.exports!.repaired,
  ]).toEqual([2, 1, 2])
  const written = (await rowVersions(scene.url)).filter((version) => !versions.has(version))
  expect(written.filter((line) => line.startsWith('intake.patients '))).toHaveLength(9)
  expect(written.filter((line) => line.startsWith('intake.responses '))).toHaveLength(2)
  expect(written.filter((line) => line.startsWith('intake.messages '))).toEqual([])
  const after = await wholeWarehouse(scene.url)
  expect(contents(after)).toEqual(contents(before))
  const again = await verify()
  expect(again.code, again.output).toBe(0)
  expect(documentOf(again).equal).toBe(true)
})

/** Live rows without their metadata of loading. */
function contents(tables: Record<string, readonly string[]>): Record<string, readonly string[]> {
  const plain = Object.entries(tables).map(([name, lines]): [string, readonly string[]] => {
    const rows = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
    const live = rows.filter((row) => row.deleted !== true && (row._deleted_at ?? null) === null)
    const fields = live.map(({ _version, _origin, version, origin, observed_at, ...row }) =>
      JSON.stringify(row),
    )
    return [name, fields.sort()]
  })
  return Object.fromEntries(plain)
}

it('finds exactly the records that changed in the source without an event, and repairs exactly those', async () => {
  const { control } = scene.emulator
  const world = control.world()
  const [p0, p1] = [world.patients.at(0)!.id, world.patients.at(1)!.id]
  control.updatePatient(p0, { last_name: 'Renamed', city: 'Elsewhere' })
  control.deletePatient(p1)
  const { id: born } = control.createPatient({ first_name: 'New', last_name: 'Person' })
  const found = documentOf(await verify('--streams', 'patients,responses'))
  expect(found.streams.patients).toMatchObject({ source: 24, warehouse: 24, missing: [born], extra: [p1] })
  expect(found.streams.patients!.different).toEqual([
    { id: p0, fields: ['_hash', 'city', 'intake_raw.records', 'last_name', 'updated_at'] },
  ])
  // No table of responses has their patient's name, and their updated_at does not change with it.
  const embedding = await scene.query('select from intake.responses where patient_id = $1', [p0])
  expect(found.streams.responses!.payloads_only).toBe(embedding.length)
  expect(
    await scene.query(
      `select payloads_only::int, newer::int from intake_ops.verifications where run_id = $1 and stream = 'responses'`,
      [found.run_id],
    ),
  ).toEqual([{ payloads_only: embedding.length, newer: 0 }])
  const lost = await scene.query<{ id: string }>(
    'select id from intake.responses where patient_id = $1 order by id',
    [p1],
  )
  expect(found.streams.responses!.different.map(({ id }) => id)).toEqual(lost.map(({ id }) => id))

  const repaired = await verify('--repair', '--streams', 'patients,responses')
  expect(repaired.code, repaired.output).toBe(0)
  expect(documentOf(repaired).streams.patients!.repaired).toBe(3)
  const [tombstone] = await scene.query<{ gone: boolean }>(
    `select _deleted_at is not null and last_name is null as gone from intake.patients where id = $1`,
    [p1],
  )
  expect(tombstone).toEqual({ gone: true })
  expect((await verify('--streams', 'patients,responses')).code).toBe(0)
})

it('a value that is left in the row of a deleted record is a difference, and is repaired', async () => {
  const left = await scene.query<{ id: string }>(
    `update intake.patients set phone_number = 'left' where id =
       (select min(id) from intake.patients where _deleted_at is not null) returning id`,
  )
  expect(left).toHaveLength(1)
  const found = await verify('--streams', 'patients')
  expect(found.code, found.output).toBe(4)
  expect(documentOf(found)).toMatchObject({
    equal: false,
    streams: { patients: { missing: [], extra: left.map(({ id }) => id), different: [] } },
  })
  const repaired = await verify('--repair', '--streams', 'patients')
  expect(repaired.code, repaired.output).toBe(0)
  const kept = await scene.query('select from intake.patients where phone_number = $1', ['left'])
  expect(kept).toEqual([])
})

it('erased records are not reported as missing', async () => {
  const [patient] = await scene.query<{ id: string }>(
    `select client_id as id from intake.export_rows
     join intake.patients p on p.id = client_id and p._deleted_at is null order by 1 limit 1`,
  )
  const erased = await runCommand(['erase', 'patient', patient!.id, '--yes'], scene.env)
  expect(erased.code, erased.output).toBe(0)
  const ended = await verify('--streams', 'patients,responses,messages')
  for (const [name, found] of Object.entries(documentOf(ended).streams)) {
    expect({ name, ...found }).toMatchObject({ missing: [], extra: [] })
  }
  expect(ended.stdout).not.toContain(patient!.id)
  const files = await verify('--repair', '--streams', 'exports')
  expect(files.code, files.output).toBe(0)
  const kept = await scene.query('select from intake.export_rows where client_id = $1', [patient!.id])
  expect(kept).toEqual([])
  expect((await verify('--streams', 'exports')).code).toBe(0)
})

it('deletes nothing beyond the guard, and reports it; fifty records are within it', async () => {
  const add = (count: number) =>
    scene.query(
      `insert into intake.packets (team_id, id, name, _version, _origin)
       select 1, $1 || ' packet ' || n, 'x', now(), 'hand' from generate_series(1, $1::int) n`,
      [count],
    )
  await add(51)
  const guarded = await verify('--repair', '--streams', 'packets')
  expect(guarded.code).toBe(4)
  expect(documentOf(guarded).streams.packets).toMatchObject({
    repaired: 0,
    note: expect.stringContaining('--allow-mass-delete'),
  })
  expect(documentOf(guarded).streams.packets!.extra).toHaveLength(51)
  const done = await verify('--repair', '--allow-mass-delete', '--streams', 'packets')
  expect(done.code, done.output).toBe(0)
  expect(documentOf(done).streams.packets!.repaired).toBe(51)
  // Of many live records, one in twenty.
  const more = (live: number) =>
    scene.query(
      `insert into intake_ops.record_counts (team_id, stream, live, deleted) values (1, 'packets', $1, 0)`,
      [live],
    )
  const [{ live } = { live: 0 }] = await scene.query<{ live: number }>(
    `select sum(live)::int as live from intake_ops.record_counts where team_id = 1 and stream = 'packets'`,
  )
  const added = 1_059 - live
  await more(added)
  await add(53)
  const beyond = await verify('--repair', '--streams', 'packets')
  expect(documentOf(beyond).streams.packets, beyond.output).toMatchObject({
    ...{ repaired: 0, note: expect.stringMatching(/^53 packets .* more than the 52 that a run deletes/) },
  })
  await scene.query(`delete from intake.packets where id = '53 packet 53'`)
  const part = await verify('--repair', '--streams', 'packets')
  expect(documentOf(part).streams.packets, part.output).toMatchObject({ repaired: 52 })
  await more(-added)
  await add(50)
  const few = await verify('--repair', '--streams', 'packets')
  expect(few.code, few.output).toBe(0)
  expect(documentOf(few).streams.packets!.repaired).toBe(50)
})

it('a repair of a stream that another run locks is rejected; a comparison is not', async () => {
  const client = await connect(scene.url)
  try {
    await client.query(`select pg_advisory_lock(intake_ops.lock_key(7204311, '1/documents'))`)
    expect((await verify('--repair', '--streams', 'documents')).code).toBe(3)
    expect((await verify('--streams', 'documents')).code).toBe(0)
  } finally {
    await client.end()
  }
  expect((await verify('--streams', 'people')).code).toBe(2)
})

it('changes during the comparison are distinguished from differences', async () => {
  const { control } = scene.emulator
  const world = control.world()
  const [changing, wrong] = [world.patients.at(3)!.id, world.patients.at(4)!.id]
  await scene.query(`update intake.patients set phone_number = 'wrong' where id = $1`, [wrong])
  // Events arrive for this team: pending changes are waited for.
  await scene.query(
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status)
     values (1, 'e1', '\\x00', (now() at time zone 'UTC')::date, now(), '', 'done')`,
  )
  // In each pause there is another change, which reaches the warehouse as an event would bring it.
  looks.meanwhile = async () => {
    control.updatePatient(changing, { city: `City ${looks.pauses.length}` })
    await query(
      scene.url,
      `with raw as (
         update intake_raw.records set hash = '\\x01', version = now() where stream = 'patients' and id = $1 returning id
       ) update intake.patients set _loaded_at = now() from raw where patients.id = raw.id`,
      [changing],
    )
  }
  control.updatePatient(changing, { city: 'Before' })
  const { patients } = documentOf(await verify('--streams', 'patients')).streams
  expect(patients!.different).toEqual([{ id: wrong, fields: ['phone_number'] }])
  expect(patients).toMatchObject({ missing: [], newer: 1 })
  expect(looks.pauses).toEqual([1_000])
})
