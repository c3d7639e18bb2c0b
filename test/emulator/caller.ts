/** Calls the emulator over real HTTP as a client would. */
import type { Emulator } from '../../src/emulator/server.ts'

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was sent, of whatever shape
export type Loose = any

export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: Loose
}

export interface Caller {
  readonly baseUrl: string
  readonly credentials: Readonly<Record<string, string>>
  get(path: string, headers?: Record<string, string>): Promise<Reply>
  send(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>
  /** Every row of a list in the default shape, by following `next`. */
  rows(path: string): Promise<Loose[]>
}

/** Speaks for one team; the first of production when nothing is said. */
export function callerOf(emulator: Emulator, environment = 0, team = 0): Caller {
  const { base_url, teams } = emulator.environments[environment]!
  const credentials = { 'X-API-KEY': teams[team]!.api_key, 'X-API-SECRET': teams[team]!.api_secret }
  const send: Caller['send'] = async (method, path, body, headers = credentials) => {
    const url = path.startsWith('http') ? path : base_url + path
    const content = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
    const type: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' }
    const response = await fetch(url, {
      method,
      headers: { ...type, ...headers },
      redirect: 'manual',
      ...content,
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, body: parsed(text) }
  }
  const get: Caller['get'] = (path, headers) => send('GET', path, undefined, headers)
  return {
    baseUrl: base_url,
    credentials,
    send,
    get,
    async rows(path) {
      const rows: unknown[] = []
      for (let next: string | null = path; next !== null; ) {
        const { status, body }: Reply = await get(next)
        if (status !== 200) throw new Error(`${next} answered ${status}`)
        rows.push(...body.results)
        next = body.next
      }
      return rows
    },
  }
}

/** What JSON text holds; undefined when it is none. */
export function parsed(text: string): Loose {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
