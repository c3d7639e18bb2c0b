/** Section 5 of the specification: authentication. Signatures of events are in s6-events.test.ts. */
import { describe, expect } from 'vitest'
import { serviceUnderTest } from '../support/service-under-test.ts'
import { expectRefused, idOf, walk } from './support/reading.ts'
import { rule } from './support/rule.ts'

const service = serviceUnderTest()

const credentialsOf = (environment: number, team: number) => {
  const { api_key, api_secret } = service().environments[environment]!.teams[team]!
  return { 'X-API-KEY': api_key, 'X-API-SECRET': api_secret }
}

const OPERATIONS: readonly (readonly [method: string, path: string])[] = [
  ['GET', '/v2/patients'],
  ['GET', '/v2/patients/x'],
  ['GET', '/v2/messages'],
  ['GET', '/v2/forms'],
  ['GET', '/v2/packets'],
  ['GET', '/v2/documents'],
  ['GET', '/v2/responses'],
  ['GET', '/v2/export-csv'],
  ['POST', '/v2/export-csv'],
  ['GET', '/v2/webhooks'],
  ['GET', '/v2/webhooks/events'],
  ['POST', '/v2/webhooks/events/test'],
]

describe.each(OPERATIONS)('%s %s', (method, path) => {
  const body = method === 'POST' ? {} : undefined

  rule(
    '5.1 "Both are required on every request", 5.3 "When either header is missing … 401"',
    [],
    async () => {
      const { credentials } = service()
      for (const name of ['X-API-KEY', 'X-API-SECRET', 'both']) {
        const left = Object.entries(credentials).filter(([header]) => name !== 'both' && header !== name)
        const reply = await service().call(method, path, { body, credentials: Object.fromEntries(left) })
        expectRefused(service(), reply, 401, 'No credentials provided.')
      }
    },
  )

  rule('5.3 "both are present but do not match a valid pair … 403"', [], async () => {
    const wrong = { 'X-API-KEY': '00000000-0000-4000-8000-000000000000', 'X-API-SECRET': 'wrong' }
    const { credentials } = service()
    for (const one of [
      wrong,
      { ...credentials, 'X-API-SECRET': 'wrong' },
      { ...wrong, 'X-API-SECRET': credentials['X-API-SECRET']! },
    ]) {
      expectRefused(
        service(),
        await service().call(method, path, { body, credentials: one }),
        403,
        'Invalid credentials.',
      )
    }
  })
})

rule(
  '5.2 "No OAuth flow, bearer token, … or session cookie exists": they are no credentials',
  [],
  async () => {
    for (const headers of [
      { authorization: 'Bearer something' },
      { authorization: 'Basic a2V5OnNlY3JldA==' },
      { cookie: 'session=something' },
    ]) {
      const reply = await service().call('GET', '/v2/patients', { credentials: {}, headers })
      expectRefused(service(), reply, 401, 'No credentials provided.')
    }
  },
)

rule(
  '5.4 "a sandbox key does not authenticate against production and the reverse"',
  ['another team'],
  async () => {
    const [production, sandbox] = service().environments
    for (const [base, credentials] of [
      [production!.base_url, credentialsOf(1, 0)],
      [sandbox!.base_url, credentialsOf(0, 0)],
    ] as const) {
      const reply = await service().call('GET', `${base}/v2/patients`, { credentials })
      expectRefused(service(), reply, 403, 'Invalid credentials.')
    }
  },
)

rule('1 "isolated data": no record of one environment is in the other', ['another team'], async () => {
  const { base_url } = service().environments[1]!
  const here = new Set((await walk(service(), '/v2/patients?page_size=1000')).rows.map(idOf))
  const reply = await service().call('GET', `${base_url}/v2/patients?page_size=1000`, {
    credentials: credentialsOf(1, 0),
  })
  expect(reply.body.results.length).toBeGreaterThan(0)
  for (const row of reply.body.results) expect(here).not.toContain(idOf(row))
})

rule('1 "a resource of another team is reported as not found"', ['another team'], async () => {
  for (const [resource, name] of [
    ['patients', 'Patient'],
    ['forms', 'Form'],
    ['packets', 'Packet'],
    ['documents', 'Document'],
    ['responses', 'Response'],
    ['messages', 'Message'],
  ]) {
    const [mine] = (await service().call('GET', `/v2/${resource}`)).body.results
    const reply = await service().call('GET', `/v2/${resource}/${idOf(mine)}`, {
      credentials: credentialsOf(0, 1),
    })
    expectRefused(service(), reply, 404, `${name} not found.`)
  }
})

rule(
  '5.6 "Responses carry an environment header X-Service-Environment": errors too, always the same',
  [],
  async () => {
    const replies = [
      await service().call('GET', '/v2/forms'),
      await service().call('GET', '/v2/forms/x'),
      await service().call('GET', '/v2/forms', { credentials: {} }),
      await service().call('GET', '/v2/nothing'),
    ]
    const values = replies.map(({ headers }) => headers.get('x-service-environment'))
    if (service().isEmulator) expect(new Set(values)).toEqual(new Set(['production']))
    else expect(values[0]).toMatch(/\S/)
  },
)
