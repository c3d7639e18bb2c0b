/** For every allowed shape of what the specification leaves open, the tables are those of the default shape. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DEFAULT_PATHS } from '../../src/api/paths.ts'
import type { StreamName } from '../../src/core/envelope.ts'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { SHAPE_NAMES } from '../../src/emulator/shapes/catalogue.ts'
import { FORMS, MESSAGES, WEBHOOKS } from '../../src/emulator/shapes/forms.ts'
import { FAILURES } from '../../src/emulator/shapes/pages.ts'
import { EXPORTS, RESPONSES } from '../../src/emulator/shapes/responses.ts'
import type { Webhooks } from '../../src/emulator/webhooks/engine.ts'
import { DEFAULTS } from '../../src/emulator/webhooks/webhook-configs.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { type Ended, runCli, type Variables } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { openWarehouse, query } from './support/scene.ts'
import { mappedRows } from './support/tables.ts'
import { configOf, type TeamEntry, teamOf, teamsIn } from './support/teams.ts'

/** Content that a shape removes, by table: columns that cannot be compared, or `all` if no row remains. */
type Removed = Readonly<Record<string, readonly string[] | 'all'>>

const NO_PLACES: Removed = { response_answers: ['position'], response_matrix_cells: ['position'] }
const REMOVES: Readonly<Record<string, Removed>> = {
  'no-timestamps': Object.fromEntries(
    STREAMS.map(({ table }) => [table, ['created_at', 'updated_at']] as const),
  ),
  'non-string-custom-fields': { patient_custom_fields: ['value'] },
  'naughty-text': {
    patients: ['last_name'],
    forms: ['text'],
    form_questions: ['text'],
    packets: ['text'],
    documents: ['text'],
    messages: ['content'],
    responses: ['form_name'],
  },
  'question-type-string': { form_questions: ['question_subtype'] },
  'bare-choices': { question_choices: ['choice_id'] },
  'input-fields-null': { document_input_fields: 'all' },
  'input-fields-absent': { document_input_fields: 'all' },
  'other-statuses': { messages: ['status'] },
  // Parts and answers are returned in the order of the questions, not in the order in which they were given.
  'nested-parts': {
    ...NO_PLACES,
    response_files: ['position'],
    response_signatures: ['position'],
  },
  'answers-object': NO_PLACES,
  'heading-texts': { response_matrix_cells: ['row_id', 'column_id'] },
  'heading-ids': { response_matrix_cells: ['row_text', 'column_text'] },
  'heading-indexes': { response_matrix_cells: ['row_id', 'column_id', 'row_text', 'column_text'] },
  'answered-choice-texts': { response_answers: ['choice_id'] },
  'event-record-envelope-id': { webhook_deliveries: ['id'] },
}

/** Shapes that cannot be loaded as they are; each has its own test below. */
const UNREADABLE = ['huge-ids', 'trailing-slash']

/** The smallest world with rows in every table and several pages of most lists. */
const WORLD = { port: 0, patients: 25, forms: 5, packets: 3, documents: 3, responses: 34, pageSize: 10 }

/** Shapes that affect only these streams; the others affect all. */
const ONLY: readonly (readonly [shapes: object, streams: readonly StreamName[]])[] = [
  [FORMS, ['forms', 'packets', 'documents', 'exports']],
  [MESSAGES, ['messages']],
  [RESPONSES, ['responses']],
  [EXPORTS, ['exports']],
  [WEBHOOKS, ['webhook_configs', 'webhook_deliveries']],
  [FAILURES, ['patients']],
]
const ALL = STREAMS.map(({ name }) => name)
const streamsOf = (shape: string) => ONLY.find(([shapes]) => shape in shapes)?.[1] ?? ALL

const names = ['default', ...SHAPE_NAMES]
const emulators = new Map<string, Emulator>()
const byDefault = new Map<string, readonly string[]>()
let warehouse: TestDatabase
/** One shape that affects every stream, in a process of its own; and one of each other kind. */
let run: Ended
const runs = new Map<string, Ended>()

beforeAll(async () => {
  warehouse = await openWarehouse()
  for (const shape of names) {
    const emulator = await startEmulator({ ...WORLD, shape })
    sendWebhooks(emulator)
    emulators.set(shape, emulator)
  }
  const teamsOf = (all: readonly string[]) => all.map((name) => teamOf(name, emulators.get(name)!))
  const general = names.filter((name) => streamsOf(name) === ALL)
  run = await runCli(['backfill', '--json'], variables(teamsOf(general)))
  for (const name of general) runs.set(name, run)
  for (const [shapes, streams] of ONLY) {
    const own = Object.keys(shapes)
    const words = ['backfill', '--json', '--streams', streams.join(',')]
    const ended = await runCommand(words, variables(teamsOf(own)))
    for (const name of own) runs.set(name, ended)
  }
  for (const [table, lines] of Object.entries(await mappedRows(warehouse.url))) byDefault.set(table, lines)
})

afterAll(async () => {
  for (const emulator of emulators.values()) await emulator.close()
  await warehouse.drop()
})

/** A configuration and its deliveries, the same in every world, because the generated worlds have none. */
function sendWebhooks({ control }: Emulator): void {
  const { configs, attempts } = control.webhooks() as Webhooks
  const created_at = '2026-01-02T03:04:05.678901Z'
  const { id } = configs.table.create((id) => ({
    ...{ id, ...DEFAULTS, target_url: 'http://127.0.0.1:9/hook', created_at, updated_at: created_at },
    ...{ signature_secret: 'never-shown', version: '' },
  }))
  for (const at of [1, 2, 3]) {
    attempts.add({
      id: `0000000${at}-0000-4000-8000-000000000000`,
      event_id: `0000000${at}-0000-4000-9000-000000000000`,
      webhook_config: id,
      event_type: 'updated',
      source: 'response',
      status: at === 1 ? 'succeeded' : 'failed',
      response_status_code: at === 3 ? null : 199 + at,
      attempts: at,
      error: at === 3 ? 'timeout' : null,
      created_at,
      next_retry_at: at === 1 ? null : created_at,
    })
  }
}

function variables(teams: readonly TeamEntry[]): Variables {
  return { ...configOf(teams), DATABASE_URL: warehouse.url, LOG_LEVEL: 'error' }
}

it('the default shape leaves rows in every table, so that the other shapes can be compared', () => {
  for (const [table, lines] of byDefault) expect(lines.length, table).toBeGreaterThan(0)
})

describe('the tables are equal to those of the default shape', () => {
  it.each(SHAPE_NAMES.filter((name) => !UNREADABLE.includes(name)))('for %s', async (shape) => {
    const reports = teamsIn(runs.get(shape)!)[shape]!.streams
    expect(Object.keys(reports)).toEqual(streamsOf(shape))
    for (const [stream, { status, note }] of Object.entries(reports)) {
      expect({ stream, status, note }).toEqual({ stream, status: 'succeeded', note: null })
    }
    const actual = await mappedRows(warehouse.url, shape)
    for (const table of tablesOf(streamsOf(shape))) {
      const expected = byDefault.get(table)!
      const removed = REMOVES[shape]?.[table] ?? []
      if (removed === 'all') expect(actual[table], table).toEqual([])
      else expect(written(shape, actual[table]!, removed), table).toEqual(written(shape, expected, removed))
    }
  })
})

function tablesOf(streams: readonly StreamName[]): readonly string[] {
  const read = STREAMS.filter(({ name }) => streams.includes(name))
  return read.flatMap(({ table, children }) => [table, ...children.map((child) => child.table)])
}

/** Lines of both shapes in one form: without removed columns, empty values, and ids derived from other ids. */
function written(shape: string, lines: readonly string[], removed: readonly string[]): readonly string[] {
  const alike = (line: string) => {
    const kept = Object.entries(JSON.parse(line)).filter(([column]) => !removed.includes(column))
    return JSON.stringify(
      kept.map(([column, value]) => [column, cellAs(shape, column.endsWith('id'), value)] as const),
    )
  }
  return lines.map(alike).sort()
}

function cellAs(shape: string, isId: boolean, value: unknown): unknown {
  if (shape.endsWith('-optionals') && value === '') return null
  if (shape !== 'numeric-ids' || !isId || typeof value !== 'string') return value
  const [, high, low] = /^([0-9a-f]{8})-([0-9a-f]{4})-[0-9a-f-]+$/.exec(value) ?? []
  return high === undefined ? value : String(Number.parseInt(`${high}${low}`, 16))
}

it('additional content of a shape is kept: unusual texts are visible and reported, unknown fields are in _extra', async () => {
  const naughty = await of('naughty-text', 'last_name, _problems')
  expect(naughty).toHaveLength(WORLD.patients)
  for (const { last_name, _problems } of naughty) {
    expect(last_name).toContain('\\u0000\\ud83d')
    expect(JSON.stringify(_problems)).toContain('last_name')
  }
  const unknown = await of('unknown-fields', '_extra')
  expect(unknown[0]).toEqual({ _extra: { rev: 7, audit: { by: 'system', tags: ['a', null] } } })
  const [drift] = await query<{ paths: string[] }>(
    warehouse.url,
    `select array_agg(path order by path) as paths from intake_ops.drift
     where stream = 'patients' and team_id = (select team_id from intake.teams where name = 'unknown-fields')`,
  )
  expect(drift!.paths).toEqual(expect.arrayContaining(['audit', 'rev']))
  const values = await query<{ value: string }>(
    warehouse.url,
    `select value from intake.patient_custom_fields
     where team_id = (select team_id from intake.teams where name = 'non-string-custom-fields')`,
  )
  expect(values.some(({ value }) => value?.startsWith('{"value":'))).toBe(true)
})

it('many teams in one run, with many waiting requests, cause no warning of Node', () => {
  expect(run.stderr).not.toContain('Warning')
})

it('ids that JSON numbers cannot carry exactly become dead letters, none is rounded, and the run needs attention', async () => {
  expect(run.code).not.toBe(0)
  const figures = teamsIn(run)['huge-ids']!
  const people = WORLD.patients
  expect(figures.streams.patients).toMatchObject({ fetched: people, changed: 0, dead_letters: people })
  const fetched = Object.values(figures.streams).map((stream) => stream.fetched!)
  expect(figures.dead_letters_waiting).toBe(fetched.reduce((sum, each) => sum + each))
  const tables = await mappedRows(warehouse.url, 'huge-ids')
  for (const [table, lines] of Object.entries(tables)) expect(lines, table).toEqual([])
})

it('a service that requires a trailing slash is named in the error, is not followed there, and is read once the paths have it', async () => {
  const note = 'the service redirects to the same path with its slash at the end changed (301)'
  const { patients } = teamsIn(run)['trailing-slash']!.streams
  expect(patients).toMatchObject({ status: 'failed', fetched: 0, note: expect.stringContaining(note) })
  expect(patients!.note).toContain('`paths`')

  const paths = Object.fromEntries(Object.entries(DEFAULT_PATHS).map(([name, path]) => [name, `${path}/`]))
  const team = { ...teamOf('trailing-slash', emulators.get('trailing-slash')!), paths }
  const fixed = await runCommand(['backfill'], variables([team]))
  expect(fixed.code).toBe(0)
  expect(await mappedRows(warehouse.url, 'trailing-slash')).toEqual(Object.fromEntries(byDefault))
})

async function of(team: string, columns: string): Promise<Record<string, unknown>[]> {
  return await query(
    warehouse.url,
    `select ${columns} from intake.patients where team_id = (select team_id from intake.teams where name = $1)`,
    [team],
  )
}
