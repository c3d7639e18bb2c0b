/**
 * A service whose records the test holds in its hands, for what no honest service does: a record that is in no list
 * and yet found by id, one that comes back under an id that was deleted, an answer that waits until it is stale.
 *
 * Invariant: as long as `interfere` lets a request pass, lists and records are answered as specified, `pageSize` to a page.
 */
import type http from 'node:http'
import { json, type Received, startService } from '../../api/support/service.ts'
import type { Variables } from '../../support/cli.ts'

export interface LittleRecord {
  readonly id: string
  readonly [field: string]: unknown
}

/** Where each list is; a record stands under it by its id. */
const PATHS = {
  patients: '/v2/patients',
  forms: '/v2/forms',
  packets: '/v2/packets',
  documents: '/v2/documents',
  responses: '/v2/responses',
  messages: '/v2/messages',
  exports: '/v2/export-csv',
  webhookDeliveries: '/v2/webhooks/events',
  webhookConfigs: '/v2/webhooks',
} as const

type Resource = keyof typeof PATHS

export interface LittleService extends AsyncDisposable {
  readonly url: string
  readonly received: readonly Received[]
  /** By resource; a test changes it as it likes. */
  readonly records: Record<Resource, LittleRecord[]>
  /** Ids that the lists leave out. */
  readonly unlisted: Set<string>
  /** Sees a request first; true when it has answered, or will. */
  interfere: (request: Received, response: http.ServerResponse) => boolean
  readonly env: Variables
  /** Ten, unless a test says otherwise. */
  pageSize: number
  /** What its clock is ahead of ours: as long as a test does not say, nothing. */
  clockApartMs: number
}

const PAGE = 10

export async function startLittleService(patients: LittleRecord[] = []): Promise<LittleService> {
  const none = Object.fromEntries(
    Object.keys(PATHS).map((name) => [name, []]),
  ) as unknown as LittleService['records']
  const records = { ...none, patients }
  const unlisted = new Set<string>()
  const service = await startService(
    (request, response) => {
      if (!little.interfere(request, response)) answer(request, response)
    },
    () => little.clockApartMs,
  )
  const little: LittleService = {
    url: service.url,
    received: service.received,
    records,
    unlisted,
    interfere: () => false,
    pageSize: PAGE,
    clockApartMs: 0,
    env: { INTAKE_BASE_URL: service.url, INTAKE_API_KEY: 'little-key', INTAKE_API_SECRET: 'little-secret' },
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }

  function answer(request: Received, response: http.ServerResponse): void {
    const at = new URL(request.url, service.url)
    const resource = resourceAt(at.pathname)
    const all = resource === undefined ? [] : records[resource]
    if (resource !== undefined && at.pathname === PATHS[resource]) {
      const listed = all.filter((record) => !unlisted.has(record.id))
      json(response, pageOf(listed, at, little.pageSize))
      return
    }
    const id = decodeURIComponent(at.pathname.split('/').at(-1)!)
    const found = all.find((record) => record.id === id)
    if (found === undefined) json(response, { detail: 'Not found.' }, 404)
    else json(response, found)
  }
  return little
}

/** The list that a path is, or stands under: the first that fits, so the longer before the shorter. */
function resourceAt(path: string): Resource | undefined {
  const names = Object.keys(PATHS) as Resource[]
  return names.find((name) => path === PATHS[name] || path.startsWith(`${PATHS[name]}/`))
}

function pageOf(all: readonly LittleRecord[], at: URL, size: number): unknown {
  const page = Number(at.searchParams.get('page') ?? 1)
  const results = all.slice((page - 1) * size, page * size)
  at.searchParams.set('page', String(page + 1))
  return { count: all.length, next: page * size < all.length ? at.href : null, previous: null, results }
}

/** Patients `p1` to `p<count>`. */
export function littlePatients(count: number): LittleRecord[] {
  return Array.from({ length: count }, (_, at) => littlePatient(`p${at + 1}`, 'first'))
}

export function littlePatient(id: string, lastName: string): LittleRecord {
  const stamp = '2026-01-01T00:00:00Z'
  return {
    id,
    first_name: 'A',
    last_name: lastName,
    custom_fields: { plan: lastName },
    created_at: stamp,
    updated_at: stamp,
  }
}
