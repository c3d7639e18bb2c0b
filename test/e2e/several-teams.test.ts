/** Several teams in one run, from several services: each has its own rows, failures and locks. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { startCli } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { expectedOf, storedTables } from './support/expected.ts'
import { openWarehouse, query, SMALL } from './support/scene.ts'
import { configOf, type TeamEntry, teamsIn } from './support/teams.ts'

/** Two services with one seed: teams of one have the same record ids as teams of the other. */
let twins: readonly [Emulator, Emulator]
let warehouse: TestDatabase

beforeAll(async () => {
  const world = { ...SMALL, patients: 15, forms: 3, packets: 2, documents: 2, responses: 12 }
  twins = [await startEmulator(world), await startEmulator(world)]
  warehouse = await openWarehouse()
})

afterAll(async () => {
  for (const emulator of twins) await emulator.close()
  await warehouse.drop()
})

interface Member extends TeamEntry {
  readonly emulator: Emulator
  /** Name of the team at the service. */
  readonly there: string
}

/** All teams of a service, in both environments, as `a.0` to `a.3`. */
function membersOf(emulator: Emulator, prefix: string): readonly Member[] {
  const all = emulator.environments.flatMap(({ base_url, teams }) =>
    teams.map((team) => ({ base_url, ...team })),
  )
  return all.map(({ base_url, name, api_key: apiKey, api_secret: apiSecret }, at) => {
    return { name: `${prefix}.${at}`, baseUrl: base_url, apiKey, apiSecret, emulator, there: name }
  })
}

const members = () => [...membersOf(twins[0], 'a'), ...membersOf(twins[1], 'b').slice(0, 2)]

function variables(teams: readonly TeamEntry[]) {
  const plain = teams.map(({ name, baseUrl, apiKey, apiSecret }) => ({ name, baseUrl, apiKey, apiSecret }))
  return { ...configOf(plain), DATABASE_URL: warehouse.url, LOG_LEVEL: 'error' }
}

async function expectWorlds(teams: readonly Member[]): Promise<void> {
  for (const { name, emulator, there } of teams) {
    expect(await storedTables(warehouse.url, name), name).toEqual(expectedOf(emulator.control.world(there)))
  }
}

it('six teams, some with the same ids, are each loaded completely, and a change of one affects no other', async () => {
  const teams = members()
  const first = await runCommand(['backfill', '--json'], variables(teams))
  expect(first.code).toBe(0)
  for (const { name } of teams) {
    const { streams } = teamsIn(first)[name]!
    expect(Object.keys(streams)).toEqual(STREAMS.map((stream) => stream.name))
  }
  await expectWorlds(teams)

  const [one, other] = twins
  const { patients, forms } = one.control.world()
  const [gone, changed] = [patients.at(2)!.id, patients.at(4)!.id]
  expect(other.control.world().patients.get(gone)).toBeDefined()
  one.control.deletePatient(gone)
  one.control.updatePatient(changed, { last_name: 'Of one team' })
  one.control.renameForm(forms.at(0)!.id, 'Of one team')
  const second = await runCommand(['backfill', '--full', '--json'], variables(teams))
  expect(second.code).toBe(0)
  const touched = teams.filter(({ name }) =>
    Object.values(teamsIn(second)[name]!.streams).some((figures) => figures.changed! + figures.deleted! > 0),
  )
  expect(touched.map(({ name }) => name)).toEqual(['a.0'])
  await expectWorlds(teams)
})

it('a team with invalid credentials fails alone: the run exits with 1, and the others are read', async () => {
  const teams = members()
  const [emulator] = twins
  emulator.control.updatePatient(emulator.control.world().patients.at(6)!.id, {
    last_name: 'Read all the same',
  })
  const wrong = teams.map((team) => (team.name === 'a.1' ? { ...team, apiSecret: 'wrong' } : team))
  const run = await runCommand(['backfill', '--full', '--json'], variables(wrong))
  expect(run.code).toBe(1)
  for (const [name, { streams }] of Object.entries(teamsIn(run))) {
    const statuses = [...new Set(Object.values(streams).map(({ status }) => status))]
    expect({ name, statuses }).toEqual({ name, statuses: [name === 'a.1' ? 'failed' : 'succeeded'] })
  }
  await expectWorlds(teams)
})

it('--team reads that team and sends no request for another', async () => {
  const [, emulator] = twins
  emulator.control.resetCounters()
  twins[0].control.resetCounters()
  const run = await runCommand(['backfill', '--team', 'b.1', '--json'], variables(members()))
  expect(run.code).toBe(0)
  expect(Object.keys(teamsIn(run))).toEqual(['b.1'])
  const asked = new Set(emulator.control.requests().map(({ team }) => team))
  expect(asked).toEqual(new Set([members().find(({ name }) => name === 'b.1')!.there]))
  expect(twins[0].control.requests()).toEqual([])
})

it('a run locks its own teams: a run of another team proceeds, a run of all teams starts none and exits with 3', async () => {
  const env = variables(members())
  const [emulator] = twins
  emulator.control.failNext('/v2/patients', 'hang')
  emulator.control.resetCounters()
  const holding = startCli(['backfill', '--team', 'a.0'], env)
  await vi.waitFor(() => expect(emulator.control.requests().length).toBeGreaterThan(0), 60_000)
  expect((await runCommand(['backfill', '--team', 'b.0'], env)).code).toBe(0)
  const runs = () => query(warehouse.url, 'select from intake_ops.runs')
  const before = (await runs()).length
  const all = await runCommand(['backfill'], env)
  expect(all).toMatchObject({ code: 3, stdout: '' })
  expect(all.stderr).toMatch(/another run holds patients of a\.0[,;].* nothing was started/)
  expect(all.stderr).not.toContain('b.0')
  expect(await runs()).toHaveLength(before)
  holding.kill('SIGTERM')
  expect((await holding.ended).code).toBe(143)
  expect((await runCommand(['backfill'], env)).code).toBe(0)
  await expectWorlds(members())
})
