/** Section 8 of the specification: limits. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect } from 'vitest'
import { type Reply, serviceUnderTest } from '../support/service-under-test.ts'
import { expectRefused } from './support/reading.ts'
import { rule } from './support/rule.ts'

const LIMIT = 4
const service = serviceUnderTest({ rateLimit: LIMIT })
const ask = (environment = 0, team = 0): Promise<Reply> => {
  const { base_url, teams } = service().environments[environment]!
  const credentials = { 'X-API-KEY': teams[team]!.api_key, 'X-API-SECRET': teams[team]!.api_secret }
  return service().call('GET', `${base_url}/v2/forms`, { credentials })
}

/** Sends many more requests at once than are permitted in a second. */
async function exceed(environment = 0): Promise<Reply> {
  const replies = await Promise.all(Array.from({ length: 5 * LIMIT }, () => ask(environment)))
  const refused = replies.find(({ status }) => status !== 200)
  if (refused === undefined) throw new Error('the limit was never reached')
  return refused
}

describe('8 "Requests are rate limited in both environments"', () => {
  for (const environment of [0, 1]) {
    rule(
      `7 "Request was throttled. Expected available in <N> seconds.": environment ${environment + 1}`,
      ['control'],
      async () => {
        const reply = await exceed(environment)
        const seconds = reply.headers.get('retry-after')
        expect(seconds).toMatch(/^[1-9]\d*$/)
        const detail = `Request was throttled. Expected available in ${seconds} seconds.`
        expectRefused(service(), reply, 429, detail)
      },
    )
  }

  rule('7 "wait the Retry-After value": a request after it is answered', ['control'], async () => {
    const { headers } = await exceed()
    await sleep(Number(headers.get('retry-after')) * 1000)
    expect((await ask()).status).toBe(200)
  })

  rule('8: a team is throttled for itself, not for another', ['control'], async () => {
    await exceed()
    expect((await ask(0, 1)).status).toBe(200)
  })
})
