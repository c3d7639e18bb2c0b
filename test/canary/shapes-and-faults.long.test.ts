/**
 * Law 8 under every shape and every fault: a clinic with the canary in every text is loaded, in each shape of the service
 * and during each fault, at the most verbose log level; the canary is in the tables, and in no line, figure, reason or
 * error.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type * as wire from '../../src/api/http/wire.ts'
import { DEFAULT_PATHS } from '../../src/api/paths.ts'
import { FAULTS, isWebhookFault } from '../../src/emulator/faults.ts'
import { startEmulator } from '../../src/emulator/server.ts'
import { matterOf, SHAPE_NAMES } from '../../src/emulator/shapes/catalogue.ts'
import { CANARY } from '../e2e/support/canary.ts'
import { withoutPauses } from '../e2e/support/impatient.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import { configOf, teamOf } from '../e2e/support/teams.ts'
import type { TestDatabase } from '../support/database.ts'
import { plant } from './planted-world.ts'
import { openWitness, type Witness } from './witness.ts'

withoutPauses()

// A request without an answer is abandoned after a minute; the test is about the fact, not the time.
vi.mock('../../src/api/http/wire.ts', async (original: () => Promise<typeof wire>) => {
  const actual = await original()
  return { ...actual, DEFAULT_TIMEOUTS: { ...actual.DEFAULT_TIMEOUTS, headers: 300 } }
})

const WORLD = { port: 0, patients: 5, forms: 3, packets: 1, documents: 1, responses: 8, pageSize: 4 }

/** Shapes that hide the effect of all others. */
const ALONE = ['bare-array', 'huge-ids']

/** Each shape once, no two of one kind together. */
function mixtures(): readonly string[] {
  const worn: string[][] = []
  for (const name of SHAPE_NAMES.filter((one) => !ALONE.includes(one))) {
    const fit = worn.find((mixture) => mixture.every((other) => matterOf(other) !== matterOf(name)))
    if (fit === undefined) worn.push([name])
    else fit.push(name)
  }
  return [...worn.map((names) => names.join('+')), ...ALONE]
}

/** Arguments that keep a fault short; one answer in five by default. A 429 makes the client wait: one is enough. */
const CHANCES: Readonly<Record<string, string>> = {
  throttle: '0:0',
  'throttle-burst': '0:2',
  'throttle-silent': '0',
  'http-503': '0.2:0',
  slow: '0.2:20',
  drip: '0.2:2',
  hang: '0.05',
  'clock-skew': '900',
}

const REQUEST_FAULTS = Object.keys(FAULTS).filter((name) => !isWebhookFault(name))
const CASES = [
  ...mixtures().map((shape) => ({ shape, fault: '' })),
  ...REQUEST_FAULTS.map((fault) => ({ shape: 'default', fault })),
].map((one, at) => ({ ...one, team: `case.${at}` }))

let warehouse: TestDatabase
const witnesses: Witness[] = []

beforeAll(async () => {
  warehouse = await openWarehouse()
})

afterAll(async () => {
  await warehouse.drop()
})

describe.concurrent('the canary is in the tables and nowhere else', () => {
  it.each(CASES)('in the shape $shape, under $fault', async ({ shape, fault, team }) => {
    const emulator = await startEmulator({ ...WORLD, shape, apiSecret: `${CANARY}-secret` })
    try {
      plant(emulator)
      const { control } = emulator
      control.setFaults(fault === '' ? '' : `${fault}=${CHANCES[fault] ?? '0.2'}`)
      const slashed = Object.entries(DEFAULT_PATHS).map(([name, path]) => [name, `${path}/`] as const)
      const paths = shape.includes('trailing-slash') ? { paths: Object.fromEntries(slashed) } : {}
      const env = { ...configOf([{ ...teamOf(team, emulator), ...paths }]), DATABASE_URL: warehouse.url }
      const witness = openWitness(warehouse.url, { ...env, LOG_LEVEL: 'trace' })
      witnesses.push(witness)
      const dry = await witness.run(['backfill', '--dry-run', '--json'])
      expect([0, 1, 4]).toContain(dry.code)
      for (const list of ['patients', 'responses', 'export-csv'])
        if (fault !== '') control.failNext(`/v2/${list}`, `${fault}=1${argumentOf(fault)}`)
      const run = await witness.run(['backfill'])
      expect([0, 1, 4]).toContain(run.code)
      expect(run.output).not.toContain('fault of intake-sync')
      control.setFaults('')
      await witness.run(['backfill', '--streams', 'patients,responses', '--full'], 80)
      const [stored] = await query<{ count: number }>(
        warehouse.url,
        `select count(*)::int from intake_raw.records join intake.teams using (team_id)
         where name = $1 and payload::text like $2`,
        [team, `%${CANARY}%`],
      )
      if (shape !== 'huge-ids') expect(stored!.count).toBeGreaterThan(5)
      expect(run.stderr).toContain('"level":')
    } finally {
      await emulator.close()
    }
  })
})

it('no line of any run, and no row of the bookkeeping, contains it', async () => {
  expect(witnesses.length).toBe(CASES.length)
  expect(SHAPE_NAMES.filter((name) => !CASES.some(({ shape }) => shape.split('+').includes(name)))).toEqual(
    [],
  )
  const deadLetters = await query(warehouse.url, 'select from intake_ops.dead_letters')
  const problems = await query(warehouse.url, 'select from intake_ops.problems')
  expect(Math.min(deadLetters.length, problems.length)).toBeGreaterThan(3)
  for (const witness of witnesses) await witness.expectSilence()
})

function argumentOf(fault: string): string {
  const argument = CHANCES[fault]?.split(':')[1]
  return argument === undefined ? '' : `:${argument}`
}
