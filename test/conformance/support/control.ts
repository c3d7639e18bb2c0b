/**
 * Actions that only the emulator offers: a patient answers, staff archive, time passes. Over HTTP, as in a rehearsal.
 *
 * Invariant: a call that the emulator rejects fails the test.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Loose, ServiceUnderTest } from '../../support/service-under-test.ts'

export async function control(
  service: ServiceUnderTest,
  method: string,
  path: string,
  body?: unknown,
): Promise<Loose> {
  const response = await fetch(`${service.baseUrl}/_control/${path}`, {
    method,
    ...(body === undefined
      ? {}
      : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} /_control/${path.split('/')[0]} answered ${response.status}`)
  return text === '' ? undefined : JSON.parse(text)
}

export const passTime = (service: ServiceUnderTest, seconds: number): Promise<Loose> =>
  control(service, 'POST', 'clock', { advance_seconds: seconds })

/** Repeats a request until the answer satisfies, or fails after a minute. */
export async function until<T>(
  what: string,
  ask: () => Promise<T>,
  satisfied: (value: T) => boolean,
): Promise<T> {
  for (const start = performance.now(); ; await sleep(20)) {
    const value = await ask()
    if (satisfied(value)) return value
    if (performance.now() - start > 60_000) throw new Error(`after a minute: not yet ${what}`)
  }
}

/** The service's time so many seconds from now, for scheduling a message. */
export async function inSeconds(service: ServiceUnderTest, seconds: number): Promise<string> {
  const { headers } = await service.call('GET', '/v2/forms?page_size=1')
  const now = Date.parse(headers.get('date') ?? '')
  return new Date(now + seconds * 1000).toISOString().replace(/\.\d+Z$/, 'Z')
}
