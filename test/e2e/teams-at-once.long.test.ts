/** Teams of one run are read concurrently, each at the rate of its own service. */
import type http from 'node:http'
import pino from 'pino'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { scheduledBackfill } from '../../src/commands/run/backfill.ts'
import { startEmulator } from '../../src/emulator/server.ts'
import { type Received, type Service, startService } from '../api/support/service.ts'
import { startCli } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { littlePatients, startLittleService } from './support/little-service.ts'
import { connect, openWarehouse, query } from './support/scene.ts'
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

/** How long a test waits before it reports what is missing. */
const LONG = 60_000

it('every team of six receives a request before any of them has an answer', async () => {
  const unanswered: http.ServerResponse[] = []
  let open = false
  const hold = (_: Received, response: http.ServerResponse) => {
    if (open) empty(response)
    else unanswered.push(response)
  }
  const services: Service[] = []
  for (let at = 0; at < 6; at += 1) services.push(await startService(hold))
  const names = services.map((_, at) => `slow.${at}`)
  const teams = services.map((service, at) => entry(names[at]!, service))
  const run = runCommand(['backfill', '--json'], env(teams))
  await vi
    .waitFor(() => expect(services.map(({ received }) => received.length)).toEqual(Array(6).fill(2)), LONG)
    .finally(() => {
      open = true
      for (const response of unanswered) empty(response)
    })
  const ended = await run
  expect(ended.code).toBe(0)
  expect(Object.keys(teamsIn(ended))).toEqual(names)
  for (const service of services) await service[Symbol.asyncDispose]()
})

it('six teams with 20 permitted requests per second each are read concurrently: none waits for another to finish', async () => {
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
  // Each takes seconds of its own budget: twenty pages of patients and twenty of responses, and more.
  for (const { count } of spans) expect(count).toBeGreaterThan(40)
  const firsts = spans.map(({ first }) => first)
  const lasts = spans.map(({ last }) => last)
  expect(Math.max(...firsts)).toBeLessThan(Math.min(...lasts))
  for (const emulator of emulators) await emulator.close()
})

it('one of eight teams is read completely while the services of the others do not answer', async () => {
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
  await vi.waitFor(async () => expect(await ended()).toHaveLength(9), { timeout: LONG, interval: 100 })
  expect((await ended()).map(({ team, status }) => `${team} ${status}`)).toEqual(
    Array(9).fill('answered succeeded'),
  )
  const patients = await query(
    warehouse.url,
    `select from intake.patients join intake.teams team using (team_id) where team.name = 'answered'`,
  )
  expect(patients).toHaveLength(25)
  // Its part of the run is over: another run may start with it.
  expect((await runCommand(['backfill', '--team', 'answered'], env(teams))).code).toBe(0)
  expect((await runCommand(['backfill', '--team', 'silent.3'], env(teams))).code).toBe(3)
  run.kill('SIGTERM')
  expect((await run.ended).code).toBe(143)
  for (const service of silent) await service[Symbol.asyncDispose]()
})

it('a failure after the streams of a team fails only that team', async () => {
  let goOn = () => {}
  const permitted = new Promise<void>((resolve) => {
    goOn = resolve
  })
  await using failing = await startLittleService(littlePatients(3))
  await using other = await startLittleService(littlePatients(25))
  failing.interfere = (_, response) => {
    response.setHeader('x-service-environment', 'production')
    return false
  }
  // The other team is still read after the first has failed.
  let waits = true
  other.interfere = (request, response) => {
    if (!waits || !request.url.startsWith('/v2/patients')) return false
    waits = false
    void permitted.then(() =>
      response
        .writeHead(503, { 'retry-after': '0', 'content-type': 'application/json' })
        .end('{"detail":"later"}'),
    )
    return true
  }
  await query(
    warehouse.url,
    `create function pg_temp_refuse() returns trigger language plpgsql as $$ begin raise exception 'not this one'; end $$`,
  )
  await query(
    warehouse.url,
    `create trigger refuse before update on intake.teams for each row when (new.name = 'failing') execute function pg_temp_refuse()`,
  )
  const teams = [entry('failing', failing), entry('other', other)]
  const run = runCommand(['backfill', '--json'], env(teams))
  const read = () =>
    query(
      warehouse.url,
      `select from intake_ops.run_streams join intake.teams team using (team_id) where team.name = 'failing'`,
    )
  await vi.waitFor(async () => expect(await read()).toHaveLength(9), LONG)
  setTimeout(goOn, 500)
  const ended = await run
  expect(ended.code).toBe(1)
  const statuses = Object.values(teamsIn(ended).other!.streams).map(({ status }) => status)
  expect(statuses).toEqual(Array(9).fill('succeeded'))
  const [row] = await query<{ status: string; error: string }>(
    warehouse.url,
    'select status, error from intake_ops.runs order by run_id desc limit 1',
  )
  expect(row).toEqual({ status: 'failed', error: expect.stringMatching(/^(?:failing\/.*\n?){9}$/) })
  await query(warehouse.url, 'drop trigger refuse on intake.teams')
})

it('a team that another run locks is left out of a scheduled run, and the others are read', async () => {
  await using lockedTeam = await startLittleService(littlePatients(3))
  await using free = await startLittleService(littlePatients(3))
  const teams = [entry('locked', lockedTeam), entry('free', free)]
  expect((await runCommand(['backfill'], env(teams))).code).toBe(0)
  const [team] = await query<{ team_id: number }>(
    warehouse.url,
    "select team_id from intake.teams where name = 'locked'",
  )
  const session = await connect(warehouse.url)
  await session.query('select pg_advisory_lock(intake_ops.lock_key(7204311, $1))', [`${team!.team_id}/forms`])
  const asked = [lockedTeam, free].map(({ received }) => received.length)
  const warned: string[] = []
  const logger = pino({ level: 'warn' }, { write: (line: string) => void warned.push(line) })
  const place = { url: warehouse.url, config: { lookbackDays: 2, sweepDays: 7 }, logger, version: '0.0.0' }
  const sources = teams.map((each) => ({ ...each, apiVersion: 'v2.1', concurrency: 4 }))
  await scheduledBackfill(place, sources, new AbortController().signal)
  expect(warned.join('')).toContain('left out: another run holds forms of locked')
  expect(lockedTeam.received.length).toBe(asked[0])
  expect(free.received.length).toBeGreaterThan(asked[1]!)
  await session.end()
})

it('a team that never answers does not keep the others from being verified', async () => {
  await using silent = await startService(() => {})
  await using little = await startLittleService(littlePatients(12))
  const teams = [entry('never', silent), entry('compared', little)]
  expect((await runCommand(['backfill', '--team', 'compared'], env(teams))).code).toBe(0)
  const run = startCli(['verify'], env(teams))
  const verified = () =>
    query<{ is_equal: boolean }>(
      warehouse.url,
      `select is_equal from intake_ops.verifications join intake.teams team using (team_id) where team.name = 'compared'`,
    )
  await vi.waitFor(async () => expect(await verified()).toHaveLength(10), {
    timeout: LONG,
    interval: 100,
  })
  expect((await verified()).every(({ is_equal }) => is_equal)).toBe(true)
  run.kill('SIGTERM')
  expect((await run.ended).code).toBe(143)
})
