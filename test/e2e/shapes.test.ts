/** However the service writes what the specification leaves open, the tables are those of its default shape. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { SHAPE_NAMES } from '../../src/emulator/shapes/catalogue.ts'
import { type Ended, runCli } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { openWarehouse, query, SMALL } from './support/scene.ts'
import { mappedRows } from './support/tables.ts'
import { configOf, type TeamEntry, teamOf, teamsIn } from './support/teams.ts'

/** What a shape takes away: these columns, or the rows of these tables, cannot be compared. */
const REMOVES: Readonly<
  Record<string, { readonly columns?: readonly string[]; readonly tables?: readonly string[] }>
> = {
  'no-timestamps': { columns: ['created_at', 'updated_at'] },
  'non-string-custom-fields': { columns: ['value'] },
  'naughty-text': { columns: ['last_name', 'text'] },
  'question-type-string': { columns: ['question_subtype'] },
  'bare-choices': { columns: ['choice_id'] },
  'input-fields-null': { tables: ['document_input_fields'] },
  'input-fields-absent': { tables: ['document_input_fields'] },
}

/** Shapes that cannot be read as they are; each has its own test below. */
const UNREADABLE = ['huge-ids', 'trailing-slash']

const names = ['default', ...SHAPE_NAMES]
const emulators = new Map<string, Emulator>()
let warehouse: TestDatabase
let run: Ended

beforeAll(async () => {
  warehouse = await openWarehouse()
  for (const shape of names) emulators.set(shape, await startEmulator({ ...SMALL, shape }))
  const teams = names.map((name) => teamOf(name, emulators.get(name)!))
  run = await backfill(teams)
})

afterAll(async () => {
  for (const emulator of emulators.values()) await emulator.close()
  await warehouse.drop()
})

function backfill(teams: readonly TeamEntry[]): Promise<Ended> {
  return runCli(['backfill', '--json'], {
    ...configOf(teams),
    DATABASE_URL: warehouse.url,
    LOG_LEVEL: 'error',
  })
}

describe('the tables are those of the default shape', () => {
  it.each(SHAPE_NAMES.filter((name) => !UNREADABLE.includes(name)))('of %s', expectDefault)
})

async function expectDefault(shape: string): Promise<void> {
  for (const [stream, { status, note }] of Object.entries(teamsIn(run)[shape]!.streams)) {
    expect({ stream, status, note }).toEqual({ stream, status: 'succeeded', note: null })
  }
  const { columns = [], tables = [] } = REMOVES[shape] ?? {}
  const expected = await mappedRows(warehouse.url, 'default', columns)
  const actual = await mappedRows(warehouse.url, shape, columns)
  for (const [table, lines] of Object.entries(expected)) {
    expect(lines.length, table).toBeGreaterThan(0)
    if (tables.includes(table)) expect(actual[table], table).toEqual([])
    else expect(asDefault(shape, actual[table]!), table).toEqual(asDefault(shape, lines))
  }
}

/** Lines of both shapes written alike: what is empty, and ids of which one is the image of the other. */
function asDefault(shape: string, lines: readonly string[]): readonly string[] {
  const alike = (line: string) => {
    if (shape.endsWith('-optionals')) return line.replaceAll(/: (?:""|null)/g, ': null')
    if (shape !== 'numeric-ids') return line
    return line.replaceAll(/"(\w*id)": "([0-9a-f]{8})-([0-9a-f]{4})-[0-9a-f-]+"/g, (_, name, high, low) => {
      return `"${name}": "${Number.parseInt(`${high}${low}`, 16)}"`
    })
  }
  return lines.map(alike).sort()
}

it('what a shape holds beside the default is kept: odd texts are visible and reported, unknown fields set apart', async () => {
  const naughty = await of('naughty-text', 'last_name, _problems')
  expect(naughty).toHaveLength(45)
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

it('forty teams in one run, and requests that wait in great numbers, draw no warning from Node', () => {
  expect(run.stderr).not.toContain('Warning')
})

it('ids beyond what JSON numbers carry are set aside, none is rounded, and a person is asked', async () => {
  expect(run.code).not.toBe(0)
  const figures = teamsIn(run)['huge-ids']!
  expect(figures.streams.patients).toMatchObject({ fetched: 45, changed: 0, dead_letters: 45 })
  expect(figures.dead_letters_waiting).toBe(45 + 7 + 5 + 5)
  const tables = await mappedRows(warehouse.url, 'huge-ids')
  for (const [table, lines] of Object.entries(tables)) expect(lines, table).toEqual([])
})

it('a service that wants a slash says so in the error, is not followed there, and is read once the paths have it', async () => {
  const note = 'the service redirects to the same path with its slash at the end changed (301)'
  const { patients } = teamsIn(run)['trailing-slash']!.streams
  expect(patients).toMatchObject({ status: 'failed', fetched: 0, note: expect.stringContaining(note) })
  expect(patients!.note).toContain('`paths`')

  const slashed = (name: string) => [
    [`${name}s`, `/v2/${name}s/`] as const,
    [name, `/v2/${name}s/{id}/`] as const,
  ]
  const paths = Object.fromEntries(['patient', 'form', 'packet', 'document'].flatMap(slashed))
  const mended = await backfill([{ ...teamOf('trailing-slash', emulators.get('trailing-slash')!), paths }])
  expect(mended.code).toBe(0)
  expect(await mappedRows(warehouse.url, 'trailing-slash')).toEqual(
    await mappedRows(warehouse.url, 'default'),
  )
})

async function of(team: string, columns: string): Promise<Record<string, unknown>[]> {
  return await query(
    warehouse.url,
    `select ${columns} from intake.patients where team_id = (select team_id from intake.teams where name = $1)`,
    [team],
  )
}
