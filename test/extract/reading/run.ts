/** Reads the exports of a service into a warehouse, as one run of the stream does, and returns the result. */
import type http from 'node:http'
import pino, { type Logger } from 'pino'
import type { ClientOptions } from '../../../src/api/client.ts'
import { openServiceClock } from '../../../src/api/service-clock.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { noFailedFetches } from '../../../src/extract/conflicts/fetch-by-id.ts'
import { EVERYTHING } from '../../../src/extract/reading/window.ts'
import { readSlice } from '../../../src/extract/run-stream.ts'
import type { SliceNote, SliceOptions } from '../../../src/extract/slice-note.ts'
import { emptyTally, type Tally } from '../../../src/extract/source.ts'
import { compareBatch, loadBatch } from '../../../src/load/merge/load.ts'
import { openLoaders } from '../../../src/load/merge/loaders.ts'
import { firstStep } from '../../../src/load/run-progress.ts'
import { takeSlice } from '../../../src/load/slice.ts'
import { formExports } from '../../../src/streams/exports.ts'
import { openSession, PLANNER } from '../../../src/warehouse/connect.ts'
import { clientOf, json, type Received, type Service, startService } from '../../api/support/service.ts'
import { ask } from '../../support/sessions.ts'

export interface RunOptions extends Partial<Pick<SliceOptions, 'dry' | 'allowMassDelete'>> {
  readonly timezone?: string
  readonly client?: Partial<ClientOptions>
  readonly signal?: AbortSignal
  readonly logger?: Logger
}

export interface Ran {
  readonly note: SliceNote
  readonly tally: Tally
  readonly requests: number
}

let runs = 0

/** One run against the service at `baseUrl`, into team 1 of the warehouse at `url`. */
export async function runExports(baseUrl: string, url: string, options: RunOptions = {}): Promise<Ran> {
  const { dry = false, allowMassDelete = false, timezone = 'UTC' } = options
  await using session = await openSession({ url, purpose: 'scan exports', planner: PLANNER.compare })
  await using loaders = openLoaders({ url, clock: systemClock })
  await using heard = clientOf(baseUrl, options.client)
  const key = { teamId: 1, stream: 'exports' as const, slice: '' }
  const runId = String(++runs)
  const taken = dry
    ? { ...key, epoch: '0', runId: '0', cursor: null, takenAt: '-infinity' }
    : await takeSlice(session.db, key, runId)
  const tally = emptyTally()
  const meter = { requests: 0, throttled: 0 }
  const source = {
    team: 'north',
    client: heard.client,
    serviceClock: openServiceClock(),
    clock: { ...systemClock, sleep: (_: number, signal?: AbortSignal) => systemClock.sleep(1, signal) },
    logger: options.logger ?? pino({ level: 'silent' }),
    signal: options.signal ?? new AbortController().signal,
    loaders,
    url,
    timezone,
    stream: formExports,
    taken,
    load: dry ? compareBatch : loadBatch,
    meter,
    tally,
    step: firstStep(),
    failedFetches: noFailedFetches(),
    onProgress: () => {},
  }
  const slice = { allowMassDelete, dry, migrated: true, window: EVERYTHING }
  const note = await readSlice(source, session, slice)
  return { note, tally, requests: meter.requests }
}

export const query = ask

const OWNED = ['exports', 'export_columns', 'export_rows', 'export_cells'].map((name) => `intake.${name}`)
const RAW = ['records', 'record_history', 'export_files', 'export_chunks'].map((name) => `intake_raw.${name}`)

/** The rows that an analyst sees, without times and origins. */
export async function shownTables(url: string): Promise<readonly string[]> {
  const lines: string[] = []
  for (const table of OWNED) {
    const left = `'{_version,_origin,_loaded_at}'::text[]`
    const rows = await query<{ line: string }>(
      url,
      `select (to_jsonb(t) - ${left})::text as line from ${table} t order by 1`,
    )
    lines.push(...rows.map(({ line }) => `${table} ${line}`))
  }
  return lines
}

/** Place and writer of every row version that a repeated run must not change. */
export async function rowVersions(url: string): Promise<readonly string[]> {
  const text = [...OWNED, ...RAW, 'intake_ops.dead_letters', 'intake_ops.missed_once', 'intake_ops.problems']
    .map((table) => `select '${table} ' || ctid || ' ' || xmin as version from ${table}`)
    .join(' union all ')
  return (await query<{ version: string }>(url, `${text} order by 1`)).map(({ version }) => version)
}

export interface LittleExport {
  readonly id: string
  readonly name?: string
  readonly [field: string]: unknown
}

/**
 * A service that lists `entries` and returns `files` by id; `interfere` sees each request first, and returns true when
 * it answers.
 */
export interface FileService extends Service {
  entries: LittleExport[]
  readonly files: Map<string, { readonly bytes: Buffer; readonly type: string }>
  put(id: string, text: string | Buffer, type?: string): void
  interfere: (request: Received, response: http.ServerResponse) => boolean
}

export async function startFileService(): Promise<FileService> {
  const service = await startService((request, response) => {
    if (files.interfere(request, response)) return
    if (request.method === 'GET') {
      json(response, { count: files.entries.length, next: null, previous: null, results: files.entries })
      return
    }
    const file = files.files.get(idIn(request))
    if (file === undefined) json(response, { detail: 'Export not found.' }, 404)
    else response.writeHead(200, { 'content-type': file.type }).end(file.bytes)
  })
  const files: FileService = {
    url: service.url,
    received: service.received,
    entries: [],
    files: new Map(),
    put(id, text, type = 'text/plain') {
      if (!files.entries.some((entry) => entry.id === id)) files.entries.push({ id, name: `${id} export` })
      files.files.set(id, { bytes: Buffer.from(text as string), type })
    },
    interfere: () => false,
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
  return files
}

export function idIn(request: Received): string {
  return request.method === 'POST' ? String((JSON.parse(String(request.body)) as { id: unknown }).id) : ''
}

export const HEADER = 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived'
