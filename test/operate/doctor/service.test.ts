/** `doctor` with a base URL where another server answers, or none in time. */
import type http from 'node:http'
import pino from 'pino'
import { expect, test } from 'vitest'
import { DEFAULT_PATHS } from '../../../src/api/paths.ts'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import { runChecks } from '../../../src/operate/doctor/doctor.ts'
import { checkService, rateLimitCheck } from '../../../src/operate/doctor/service.ts'
import { json, startService } from '../../api/support/service.ts'
import { collecting } from '../../support/garbage.ts'

type Answering = Parameters<typeof startService>[0]

async function look(answering: Answering, limitMs = 60_000, clock: Clock = systemClock) {
  await using service = await startService(answering)
  const team = { name: 'default', baseUrl: service.url, apiKey: 'k', apiSecret: 's', apiVersion: '' }
  return await checkService(
    { ...team, concurrency: 1 },
    {
      ...{ clock, logger: pino({ level: 'silent' }), signal: new AbortController().signal },
      ...{ environment: null, suffix: '', limitMs },
    },
  )
}

test.each<[string, Answering]>([
  ['an empty body', (_, response) => response.writeHead(200).end()],
  ['an empty object', (_, response) => json(response, {})],
  ['a greeting', (_, response) => json(response, { status: 'ok', version: '1' })],
  ['a complaint', (_, response) => json(response, { detail: 'Unknown tenant.', results: [] })],
  [
    'a page for browsers',
    (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
  ],
])('200 with %s proves no credentials: the base URL is questioned', async (_, answering) => {
  const [credentials, ...others] = await look(answering)
  expect(credentials).toMatchObject({ name: 'credentials', status: 'failed' })
  expect(credentials!.hint).toMatch(/INTAKE_BASE_URL/)
  expect(others).toEqual([])
})

test.each([404, 410])(
  '%i for a list is reported as a wrong base URL, not as a deleted list',
  async (status) => {
    const [credentials] = await look((_, response) => json(response, { detail: 'Not found.' }, status))
    expect(credentials).toEqual({
      ...{
        name: 'credentials',
        status: 'failed',
        detail: `GET ${DEFAULT_PATHS.forms}: not found (${status})`,
      },
      hint: 'check INTAKE_BASE_URL: the server there does not have the paths of the service',
    })
  },
)

test('a list without a form is a list', async () => {
  const [credentials, environment, clock] = await look((_, response) => {
    const date = new Date(Date.now() - 30_000).toUTCString()
    json(response, { count: 0, next: null, results: [] }, 200, { date })
  })
  expect(credentials).toMatchObject({ status: 'ok' })
  expect(environment).toMatchObject({
    ...{ status: 'warning', detail: 'the service names no environment (X-Service-Environment)' },
  })
  expect(clock).toMatchObject({
    ...{
      name: 'clock',
      status: 'ok',
      detail: expect.stringMatching(/^the clocks differ by \d+ s: .* behind$/),
    },
  })
})

test.each([
  [1, 'ok', 'agrees with the service’s'],
  [59, 'ok', "the clocks differ by 59 s: the service's is ahead"],
  [60, 'warning', "the clocks differ by 60 s: the service's is ahead"],
  [299, 'warning', "the clocks differ by 299 s: the service's is ahead"],
  [300, 'failed', "the clocks differ by 300 s: the service's is ahead"],
  // Its seconds are cut off: it may be behind by one less.
  [-60, 'ok', "the clocks differ by 59 s: the service's is behind"],
  [-61, 'warning', "the clocks differ by 60 s: the service's is behind"],
  [-301, 'failed', "the clocks differ by 300 s: the service's is behind"],
])('a clock of the service that shows %i s more than this machine’s: %s', async (seconds, status, detail) => {
  const now = Math.floor(Date.now() / 1000) * 1000
  const date = new Date(now + seconds * 1000).toUTCString()
  const list = { count: 0, next: null, results: [] }
  const clock = { ...systemClock, now: () => now * 1000 }
  const checks = await look((_, response) => json(response, list, 200, { date }), 60_000, clock)
  expect(checks.at(-1)).toMatchObject({ name: 'clock', status, detail })
})

test('a clock that is wrong is reported of a service that refuses the credentials, too', async () => {
  const date = new Date(Date.now() + 400_000).toUTCString()
  const environment = { 'x-service-environment': 'production' }
  const checks = await look((_, response) =>
    json(response, { detail: 'Forbidden.' }, 403, { date, ...environment }),
  )
  expect(checks.map(({ name, status }) => [name, status])).toEqual([
    ['credentials', 'failed'],
    ['environment', 'ok'],
    ['clock', 'failed'],
  ])
})

test('a refused request without filters and body is one of another version, or to another server', async () => {
  const [credentials, ...others] = await look((_, response) => json(response, { detail: 'No.' }, 400))
  expect(credentials).toMatchObject({
    ...{ name: 'credentials', status: 'failed' },
    hint: 'check INTAKE_API_VERSION, and that INTAKE_BASE_URL leads to the service itself',
  })
  expect(others).toEqual([])
})

test('a configured limit is shown as one of each process', () => {
  expect(rateLimitCheck({}, ' of north')).toMatchObject({
    ...{ name: 'rate limit of north', detail: expect.stringMatching(/^learned/) },
  })
  const rateLimit = { requests: 20, seconds: 10 }
  expect(rateLimitCheck({ rateLimit }, '').detail).toBe('at most 20 requests in 10 s, in each process')
})

test('a service that never answers is reported after the timeout', async () => {
  using _ = collecting()
  const [credentials] = await look(() => {}, 1_500)
  expect(credentials).toMatchObject({
    ...{ name: 'credentials', status: 'failed', detail: 'the service did not respond within 1.5 s' },
    hint: expect.stringContaining('INTAKE_BASE_URL'),
  })
})

test('a throttled team gives no result about its credentials', async () => {
  const [credentials, ...others] = await look(
    (_, response) => json(response, { detail: 'Request was throttled.' }, 429, { 'retry-after': '1' }),
    1_500,
  )
  expect(credentials).toMatchObject({
    ...{ name: 'credentials', status: 'warning' },
    detail: 'not checked: the service throttles this team (429)',
    hint: expect.stringContaining('other client'),
  })
  expect(others).toEqual([])
})

test('wrong credentials are reported, also when the first request was throttled', async () => {
  const [credentials] = await look((_, response, index) =>
    index === 0
      ? json(response, { detail: 'Request was throttled.' }, 429, { 'retry-after': '0' })
      : json(response, { detail: 'Forbidden.' }, 403),
  )
  expect(credentials).toMatchObject({
    ...{ name: 'credentials', status: 'failed' },
    detail: expect.stringContaining('refuses the pair of key and secret (403)'),
  })
})

test('requests of all teams are sent before any is answered: one that hangs delays no other', async () => {
  const unanswered: http.ServerResponse[] = []
  const teams = ['one', 'two', 'three']
  await using service = await startService((_, response) => {
    unanswered.push(response)
    // The last request answers all; of sequential requests the first would wait for its timeout, and fail.
    if (unanswered.length === teams.length)
      for (const each of unanswered) json(each, { count: 0, next: null, results: [] })
  })
  const checks = await runChecks({
    ...{ url: null, dataDir: null, encryptionKey: null, cron: null, clock: systemClock },
    ingestTeams: teams.map((name) => ({ name, webhookSecrets: [] })),
    teams: teams.map((name) => ({
      ...{
        name,
        baseUrl: service.url,
        apiKey: 'k',
        apiSecret: 's',
        apiVersion: '',
        concurrency: 1,
        timezone: 'UTC',
      },
    })),
    ...{ webhook: { name: 'webhook port', variable: 'W', host: '127.0.0.1', port: 0 } },
    ...{ admin: { name: 'admin port', variable: 'A', host: '127.0.0.1', port: 0 } },
    ...{ logger: pino({ level: 'silent' }), signal: new AbortController().signal },
  })
  const asked = checks.filter(({ name }) => name.startsWith('credentials'))
  expect(asked.map(({ name, status }) => `${name}: ${status}`)).toEqual(
    teams.map((name) => `credentials of ${name}: ok`),
  )
})

test.each([
  [null, null, 'the service', ''],
  ['production', null, 'the production environment of the service', ', for production'],
  ['production', 'production', 'the production environment of the service', ', for production'],
])(
  'a refused pair of key and secret of environment %s (before: %s) is one failure with its hint',
  async (name, before, who, of) => {
    const headers = name === null ? {} : { 'x-service-environment': name }
    await using service = await startService((_, response) =>
      json(response, { detail: 'Forbidden.' }, 403, headers),
    )
    const [credentials] = await checkService(
      { name: 'default', baseUrl: service.url, apiKey: 'k', apiSecret: 's', apiVersion: '', concurrency: 1 },
      {
        ...{ clock: systemClock, logger: pino({ level: 'silent' }), signal: new AbortController().signal },
        ...{ environment: before, suffix: ' of north', limitMs: 60_000 },
      },
    )
    expect(credentials).toEqual({
      ...{ name: 'credentials of north', status: 'failed' },
      detail: `${who} refuses the pair of key and secret (403): one of them is wrong, or they belong to another environment`,
      hint: `copy both again from the service's dashboard${of}; a sandbox key is not valid in production`,
    })
  },
)

test('an interruption is no result about the service', async () => {
  const controller = new AbortController()
  const reason = new IntakeError('interrupted', { code: 'canceled', verdict: 'stop' })
  await using service = await startService(() => controller.abort(reason))
  const checking = checkService(
    { name: 'default', baseUrl: service.url, apiKey: 'k', apiSecret: 's', apiVersion: '', concurrency: 1 },
    {
      ...{ clock: systemClock, logger: pino({ level: 'silent' }), signal: controller.signal },
      ...{ environment: null, suffix: '', limitMs: 60_000 },
    },
  )
  await expect(checking).rejects.toThrow('interrupted')
})
