/** Teams of one run read side by side, each at the pace of its own service. */
import type http from 'node:http'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { startEmulator } from '../../src/emulator/server.ts'
import { type Received, type Service, startService } from '../api/support/service.ts'
import { startCli } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { littlePatients, startLittleService } from './support/little-service.ts'
import { openWarehouse, query } from './support/scene.ts'
import { configOf, type TeamEntry, teamOf, teamsIn } from './support/teams.ts'

let warehouse: TestDatabase

beforeAll(async () => {
  warehouse = await openWarehouse()
})

afterAll(() => warehouse.drop())

const env = (teams: readonly TeamEntry[]) => ({
  ...configOf(teams),
  DATABASE_URL: warehouse.url,
  LOG_LEVEL: 'error',
})

const entry = (name: string, { url }: { readonly url: string }): TeamEntry => ({
  name,
  baseUrl: url,
  apiKey: 'a-key',
  apiSecret: 'a-secret',
})

const EMPTY = '{"count":0,"next":null,"previous":null,"results":[]}'
const empty = (response: http.ServerResponse) =>
  void response.writeHead(200, { 'content-type': 'application/json' }).end(EMPTY)

/** As long as a test waits before it says what did not come. */
const LONG = 15_000

it('every team of six is asked before any of them has an answer', async () => {
  const held: http.ServerResponse[] = []
  let open = false
  const hold = (_: Received, response: http.ServerResponse) => {
    if (open) empty(response)
    else held.push(response)
  }
  const services: Service[] = []
  for (let at = 0; at < 6; at += 1) services.push(await startService(hold))
  const names = services.map((_, at) => `held.${at}`)
  const teams = services.map((service, at) => entry(names[at]!, service))
  const run = runCommand(['backfill', '--json'], env(teams))
  await vi
    .waitFor(() => expect(services.map(({ received }) => received.length)).toEqual(Array(6).fill(2)), LONG)
    .finally(() => {
      open = true
      for (const response of held) empty(response)
    })
  const ended = await run
  expect(ended.code).toBe(0)
  expect(Object.keys(teamsIn(ended))).toEqual(names)
  for (const service of services) await service[Symbol.asyncDispose]()
})

it('six teams, each of which its service permits 20 requests a second, are read at once: no team waits for the end of another', async () => {
  const world = {
    port: 0,
    patients: 100,
    forms: 4,
    packets: 2,
    documents: 2,
    responses: 100,
    pageSize: 5,
    rateLimit: 20,
  }
  const emulators = await Promise.all(Array.from({ length: 6 }, () => startEmulator(world)))
  const teams = emulators.map((emulator, at) => teamOf(`paced.${at}`, emulator))
  for (const { control } of emulators) control.resetCounters()
  const ended = await runCommand(['backfill', '--json'], env(teams))
  expect(ended.code).toBe(0)
  const spans = emulators.map(({ control }) => {
    const times = control.requests().map(({ at }) => at)
    return { first: Math.min(...times), last: Math.max(...times), count: times.length }
  })
  // Each takes seconds of its own budget, and all of them share most of that time.
  for (const { count } of spans) expect(count).toBeGreaterThan(40)
  const firsts = spans.map(({ first }) => first)
  const lasts = spans.map(({ last }) => last)
  const shared = Math.min(...lasts) - Math.max(...firsts)
  const whole = Math.max(...lasts) - Math.min(...firsts)
  expect(shared).toBeGreaterThan(whole / 2)
  for (const emulator of emulators) await emulator.close()
})

it('eight teams of which seven are never answered: the eighth is read whole meanwhile', async () => {
  const silent: Service[] = []
  for (let at = 0; at < 7; at += 1) silent.push(await startService(() => {}))
  await using little = await startLittleService(littlePatients(25))
  const teams = [...silent.map((service, at) => entry(`silent.${at}`, service)), entry('answered', little)]
  const run = startCli(['backfill'], env(teams))
  const ended = () =>
    query<{ team: string; stream: string; status: string }>(
      warehouse.url,
      `select team.name as team, stream, status from intake_ops.run_streams join intake.teams team using (team_id)
       where team.name = 'answered' or team.name like 'silent%'`,
    )
  await vi.waitFor(async () => expect(await ended()).toHaveLength(9), { timeout: 40_000, interval: 100 })
  expect((await ended()).map(({ team, status }) => `${team} ${status}`)).toEqual(
    Array(9).fill('answered succeeded'),
  )
  const patients = await query(
    warehouse.url,
    `select from intake.patients join intake.teams team using (team_id) where team.name = 'answered'`,
  )
  expect(patients).toHaveLength(25)
  run.kill('SIGTERM')
  expect((await run.ended).code).toBe(143)
  for (const service of silent) await service[Symbol.asyncDispose]()
}, 90_000)
