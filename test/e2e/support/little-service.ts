/**
 * A service whose records the test controls, for situations that no correct service creates: a record that is in no list
 * and yet found by id, one that returns under a deleted id, an answer that is delayed until it is stale.
 *
 * Invariant: while `interfere` lets a request pass, lists and records are answered as specified, `pageSize` per page.
 */
import type http from 'node:http'
import { STREAMS } from '../../../src/streams/catalogue.ts'
import { json, type Received, startService } from '../../api/support/service.ts'

export interface LittleRecord {
  readonly id: string
  readonly [field: string]: unknown
}

/** Lists that tests name. Those of further streams are there too, and empty. */
type Resource =
  | 'patients'
  | 'forms'
  | 'packets'
  | 'documents'
  | 'responses'
  | 'messages'
  | 'exports'
  | 'webhookDeliveries'
  | 'webhookConfigs'

/** Paths of the lists, longer ones first; a record is under its list by its id. */
const PATHS = Object.fromEntries(
  STREAMS.map(({ list }) => [list!.name, list!.path] as const).sort(([, a], [, b]) => b.length - a.length),
) as Readonly<Record<Resource, string>>

export interface LittleService extends AsyncDisposable {
  readonly url: string
  readonly received: readonly Received[]
  /** By resource; a test may change it. */
  readonly records: Record<Resource, LittleRecord[]>
  /** Ids that are missing from the lists. */
  readonly unlisted: Set<string>
  /** Sees each request first; returns true when it has answered or will answer. */
  interfere: (request: Received, response: http.ServerResponse) => boolean
  /** Variables with which commands read it. */
  readonly env: Readonly<Record<'INTAKE_BASE_URL' | 'INTAKE_API_KEY' | 'INTAKE_API_SECRET', string>>
  /** Ten by default. */
  pageSize: number
  /** Lead of its clock over the local one, in milliseconds; 0 by default. */
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

/** The list that a path is or belongs to: the first match. */
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
