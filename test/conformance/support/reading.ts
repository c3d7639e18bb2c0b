/**
 * Reads answers in any shape that the specification leaves open.
 *
 * Invariant: for the emulator, assertions here are exact (its default shape); for a real service every alternative is
 * accepted that the specification does not rule out.
 */
import { expect } from 'vitest'
import type { Loose, Reply, ServiceUnderTest } from '../../support/service-under-test.ts'
import type { Skip } from './rule.ts'

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
export const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})$/
export const DATE = /^\d{4}-\d{2}-\d{2}$/
/** An id that no record has. */
export const NOBODY = '00000000-0000-4000-8000-000000000000'

/** The call succeeded: with exactly this status on the emulator, with any 2xx on a real service. */
export function expectDone(service: ServiceUnderTest, reply: Reply, status: 200 | 201 | 202 | 204): void {
  if (service.isEmulator) expect(reply.status).toBe(status)
  else expect(Math.floor(reply.status / 100)).toBe(2)
}

/** The call was rejected with this status and a body with only `detail`, as the specification shows. */
export function expectRefused(
  service: ServiceUnderTest,
  reply: Reply,
  status: number,
  detail?: string,
): void {
  expect(reply.status).toBe(status)
  if (!service.isEmulator && status === 400) return
  expect(Object.keys(reply.body)).toEqual(['detail'])
  if (detail === undefined) expect(reply.body.detail).toMatch(/\S/)
  else expect(reply.body.detail).toBe(detail)
}

export function idOf(record: Loose): string {
  return String(record?.id ?? record?.uid)
}

/** The id that a record refers to under a name: an id, an object, a sibling `<name>_id`, or nothing. */
export function referenceOf(record: Loose, name: string): string | undefined {
  const value = record[name] ?? record[`${name}_id`] ?? undefined
  return value === undefined ? undefined : typeof value === 'object' ? idOf(value) : String(value)
}

/** Delivery status of a message. */
export function statusOf(message: Loose): string {
  const status = message.status ?? message.delivery_status
  return typeof status === 'object' && status !== null ? String(status.status ?? status.name) : String(status)
}

/** The scheduled time of a message, which may be in a part of its own. */
export function scheduledAtOf({ scheduled_at, scheduled }: Loose): string | undefined {
  return scheduled_at ?? scheduled?.scheduled_at ?? undefined
}

export function rowsOf(reply: Reply): Loose[] {
  const { body } = reply
  if (Array.isArray(body)) return body
  const list = [body?.results, body?.data, body?.items, ...Object.values(body ?? {})].find(Array.isArray)
  if (list === undefined) throw new Error(`${reply.method} of a list answered ${reply.status} without a list`)
  return list
}

/** Path and query of the next page. */
function nextOf(reply: Reply): string | undefined {
  const link = /<([^>]*)>\s*;\s*rel="?next"?/.exec(reply.headers.get('link') ?? '')?.[1]
  const next: unknown = Array.isArray(reply.body) ? link : (reply.body?.next ?? link)
  if (typeof next !== 'string' || next === '') return undefined
  const { search } = new URL(next, reply.url)
  return new URL(reply.url).pathname + search
}

export interface Walk {
  readonly rows: Loose[]
  readonly replies: readonly Reply[]
}

/** A list from its start, by its own links, to its end or for some pages (a real service is not read completely). */
export async function walk(
  service: ServiceUnderTest,
  path: string,
  pages = service.isEmulator ? 10_000 : 20,
  headers = {},
): Promise<Walk> {
  const rows: Loose[] = []
  const replies: Reply[] = []
  for (let next: string | undefined = path; next !== undefined && replies.length < pages; ) {
    const reply: Reply = await service.call('GET', next, { headers })
    expectDone(service, reply, 200)
    rows.push(...rowsOf(reply))
    replies.push(reply)
    next = nextOf(reply)
  }
  return { rows, replies }
}

/** Records of a list's first page; skips the test if there are none, as a team need not have any. */
export async function some(service: ServiceUnderTest, path: string, skip: Skip): Promise<Loose[]> {
  const { rows } = await walk(service, path, 1)
  if (rows.length === 0) skip(`the team has nothing at ${path.split('?')[0]}`)
  return rows
}
