/**
 * For every shape and every fault of the service, while its data changes: after the changes stop, one more backfill
 * leaves every table as a fresh load does, row for row.
 *
 * Each run meets every shape and every fault of a request, with all nine streams at once; several shapes are combined,
 * each of another kind. TEST_THOROUGH=1 also tests each shape alone, and every combination under every fault.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type * as wire from '../../src/api/http/wire.ts'
import { DEFAULT_PATHS } from '../../src/api/paths.ts'
import { FAULTS, isWebhookFault } from '../../src/emulator/faults.ts'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { matterOf, SHAPE_NAMES } from '../../src/emulator/shapes/catalogue.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { often } from '../support/thorough.ts'
import { expectedOf, storedTables } from './support/expected.ts'
import { withoutPauses } from './support/impatient.ts'
import { liven } from './support/living.ts'
import { openWarehouse } from './support/scene.ts'
import { everyTable } from './support/tables.ts'
import { configOf, teamOf, teamsIn } from './support/teams.ts'

withoutPauses()

// A request without an answer is abandoned after a minute; the test is about the fact, not the time.
vi.mock('../../src/api/http/wire.ts', async (original: () => Promise<typeof wire>) => {
  const actual = await original()
  return { ...actual, DEFAULT_TIMEOUTS: { ...actual.DEFAULT_TIMEOUTS, headers: 500 } }
})

const WORLD = { port: 0, patients: 24, forms: 5, packets: 3, documents: 3, responses: 30, pageSize: 8 }
/** Changes per request, half of them in the clinic, half by users of the service. */
const LIFE = { each: 1, changes: 24 }

/** Shapes that cannot be combined with others, and why. */
const ALONE: Readonly<Record<string, string>> = {
  'bare-array': 'a list that is whole has no pages',
  'huge-ids': 'nothing can be keyed, so nothing else would be met',
}

/**
 * Faults that are tested together, each answer with one of them; others are tested alone. A 429 makes the client wait
 * and an unreadable page ends a stream, so that the other faults would not occur.
 */
const TOGETHER: readonly (readonly string[])[] = [
  ['http-500', 'http-503', 'html-502', 'html-504', 'html-200'],
  ['reset', 'hang', 'truncate', 'cut-json', 'corrupt-json', 'empty-body'],
  ['slow', 'drip', 'invalid-utf8', 'next-elsewhere'],
]

/** Chance of a fault, and its argument; one answer in twenty by default. */
const CHANCES: Readonly<Record<string, string>> = {
  throttle: '0:0',
  'throttle-burst': '0:2',
  'throttle-silent': '0',
  'http-503': '0.05:0',
  slow: '0.2:30',
  drip: '0.2:3',
  hang: '0.02',
  'clock-skew': '90',
}
const LISTS = ['patients', 'forms', 'packets', 'documents', 'responses', 'messages', 'export-csv', 'webhooks']
/** A limit that takes effect late has been learned as high, so that the run continues at once. */
const LATE_LISTS = ['export-csv', 'webhooks']

/** Tables of the streams that a backfill reads; none may be empty, or nothing would be compared. */
const TABLES = [
  ...STREAMS.flatMap(({ table, children }) => [table, ...children.map((child) => child.table)]),
  ...['export_columns', 'export_rows', 'export_cells'],
]

interface Case {
  readonly title: string
  readonly shape: string
  readonly faults: readonly string[]
}

/** Combinations that contain each shape once, no two of one kind together, and of nearly equal size. */
function mixtures(): readonly string[] {
  const worn: string[][] = []
  for (const name of SHAPE_NAMES.filter((one) => !(one in ALONE))) {
    const fits = worn.filter((mixture) => mixture.every((other) => matterOf(other) !== matterOf(name)))
    const [least] = fits.sort((a, b) => a.length - b.length)
    if (least !== undefined && fits.length >= 6) least.push(name)
    else worn.push([name])
  }
  return [...worn.map((names) => names.join('+')), ...Object.keys(ALONE)]
}

const REQUEST_FAULTS = Object.keys(FAULTS).filter((name) => !isWebhookFault(name))
const FAULT_SETS = [
  ...TOGETHER,
  ...REQUEST_FAULTS.filter((name) => !TOGETHER.flat().includes(name)).map((name) => [name]),
]
const MIXTURES = mixtures()
const withShape = (shape: string): Case => ({ title: shape, shape, faults: [] })
const withFaults = (faults: readonly string[], shape = 'default'): Case => {
  const names = faults.join(', ')
  return { title: shape === 'default' ? names : `${names} in ${shape}`, shape, faults }
}
const CASES: readonly Case[] = [
  withShape('default'),
  ...MIXTURES.map(withShape),
  ...FAULT_SETS.map((faults) => withFaults(faults)),
  ...often<readonly Case[]>(
    [],
    [
      ...SHAPE_NAMES.map(withShape),
      ...REQUEST_FAULTS.map((fault) => withFaults([fault])),
      ...FAULT_SETS.flatMap((faults) => MIXTURES.map((shape) => withFaults(faults, shape))),
    ],
  ),
]

let warehouse: TestDatabase
let fresh: TestDatabase

beforeAll(async () => {
  warehouse = await openWarehouse()
  fresh = await openWarehouse()
})

afterAll(async () => {
  await warehouse.drop()
  await fresh.drop()
})

it('the cases include every shape and every fault of a request', () => {
  const worn = new Set(CASES.flatMap(({ shape }) => shape.split('+')))
  expect(SHAPE_NAMES.filter((name) => !worn.has(name))).toEqual([])
  const met = new Set(CASES.flatMap(({ faults }) => faults))
  expect(REQUEST_FAULTS.filter((name) => !met.has(name))).toEqual([])
})

describe.concurrent('after a read during changes, and one more after they stopped, every table equals a fresh load', () => {
  it.each(CASES.map((one, at) => ({ ...one, team: `case.${at}` })))(
    '$title',
    async ({ shape, faults, team }) => {
      await using emulator = await startEmulator({ ...WORLD, shape })
      const backfill = runsOf(emulator, team, shape)
      const life = liven(emulator, LIFE, team)
      if (faults.length === 0) await backfill(warehouse)
      else await backfillUnder(faults, emulator, () => backfill(warehouse))
      await life.still()

      const ended = [
        await backfill(warehouse, '--full', '--allow-mass-delete'),
        await backfill(fresh, '--full'),
      ]
      if (shape !== 'huge-ids') {
        for (const { streams } of ended) {
          const statuses = Object.entries(streams).map(([stream, { status, note }]) => ({
            stream,
            status,
            note,
          }))
          expect(statuses).toEqual(
            STREAMS.map(({ name }) => ({ stream: name, status: 'succeeded', note: null })),
          )
        }
      }
      const tables = await everyTable(warehouse.url, team)
      expect(tables).toEqual(await everyTable(fresh.url, team))
      if (shape === 'default') {
        expect(TABLES.filter((name) => tables[name]!.length === 0)).toEqual([])
        expect(worked(await storedTables(warehouse.url, team))).toEqual(expectedOf(emulator.control.world()))
      }
    },
  )
})

/** The tables that `expectedOf` computes; exports and webhooks have their own tests. */
function worked(tables: Readonly<Record<string, readonly string[]>>) {
  return Object.fromEntries(
    Object.entries(tables).filter(([name]) => TABLES.includes(name) && !name.startsWith('webhook')),
  )
}

/** One backfill with faults by chance, then one in which every list has one fault each; none after that. */
async function backfillUnder(
  faults: readonly string[],
  { control }: Emulator,
  backfill: () => Promise<unknown>,
): Promise<void> {
  const rules = faults.map((fault) => [fault, CHANCES[fault] ?? '0.05'] as const)
  control.setFaults(rules.map(([fault, chance]) => `${fault}=${chance}`).join())
  await backfill()
  const lists = faults.some((fault) => fault.startsWith('throttle')) ? LATE_LISTS : LISTS
  for (const [at, list] of lists.entries()) {
    const [fault, chance] = rules[at % rules.length]!
    const [, argument] = chance.split(':')
    control.failNext(`/v2/${list}`, `${fault}=1${argument === undefined ? '' : `:${argument}`}`)
  }
  await backfill()
  control.setFaults('')
}

/** Runs `backfill` of the nine streams of this service into a warehouse. */
function runsOf(emulator: Emulator, team: string, shape: string) {
  const slashed = Object.entries(DEFAULT_PATHS).map(([name, path]) => [name, `${path}/`] as const)
  const paths = shape.split('+').includes('trailing-slash') ? { paths: Object.fromEntries(slashed) } : {}
  const env = { ...configOf([{ ...teamOf(team, emulator), ...paths }]), LOG_LEVEL: 'silent' }
  return async ({ url }: TestDatabase, ...words: string[]) => {
    const ended = await runCommand(['backfill', '--json', ...words], { ...env, DATABASE_URL: url })
    return teamsIn(ended)[team]!
  }
}
