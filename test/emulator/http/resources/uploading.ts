/** Uploads files of patients to an emulator whose time moves only when a test says so. */
import { expect } from 'vitest'
import { type Emulator, startEmulator } from '../../../../src/emulator/server.ts'
import { problemsOf } from '../../../support/openapi.ts'
import { type Caller, callerOf, type Loose, type Reply } from '../../caller.ts'
import { stillClock } from '../../still-clock.ts'

export const UPLOADS = '/v2/patients/batch-upload'

const SEEDED = 3

export type Content = string | Uint8Array<ArrayBuffer>

export interface Uploading extends AsyncDisposable {
  readonly emulator: Emulator
  readonly caller: Caller
  /** Sends a body to the upload's address, and holds the answer against the description of the service. */
  post(body: FormData | Content, type?: string): Promise<Reply>
  /** Uploads a file, lets the service's time pass, and returns the record of the upload as it is then. */
  uploaded(content: Content, milliseconds?: number): Promise<Loose>
  progressOf(id: string): Promise<Loose>
  /** The patients beyond the seeded ones, without what the service adds. */
  created(): Promise<Loose[]>
}

export async function startUploading(): Promise<Uploading> {
  const emulator = await startEmulator({ port: 0, patients: SEEDED, clock: stillClock })
  const caller = callerOf(emulator)
  const progressOf: Uploading['progressOf'] = async (id) => {
    const url = `${UPLOADS}/${id}`
    const reply = await caller.get(url)
    expect(reply.status).toBe(200)
    expect(problemsOf({ method: 'GET', url, ...reply })).toEqual([])
    return reply.body
  }
  const post: Uploading['post'] = async (body, type) => {
    const reply = await postUpload(caller, body, type)
    expect(problemsOf({ method: 'POST', url: UPLOADS, ...reply })).toEqual([])
    return reply
  }
  return {
    emulator,
    caller,
    post,
    progressOf,
    async uploaded(content, milliseconds = 3_600_000) {
      const { status, body } = await post(formOf(content))
      expect(status).toBe(202)
      emulator.control.advance(milliseconds)
      return progressOf(body.id)
    },
    async created() {
      const rows = (await caller.rows('/v2/patients?page_size=1000')).slice(SEEDED)
      return rows.map(({ id: _id, created_at: _created, updated_at: _updated, ...fields }) => fields)
    },
    [Symbol.asyncDispose]: () => emulator.close(),
  }
}

export async function postUpload(by: Caller, body: FormData | Content, type?: string): Promise<Reply> {
  const headers = { ...by.credentials, ...(type === undefined ? {} : { 'content-type': type }) }
  const response = await fetch(by.baseUrl + UPLOADS, { method: 'POST', headers, body })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) }
}

export function formOf(content: Content, name = 'patients.csv', part = 'file'): FormData {
  const form = new FormData()
  form.append(part, new Blob([content], { type: 'text/csv' }), name)
  return form
}

/** A file of so many patients, A0 B to An B. */
export const lines = (count: number): string =>
  `first_name,last_name\n${Array.from({ length: count }, (_, at) => `A${at},B\n`).join('')}`

/** A file of these rows, whose columns are those that any of them names. */
export function csv(...rows: readonly Readonly<Record<string, string>>[]): string {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`
  return [names, ...rows.map((row) => names.map((name) => quoted(row[name] ?? '')))].join('\n')
}
