/** A service that fails occasionally is read completely; one whose lists are not stable never loses a record. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import type { Ended } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { withoutPauses } from './support/impatient.ts'
import { liven } from './support/living.ts'
import { openScene, openWarehouse, query, type Scene, SMALL } from './support/scene.ts'
import { liveRows } from './support/tables.ts'
import { configOf, teamOf, teamsIn } from './support/teams.ts'

withoutPauses()

/** Answered by another attempt, so that the first run is complete. */
const PASSING = [
  ...['http-500', 'http-503', 'html-502', 'html-504', 'html-200', 'reset', 'truncate', 'cut-json'],
  ...['corrupt-json', 'throttle', 'throttle-silent', 'slow', 'drip'],
]

/** Pages with wrong rows, at a rate that affects most scans. */
const UNSTABLE = ['shift-rows', 'duplicate-rows', 'drop-rows', 'wrong-count']

/** The argument that keeps a fault short. */
const ARGUMENTS: Readonly<Record<string, string>> = { slow: ':300', drip: ':20' }

const emulators = new Map<string, Emulator>()
let warehouse: TestDatabase
let first: Ended
let second: Ended

beforeAll(async () => {
  warehouse = await openWarehouse()
  const world = { ...SMALL, patients: 80, pageSize: 5 }
  emulators.set('default', await startEmulator(world))
  for (const fault of [...PASSING, ...UNSTABLE, 'invalid-utf8']) {
    const argument = ARGUMENTS[fault] ?? ''
    // A 429 makes the client wait, so it gets fewer pages.
    const pageSize = fault.startsWith('throttle') ? 40 : world.pageSize
    const emulator = await startEmulator({ ...world, pageSize, faults: `${fault}=0.1${argument}` })
    emulator.control.failNext('/v2/patients', `${fault}=1${argument}`)
    emulators.set(fault, emulator)
  }
  const teams = [...emulators].map(([name, emulator]) => teamOf(name, emulator))
  const env = { ...configOf(teams), DATABASE_URL: warehouse.url, LOG_LEVEL: 'error' }
  first = await runCommand(['backfill', '--streams', 'patients', '--json'], env)
  for (const emulator of emulators.values()) emulator.control.setFaults('')
  second = await runCommand(['backfill', '--streams', 'patients', '--json'], env)
})

afterAll(async () => {
  for (const emulator of emulators.values()) await emulator.close()
  await warehouse.drop()
})

describe('one run is enough', () => {
  it.each(PASSING)('although one answer in ten is %s', async (fault) => {
    const { streams } = teamsIn(first)[fault]!
    for (const [stream, { status, note }] of Object.entries(streams)) {
      expect({ stream, status, note }).toEqual({ stream, status: 'succeeded', note: null })
    }
    const asked = (ended: Ended) => teamsIn(ended)[fault]!.streams.patients!.requests
    if (!['slow', 'drip'].includes(fault)) expect(asked(first)).toBeGreaterThan(asked(second)!)
    expect(teamsIn(second)[fault]!.streams.patients).toMatchObject({ changed: 0, unchanged: 80 })
    expect(await liveRows(warehouse.url, fault)).toEqual(await liveRows(warehouse.url))
  })
})

describe('a run without the fault completes the work of the run with it', () => {
  it.each([...UNSTABLE, 'invalid-utf8'])('after %s, with no record deleted in between', async (fault) => {
    expect(teamsIn(second)[fault]!.streams.patients!.status).toBe('succeeded')
    expect(await liveRows(warehouse.url, fault)).toEqual(await liveRows(warehouse.url))
    const tombstones = await query(warehouse.url, 'select from intake_raw.records where deleted')
    expect(tombstones).toEqual([])
  })

  it('and both runs exit with 0, except for bytes that are not UTF-8, which are reported', async () => {
    expect(second.code).toBe(0)
    const marked = await query<{ team: string }>(
      warehouse.url,
      `select distinct name as team from intake_ops.problems join intake.teams using (team_id)`,
    )
    expect(marked).toEqual([{ team: 'invalid-utf8' }])
  })
})

describe('a list that is never stable', () => {
  it.each(['drop-rows', 'wrong-count', 'shift-rows'])(
    '(%s on every page, the same each time) is read three times, deletes nothing and needs attention',
    async (fault) => {
      await using scene = await openScene({ patients: 30 })
      expect((await scene.backfill('--streams', 'patients')).code).toBe(0)
      const { control } = scene.emulator
      control.deletePatient(control.world().patients.at(0)!.id)
      control.setFaults(`${fault}@patients=1`)
      control.resetCounters()
      const run = await scene.backfill('--streams', 'patients')
      expect(run.code).toBe(4)
      expect(run.stdout).toMatch(
        /patients: the service counts \d+ but (?:lists \d+ distinct records|its pages end after \d+ records), each time the same/,
      )
      const lists = control.requests().filter(({ url }) => /^.v2.patients(?:\?|$)/.test(url))
      expect(lists.length).toBeGreaterThanOrEqual(9)
      const counts = await query<{ alive: number; gone: number }>(
        scene.url,
        `select count(*) filter (where _deleted_at is null)::int as alive,
         count(_deleted_at)::int as gone from intake.patients`,
      )
      expect(counts).toEqual([{ alive: 30, gone: 0 }])
    },
  )

  it('because records change while it is read is complete after the next quiet run, and no live record was deleted', async () => {
    await using scene = await openScene({ patients: 200, pageSize: 5 })
    const { patients } = scene.emulator.control.world()
    const life = liven(scene.emulator, { each: 1, changes: 20 }, 'unstable')
    for (let run = 0; run < 2; run++) {
      // 4 if a record was listed, and deleted before it was fetched: a dead letter until the next run.
      expect([0, 4]).toContain((await scene.backfill('--streams', 'patients')).code)
      for (const { id } of await stored(scene, true)) expect(patients.get(id), id).toBeUndefined()
    }
    await life.still()
    expect((await scene.backfill('--streams', 'patients')).code).toBe(0)
    const alive = patients.slice(0, patients.size).map(({ id }) => id)
    expect((await stored(scene, false)).map(({ id }) => id).toSorted()).toEqual(alive.toSorted())
  })
})

/** The patients of the warehouse that are tombstones, or those that are not. */
const stored = (scene: Scene, deleted: boolean) =>
  scene.query<{ id: string }>(
    "select id from intake_raw.records where deleted = $1 and stream = 'patients'",
    [deleted],
  )
