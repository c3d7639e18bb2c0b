/** What `init` learns of a service that does not count, cannot list everything, or permits few requests. */
import { expect, it, vi } from 'vitest'
import { firstFailure, isOpen, probed } from '../../../src/commands/init/probe.ts'
import { readConfig } from '../../../src/config/config.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { json, startService } from '../../api/support/service.ts'
import { configOf } from '../../e2e/support/teams.ts'

const context = {
  ...{ env: {}, stdout: { write: () => true }, stderr: { write: () => true } },
  ...{ signal: new AbortController().signal, version: '1' },
}
const patients = [1, 2].map((n) => ({ id: `p${n}`, first_name: 'A', last_name: 'B' }))

it('a stream without a count is a lower bound unless it is one page; one that cannot be listed is no failure', async () => {
  await using service = await startService((request, response) => {
    const [path] = request.url.split('?')
    if (path === '/v2/patients') return json(response, { results: patients, next: `${path}?page=2` })
    if (path === '/v2/forms') return json(response, { detail: 'canary' }, 403)
    if (path === '/v2/packets') return json(response, { other: true })
    if (path === '/v2/documents')
      return json(response, { count: 5, results: [{ id: 'd' }, { id: 'e' }], next: `${path}?page=2` })
    return json(response, [])
  })
  const team = { name: 'north', baseUrl: service.url, apiKey: 'k', apiSecret: 's', rateLimit: '1000/s' }
  const [probe] = await probed(context, readConfig(configOf([team])))
  const of = (stream: string) => probe!.streams.find((each) => each.stream === stream)
  expect(of('patients')).toMatchObject({ count: null, page: 2, error: null })
  expect(of('forms')).toMatchObject({ count: null, page: 0, error: expect.stringContaining('403') })
  expect(of('forms')!.error).not.toContain('canary')
  expect(of('packets')).toMatchObject({ error: 'the answer contains no list' })
  expect(of('documents')).toMatchObject({ count: 5, page: 2, by_id: true, error: null })
  expect(of('messages')).toEqual({ stream: 'messages', count: 0, page: 0, by_id: false, error: null })
  expect(probe).toMatchObject({
    team: 'north',
    base_url: service.url,
    is_lower_bound: true,
    permitted_rate: 1_000,
  })
  // One request of each stream at least; three pages of documents, and each of the five by itself.
  expect(probe!.requests).toBe(probe!.streams.length + 2 + 5)
})

it('a list that cannot be read does not make the number of requests a lower bound: nothing of it will be read', async () => {
  await using service = await startService((request, response) =>
    request.url.startsWith('/v2/forms') ? json(response, { detail: 'x' }, 403) : json(response, []),
  )
  const team = { name: 'north', baseUrl: service.url, apiKey: 'k', apiSecret: 's' }
  const [probe] = await probed(context, readConfig(configOf([team])))
  expect(probe).toMatchObject({ is_lower_bound: false, requests: probe!.streams.length })
  expect(probe!.streams.filter(({ error }) => error !== null).map(({ stream }) => stream)).toEqual(['forms'])
})

it('each stream is listed once, under its own name; ids alone are fetched one by one where that is possible', async () => {
  await using service = await startService((request, response) => {
    const [path] = request.url.split('?')
    const name = path === '/v2/webhooks/events' ? 'events' : path!.split('/').at(-1)!
    const records = path === '/v2/patients' ? [null, 'x', ...patients] : [{ id: 'a' }]
    const more = name === 'forms' ? { count: 3, next: '/v2/forms?page=2' } : {}
    json(response, { [name === 'export-csv' ? 'results' : name]: records, ...more })
  })
  const team = { name: 'north', baseUrl: service.url, apiKey: 'k', apiSecret: 's', pageSize: 7 }
  const [probe] = await probed(context, readConfig(configOf([team])))
  const one = { count: 1, page: 1, by_id: true, error: null }
  expect(Object.fromEntries(probe!.streams.map(({ stream, ...rest }) => [stream, rest]))).toEqual({
    ...{
      forms: { ...one, count: 3 },
      packets: one,
      documents: one,
      responses: one,
      messages: one,
      webhook_configs: one,
    },
    ...{ exports: one, webhook_deliveries: { ...one, by_id: false } },
    patients: { count: 4, page: 4, by_id: false, error: null },
  })
  expect(probe).toMatchObject({ is_lower_bound: false, environment: null, requests: 20, seconds: 1 })
  const asked = service.received.map(({ method, url }) => [method, new URL(url, service.url)] as const)
  expect(asked.map(([method, url]) => [method, url.searchParams.get('page_size')])).toEqual(
    asked.map(() => ['GET', '7']),
  )
  expect(new Set(asked.map(([, url]) => url.pathname)).size).toBe(asked.length)
})

it('the time of a first backfill is that of its requests at the permitted rate', async () => {
  await using service = await startService((_, response) =>
    json(response, { count: 1_000_000, results: patients, next: '/v2/patients?page=2' }),
  )
  const team = { name: 'north', baseUrl: service.url, apiKey: 'k', apiSecret: 's', rateLimit: '20/s' }
  const [probe] = await probed(context, readConfig(configOf([team])))
  expect(probe!.requests).toBeGreaterThanOrEqual(500_000 * probe!.streams.length)
  expect([probe!.permitted_rate, probe!.is_lower_bound]).toEqual([20, false])
  // Slower only where a request takes longer than four of them may.
  expect(probe!.seconds).toBeGreaterThanOrEqual(Math.round(probe!.requests / 20))
  expect(probe!.seconds).toBeLessThan(probe!.requests / 2)
})

it('where no limit is known, that time is as many requests at once as are configured, each as long as those that were tried', async () => {
  // A tenth of a second passes with each request, and none otherwise.
  let now = systemClock.now()
  const clock = vi.spyOn(systemClock, 'now').mockImplementation(() => now)
  try {
    await using service = await startService((_, response) => {
      now += 100_000
      json(response, { count: 1_000, results: patients, next: '/v2/patients?page=2' })
    })
    const team = { name: 'north', baseUrl: service.url, apiKey: 'k', apiSecret: 's' }
    for (const concurrency of [1, 5]) {
      const teams = [{ ...team, concurrency }]
      const [probe] = await probed(context, readConfig(configOf(teams)))
      expect(probe).toMatchObject({
        permitted_rate: null,
        seconds: Math.round(probe!.requests / (concurrency * 10)),
      })
    }
  } finally {
    clock.mockRestore()
  }
})

it('of several teams the first that is refused is named', async () => {
  await using service = await startService((request, response) => {
    response.setHeader('date', new Date().toUTCString())
    if (request.headers['x-api-key'] === 'right') json(response, { count: 0, results: [] })
    else json(response, {}, 403)
  })
  const teams = ['north', 'south'].map((name) => ({
    name,
    baseUrl: service.url,
    apiSecret: 's',
    apiKey: 'right',
  }))
  const wrong = teams.map((team) => ({ ...team, apiKey: team.name === 'south' ? 'wrong' : 'right' }))
  expect(await firstFailure(context, readConfig(configOf(teams)))).toBeNull()
  expect(await firstFailure(context, readConfig(configOf(wrong)))).toMatchObject({
    name: 'credentials of south',
    status: 'failed',
  })
  const one = [{ ...wrong[1]! }]
  expect(await firstFailure(context, readConfig(configOf(one)))).toMatchObject({ name: 'credentials' })
})

it('each team is tried with its own credentials, and of two that are refused the first is named', async () => {
  await using service = await startService((request, response) => {
    response.setHeader('date', new Date().toUTCString())
    const isNorth = request.headers['x-api-key'] === 'north'
    response.setHeader('x-service-environment', isNorth ? 'production' : 'sandbox')
    json(response, { count: isNorth ? 2 : 0, results: isNorth ? patients : [] })
  })
  const teams = ['north', 'south'].map((name) => ({
    ...{ name, baseUrl: service.url, apiSecret: 's', apiKey: name },
  }))
  const found = await probed(context, readConfig(configOf(teams)))
  expect(
    found.map(({ team, base_url, streams }) => [
      team,
      base_url,
      streams.find(({ stream }) => stream === 'patients')!.count,
    ]),
  ).toEqual([
    ['north', service.url, 2],
    ['south', service.url, 0],
  ])
  await using closed = await startService((_, response) => json(response, {}, 403))
  const refused = teams.map((team) => ({ ...team, baseUrl: closed.url }))
  expect(await firstFailure(context, readConfig(configOf(refused)))).toMatchObject({
    name: 'credentials of north',
  })
})

it('a connection without TLS is open to others unless it stays on this machine', () => {
  const addresses = ['10.0.0.5', '192.0.2.127', '2001:db8::1', '127.0.0.1', '127.9.0.1', '::1', null]
  const open = (ssl: boolean) => addresses.filter((address) => isOpen({ ssl, address }))
  expect(open(false)).toEqual(['10.0.0.5', '192.0.2.127', '2001:db8::1'])
  expect(open(true)).toEqual([])
})
