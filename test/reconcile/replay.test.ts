/** `intake` is rebuilt from intake_raw, by the command itself. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { littlePatient, startLittleService } from '../e2e/support/little-service.ts'
import { connect, openWarehouse, query } from '../e2e/support/scene.ts'
import { rowVersions } from '../e2e/support/tables.ts'
import { configOf, teamOf } from '../e2e/support/teams.ts'
import { emptyIntake, wholeWarehouse } from '../operate/whole-warehouse.ts'
import type { Ended } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'

/** Shapes for which jsonb could lose content of rows, and in which problems are found before mapping. */
const SHAPES = [
  'default',
  'answers-object+input-fields-object+naughty-text+raw-text-quoted+non-string-custom-fields',
  'answers-object+numeric-ids+unknown-fields+null-optionals',
]
const WORLD = { port: 0, patients: 14, forms: 4, packets: 3, documents: 4, responses: 22, pageSize: 10 }

interface Document {
  readonly status: string
  readonly streams: Record<
    string,
    { records: number; rewritten: number; removed: number; refused: number; note: string | null }
  >
}

const documentOf = ({ stdout }: Ended) => JSON.parse(stdout) as Document

let warehouse: TestDatabase
const emulators: Emulator[] = []

beforeAll(async () => {
  warehouse = await openWarehouse()
  for (const shape of SHAPES) emulators.push(await startEmulator({ ...WORLD, shape }))
  const teams = SHAPES.map((_, at) => teamOf(`team-${at}`, emulators[at]!))
  const loaded = await runCommand(['backfill'], { ...configOf(teams), DATABASE_URL: warehouse.url })
  expect(loaded.code, loaded.output).toBe(0)
  // One is deleted and gets a tombstone, which takes part.
  const { control } = emulators[0]!
  control.deletePatient(control.world().patients.at(3)!.id)
  const again = await runCommand(['backfill', '--streams', 'patients'], {
    ...configOf(teams.slice(0, 1)),
    DATABASE_URL: warehouse.url,
  })
  expect(again.code, again.output).toBe(0)
})

afterAll(async () => {
  for (const emulator of emulators) await emulator.close()
  await warehouse.drop()
})

function replay(...words: string[]): Promise<Ended> {
  return runCommand(['replay', ...words], { DATABASE_URL: warehouse.url, LOG_LEVEL: 'error' })
}

describe('for any shape of the service', () => {
  it('rows that agree with intake_raw are not written', async () => {
    const before = await rowVersions(warehouse.url)
    const ended = await replay('--json')
    expect(ended.code, ended.output).toBe(0)
    for (const [stream, figures] of Object.entries(documentOf(ended).streams)) {
      expect({ stream, ...figures }).toMatchObject({ rewritten: 0, removed: 0, refused: 0, note: null })
    }
    expect(documentOf(ended).streams.patients!.records).toBe(WORLD.patients * SHAPES.length)
    expect(await rowVersions(warehouse.url)).toEqual(before)
  })

  it('verify confirms it', async () => {
    // The first shape has lost a patient since its responses and exports were read.
    const teams = [1, 2].map((at) => teamOf(`team-${at}`, emulators[at]!))
    const ended = await runCommand(['verify'], { ...configOf(teams), DATABASE_URL: warehouse.url })
    expect(ended.code, ended.output).toBe(0)
    expect(ended.stdout).toMatch(/^run \d+: equal$/m)
  })

  it('emptied tables are filled with the same versions, hashes, problems and positions', async () => {
    const before = await wholeWarehouse(warehouse.url)
    expect(before['intake.export_cells']!.length).toBeGreaterThan(0)
    expect(before['intake.patients']!.some((line) => line.includes('"_deleted_at": "'))).toBe(true)
    expect(
      before['intake_raw.records']!.filter((line) => !line.includes('"as_it_came": null')).length,
    ).toBeGreaterThan(30)
    await emptyIntake(warehouse.url)
    const ended = await replay()
    expect(ended.code, ended.output).toBe(0)
    expect(await wholeWarehouse(warehouse.url)).toEqual(before)
  })
})

it('rows changed, deleted, added and orphaned by hand are repaired, and no other row is written', async () => {
  const before = await wholeWarehouse(warehouse.url)
  const [{ ids } = { ids: [] }] = await query<{ ids: string[] }>(
    warehouse.url,
    'select array_agg(id order by id) as ids from intake.patients where team_id = 1 and _deleted_at is null',
  )
  const damage: readonly [string, unknown[]][] = [
    [`update intake.patients set last_name = 'Changed' where team_id = 1 and id = $1`, [ids[0]]],
    [`update intake.patients set _hash = '\\x00', _origin = 'hand' where team_id = 1 and id = $1`, [ids[1]]],
    [`delete from intake.patients where team_id = 1 and id = $1`, [ids[2]]],
    [`update intake.patients set first_name = 'Risen', _deleted_at = null where _deleted_at is not null`, []],
    [
      `insert into intake.patients (team_id, id, last_name, _version, _origin) values (1, 'nobody', 'X', now(), 'hand')`,
      [],
    ],
    [
      `insert into intake.patient_tags values (1, 'no one', 1, 'orphan', null), (1, $1, 99, 'more', null)`,
      [ids[3]],
    ],
    [
      `delete from intake.patient_tags where team_id = 1 and patient_id =
        (select max(patient_id) from intake.patient_tags where team_id = 1 and patient_id <> all ($1 || '{"no one"}'::text[]))`,
      [ids.slice(0, 4)],
    ],
    [`delete from intake.response_answers where team_id = 2 and position = 2`, []],
    [`update intake.export_cells set value = value || '!' where team_id = 1 and position = 9`, []],
    [`update intake.export_columns set question_id = 'other' where team_id = 1 and position = 8`, []],
    [`insert into intake.export_rows (team_id, export_id, row_number) values (1, 'no export', 1)`, []],
  ]
  for (const [text, values] of damage) await query(warehouse.url, text, values)
  const answered = await query<{ response_id: string }>(
    warehouse.url,
    'select distinct response_id from intake.response_answers where team_id = 2',
  )
  const versions = new Set(await rowVersions(warehouse.url))

  const ended = await replay('--json')
  expect(ended.code, ended.output).toBe(0)
  const { patients, responses, exports, forms } = documentOf(ended).streams
  expect(patients).toMatchObject({ rewritten: 6, removed: 2 })
  expect(responses!.rewritten).toBeLessThanOrEqual(answered.length)
  expect(responses!.rewritten).toBeGreaterThan(0)
  expect(exports!.rewritten).toBeGreaterThan(0)
  expect(forms).toMatchObject({ rewritten: 0, removed: 0 })
  expect(await wholeWarehouse(warehouse.url)).toEqual(before)
  const written = (await rowVersions(warehouse.url)).filter((version) => !versions.has(version))
  expect(written.filter((line) => line.startsWith('intake.patients '))).toHaveLength(6)
  expect(written.filter((line) => /^intake\.(forms|documents|messages|packets) /.test(line))).toEqual([])
})

it('when Postgres refuses one record, all others are still rebuilt', async () => {
  const before = await wholeWarehouse(warehouse.url)
  const rows = await query<{ id: string }>(
    warehouse.url,
    `update intake.patients set last_name = 'Wrong' where team_id = 1 and _deleted_at is null returning id`,
  )
  const [refused] = rows.map(({ id }) => id).sort()
  await query(
    warehouse.url,
    `alter table intake.patients add constraint refusing check (team_id <> 1 or id <> '${refused}') not valid`,
  )
  // Rows without a record, the first and last of those whose ids are not the refused one's.
  await query(
    warehouse.url,
    `insert into intake.patients (team_id, id, _version, _origin) values (1, '${refused}x', now(), 'x'), (1, 'z', now(), 'x')`,
  )
  const ended = await replay('--streams', 'patients', '--json')
  await query(warehouse.url, 'alter table intake.patients drop constraint refusing')
  expect(documentOf(ended).streams.patients).toMatchObject({
    ...{ refused: 1, rewritten: rows.length - 1, removed: 2 },
  })
  const wrong = await query(warehouse.url, `select id from intake.patients where last_name = 'Wrong'`)
  expect(wrong).toEqual([{ id: refused }])
  expect((await replay('--streams', 'patients')).code).toBe(0)
  expect(await wholeWarehouse(warehouse.url)).toEqual(before)
})

it('a reader never sees fewer rows, nor a record without its children, and never waits', async () => {
  const reader = await connect(warehouse.url)
  const count = `select count(*)::int as patients, (select count(*)::int from intake.response_answers) as answers,
    (select count(*)::int from intake.export_cells) as cells,
    count(*) filter (where first_name = 'Other' and exists (select from intake.patient_tags own
      where own.team_id = p.team_id and own.patient_id = p.id and own.name <> 'Other'))::int as torn
    from intake.patients p`
  try {
    // A read that takes longer than this fails.
    await reader.query(`set lock_timeout = '200ms'`)
    // Again where the reader was slow and the replay quick.
    for (let reads = 0; reads <= 5; ) {
      await query(warehouse.url, `update intake.patients set first_name = 'Other' where _deleted_at is null`)
      await query(warehouse.url, `update intake.patient_tags set name = 'Other'`)
      await query(warehouse.url, `update intake.response_answers set value_text = 'Other'`)
      await query(warehouse.url, `update intake.export_cells set value = 'Other'`)
      const { rows: before } = await reader.query(count)
      let running = true
      const replaying = replay().finally(() => {
        running = false
      })
      while (running) {
        expect((await reader.query(count)).rows).toEqual(before)
        reads += 1
        // A reader without pauses would take half of the machine.
        await sleep(2)
      }
      const ended = await replaying
      expect(ended.code, ended.output).toBe(0)
    }
    const { rows } = await reader.query(`select from intake.patients where first_name = 'Other'`)
    expect(rows).toEqual([])
  } finally {
    await reader.end()
  }
})

/** Sessions of this database that wait for a lock; other tests use the same server. */
const WAITING = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`

it('a record that changes in the meantime keeps its newer state', async () => {
  const writer = await connect(warehouse.url)
  try {
    const { rows } = await writer.query<{ id: string }>(
      'select id from intake.patients where team_id = 1 and _deleted_at is null order by id limit 1',
    )
    const [{ id } = { id: '' }] = rows
    await query(
      warehouse.url,
      `update intake.patients set last_name = 'Wrong' where team_id = 1 and id = $1`,
      [id],
    )
    await writer.query('begin')
    await writer.query(
      `update intake_raw.records set version = now(), origin = 'event:1' where team_id = 1 and stream = 'patients' and id = $1`,
      [id],
    )
    const replaying = replay('--streams', 'patients')
    // The replay has reached the wrong row, and waits for its record.
    await expect.poll(async () => (await query(warehouse.url, WAITING)).length).toBeGreaterThan(0)
    await writer.query(
      `update intake.patients set last_name = 'Newer', _version = now(), _origin = 'event:1' where team_id = 1 and id = $1`,
      [id],
    )
    await writer.query('commit')
    const ended = await replaying
    expect(ended.code, ended.output).toBe(0)
    const result = await query(
      warehouse.url,
      'select last_name from intake.patients where team_id = 1 and id = $1',
      [id],
    )
    expect(result).toEqual([{ last_name: 'Newer' }])
  } finally {
    await writer.end()
  }
})

it('a stream that another run locks is rejected, and an unknown stream or team is wrong usage', async () => {
  const other = await connect(warehouse.url)
  try {
    await other.query(`select pg_advisory_lock(intake_ops.lock_key(7204311, '1/forms'))`)
    const result = await replay('--json')
    expect(result.code).toBe(3)
    expect(JSON.parse(result.stdout).error.code).toBe('held_by_another_run')
    expect((await replay('--streams', 'patients,packet_responses')).code).toBe(0)
  } finally {
    await other.end()
  }
  expect((await replay('--streams', 'patient')).code).toBe(2)
  expect((await replay('--team', 'nobody')).code).toBe(2)
})

it('digits that jsonb would write differently are kept as received', async () => {
  await using service = await startLittleService([littlePatient('p1', 'x')])
  await using own = await openWarehouse()
  const env = { ...service.env, DATABASE_URL: own.url }
  const text = `{"count":1,"next":null,"previous":null,"results":[{"id":"p1","first_name":1e2,"last_name":-0,
    "address":{"b":1.50,"a":1E-7},"custom_fields":{"big":1e21,"plain":1.10},"updated_at":"2026-01-01T00:00:00Z"}]}`
  service.interfere = (request, response) => {
    if (!request.url.startsWith('/v2/patients')) return false
    response.setHeader('content-type', 'application/json').end(text)
    return true
  }
  expect((await runCommand(['backfill', '--streams', 'patients'], env)).code).toBe(0)
  const before = await wholeWarehouse(own.url)
  expect(before['intake.patients']![0]).toMatch(/:1E-7,.*"last_name": "-0".*"first_name": "1e2"/)
  await emptyIntake(own.url)
  expect((await runCommand(['replay'], env)).code).toBe(0)
  expect(await wholeWarehouse(own.url)).toEqual(before)
})
