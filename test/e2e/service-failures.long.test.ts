/**
 * A service that cannot be used: each failure ends with a clear message, the right exit code and a state from which the
 * next run continues; and no request leaves the configured origin.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { json, type Service, startService } from '../api/support/service.ts'
import { type Ended, runCli, type Variables } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { storedTables } from './support/expected.ts'
import { withoutPauses } from './support/impatient.ts'
import { type LittleService, littlePatients, startLittleService } from './support/little-service.ts'
import { documentOf, openScene, openWarehouse, query } from './support/scene.ts'

withoutPauses()

let warehouse: TestDatabase
let elsewhere: Service

beforeAll(async () => {
  warehouse = await openWarehouse()
  elsewhere = await startService((_, response) => json(response, { count: 0, next: null, results: [] }))
})

afterAll(async () => {
  await elsewhere[Symbol.asyncDispose]()
  await warehouse.drop()
})

/** Runs against `service`, as a team of its own in the shared warehouse. */
function backfill(service: { env: Variables }, team: string, ...args: string[]): Promise<Ended> {
  return runCommand(['backfill', ...args], { ...service.env, INTAKE_TEAM: team, DATABASE_URL: warehouse.url })
}

async function peopleOf(team: string): Promise<number> {
  const [row] = await query<{ people: number }>(
    warehouse.url,
    'select count(*)::int as people from intake.patients join intake.teams using (team_id) where name = $1',
    [team],
  )
  return row!.people
}

async function expectNextRunGood(service: LittleService, team: string): Promise<void> {
  service.interfere = () => false
  expect(await backfill(service, team)).toMatchObject({ code: 0 })
  expect(await peopleOf(team)).toBe(25)
}

describe.concurrent('credentials', () => {
  it('that are wrong end the run with 1 after at most one answer per stream, with one message; the next run with valid ones succeeds', async () => {
    await using scene = await openScene()
    const wrong = { ...scene.env, INTAKE_API_SECRET: 'not-the-secret' }
    const run = await runCli(['backfill'], wrong)
    expect(run.code).toBe(1)
    expect(run.stdout.match(/refused the credentials \(403\)/g)).toHaveLength(1)
    expect(run.stdout).toContain(`${STREAMS.map(({ name }) => name).join(', ')}: `)
    expect(run.stdout).toContain('Check INTAKE_API_KEY and INTAKE_API_SECRET')
    expect(run.output).not.toContain('Warning')
    // Only requests that were in flight at the first answer; no further ones are sent.
    expect(scene.emulator.control.requests().length).toBeLessThanOrEqual(4)
    expect((await scene.backfill()).code).toBe(0)
    const runs = await query(scene.url, 'select status from intake_ops.runs order by run_id')
    expect(runs).toEqual([{ status: 'failed' }, { status: 'succeeded' }])
  })

  it.each([
    [['INTAKE_API_KEY', 'INTAKE_API_SECRET', 'INTAKE_BASE_URL'], 'are not set'],
    [['INTAKE_API_KEY'], 'must be set too'],
    [['INTAKE_BASE_URL', 'INTAKE_API_SECRET'], 'must be set too'],
  ])('that are missing (%s) end with 2 and are named', async (missing, what) => {
    const all = {
      INTAKE_BASE_URL: elsewhere.url,
      INTAKE_API_KEY: 'some-key',
      INTAKE_API_SECRET: 'some-secret',
    }
    const env = Object.fromEntries(Object.entries(all).filter(([name]) => !missing.includes(name)))
    const run = await runCommand(['backfill'], { ...env, DATABASE_URL: warehouse.url })
    expect(run).toMatchObject({ code: 2, stdout: '' })
    const [line = ''] = run.stderr.split('\n')
    expect(line).toContain(what)
    for (const name of missing) expect(line).toContain(name)
    expect(run.output).not.toMatch(/some-key|some-secret/)
  })
})

it.concurrent('a host that does not answer is reported within half a minute, once for all streams', async () => {
  const env = { INTAKE_BASE_URL: 'http://127.0.0.1:9', INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }
  const run = await backfill({ env }, 'unreachable')
  expect(run.code).toBe(1)
  expect(run.seconds).toBeLessThan(30)
  expect(run.stdout.match(/cannot reach 127\.0\.0\.1:9/g)).toHaveLength(1)
  expect(run.stdout).toContain('Check INTAKE_BASE_URL')
})

it.concurrent('a service that only throttles ends the run after INTAKE_GIVE_UP_AFTER, once for all streams', async () => {
  await using service = await startLittleService(littlePatients(25))
  service.interfere = (_, response) => {
    json(response, { detail: 'Request was throttled.' }, 429, { 'retry-after': '1' })
    return true
  }
  const env = { ...service.env, INTAKE_GIVE_UP_AFTER: '2s' }
  const run = await backfill({ env }, 'throttled')
  expect(run.code).toBe(1)
  expect(run.seconds).toBeGreaterThanOrEqual(2)
  expect(run.stdout.match(/throttles this team, and accepted no request for 2s \(429\)/g)).toHaveLength(1)
  expect(run.stdout).toContain('INTAKE_GIVE_UP_AFTER')
  await expectNextRunGood(service, 'throttled')
})

it.concurrent('a service that accepts connections and never answers ends the run after INTAKE_GIVE_UP_AFTER, once', async () => {
  await using service = await startLittleService(littlePatients(25))
  service.interfere = () => true
  const env = { ...service.env, INTAKE_GIVE_UP_AFTER: '2s' }
  const run = await backfill({ env }, 'silent')
  expect(run.code).toBe(1)
  expect(run.seconds).toBeGreaterThanOrEqual(2)
  expect(run.stdout.match(/the service answered no request for 2s/g)).toHaveLength(1)
  expect(run.stdout).toContain('INTAKE_GIVE_UP_AFTER (2s)')
  // Two seconds for each request in flight, and none after them; not five tries for each of nine streams.
  expect(service.received.length).toBeLessThan(20)
  await expectNextRunGood(service, 'silent')
})

it.concurrent('a redirect to another origin is an error, and the other origin receives no request', async () => {
  await using service = await startLittleService(littlePatients(25))
  service.interfere = ({ url }, response) => {
    if (!url.startsWith('/v2/patients')) return false
    response.writeHead(302, { location: `${elsewhere.url}${url}` }).end()
    return true
  }
  const run = await backfill(service, 'redirected')
  expect(run.code).toBe(1)
  expect(run.stdout).toMatch(
    /patients: GET \/v2\/patients: the service redirects \(302\), and redirects are not followed/,
  )
  expect(run.output).not.toContain(elsewhere.url)
  expect(elsewhere.received).toEqual([])
  await expectNextRunGood(service, 'redirected')
})

it.concurrent('a `next` that points elsewhere is followed only on the configured origin, to the end of the list', async () => {
  await using service = await startLittleService(littlePatients(25))
  service.interfere = ({ url }, response) => {
    if (url !== '/v2/patients') return false
    const results = service.records.patients.slice(0, 10)
    json(response, { count: 25, next: `${elsewhere.url}/v2/patients?page=2`, previous: null, results })
    return true
  }
  const run = await backfill(service, 'elsewhere', '--json')
  expect(run.code).toBe(0)
  expect(documentOf(run).streams.patients).toMatchObject({ fetched: 25, changed: 25 })
  expect(elsewhere.received).toEqual([])
})

it.concurrent.each([
  ['the same page again', (page: string) => `/v2/patients?page=${page === '3' ? 2 : page}`],
  ['the first page for ever', () => '/v2/patients'],
])(
  'a list with %s ends in an error, loads no wrong row, and does not stop the other streams',
  async (title, instead) => {
    await using service = await startLittleService(littlePatients(25))
    service.records.forms.push({ id: 'f1', name: 'Form', questions: [] })
    let asked = 0
    service.interfere = (request, response) => {
      const page = new URL(request.url, service.url).searchParams.get('page')
      if (page === null || !request.url.startsWith('/v2/patients')) return false
      asked += 1
      if (asked > 100) return false
      const at = new URL(instead(page), service.url)
      const first = Number(at.searchParams.get('page') ?? 1)
      const results = service.records.patients.slice(first * 10 - 10, first * 10)
      json(response, {
        count: 25,
        next: `${service.url}/v2/patients?page=${Number(page) + 1}`,
        previous: null,
        results,
      })
      return true
    }
    const team = `repeats.${title.length}`
    const run = await backfill(service, team, '--json')
    expect(run.code).toBe(1)
    expect(asked).toBeLessThan(20)
    const { streams } = documentOf(run)
    expect(streams.patients).toMatchObject({
      status: 'failed',
      note: expect.stringContaining('the same page twice'),
    })
    expect(streams.forms).toMatchObject({ status: 'succeeded', changed: 1 })
    await expectNextRunGood(service, team)
  },
)

describe.concurrent('an answer that stays wrong', () => {
  it.each([
    ['cut off in the middle', 'the connection broke before the whole answer came'],
    ['HTML with 502', 'the service failed (502)'],
    ['HTML with 200', 'the answer is not JSON'],
  ])('(%s) is requested six times, then reported, and the next run continues', async (how, message) => {
    await using service = await startLittleService(littlePatients(25))
    let asked = 0
    service.interfere = ({ url }, response) => {
      if (!url.startsWith('/v2/patients?page=3')) return false
      asked += 1
      const html = '<html><body>Ann Example is not available</body></html>'
      if (how.startsWith('HTML'))
        response.writeHead(how.endsWith('502') ? 502 : 200, { 'content-type': 'text/html' }).end(html)
      else {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': 5000 })
        response.write('{"count":25,"results":[{"id":"p21","first_name":"Ann Example')
        setTimeout(() => response.destroy(), 20)
      }
      return true
    }
    const team = `never.${message.length}`
    const run = await backfill(service, team)
    expect(run.code).toBe(1)
    expect(run.stdout).toContain(`patients: GET /v2/patients: ${message}`)
    expect(run.stdout).toContain('after 6 tries')
    expect(run.output).not.toContain('Ann Example')
    expect(asked).toBe(6)
    await expectNextRunGood(service, team)
  })
})

it('a service that works again leaves the warehouse as if it had never failed', async () => {
  const tables = await storedTables(warehouse.url)
  const teams = await query<{ people: number }>(
    warehouse.url,
    'select count(*)::int as people from intake.patients group by team_id',
  )
  expect(tables.patients!.length).toBe(25 * teams.length)
  expect(new Set(teams.map(({ people }) => people))).toEqual(new Set([25]))
})
