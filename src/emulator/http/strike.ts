/**
 * Applies faults to an exchange: before the handler runs (`interrupt`), and to its answer (`damage`, `sendFaulty`).
 *
 * Invariant: an exchange without a fault is unchanged; a truncated one closes its connection, so that no later answer
 * can be taken for its rest.
 */
import type { ServerResponse } from 'node:http'
import type { Clock } from '../clock.ts'
import type { FaultName, FiredFaults } from '../faults.ts'
import type { Rendered } from './render.ts'

const HTML =
  '<!doctype html><html><head><title>Error</title></head><body><h1>Something is wrong</h1></body></html>'

function json(status: number, detail: string, headers: Record<string, string> = {}): Rendered {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ detail }),
  }
}

const html = (status: number): Rendered => ({ status, headers: { 'content-type': 'text/html' }, body: HTML })

export type Interruption =
  | { readonly type: 'answer'; readonly rendered: Rendered }
  /** The connection ends without an answer. */
  | { readonly type: 'reset' }
  /** The connection stays open without an answer. */
  | { readonly type: 'hang' }

/** The fault that replaces the answer, if any. `elsewhere` is another origin. */
export function interrupt(faults: FiredFaults, url: string, elsewhere: string): Interruption | undefined {
  if (faults.size === 0) return undefined
  if (faults.has('reset')) return { type: 'reset' }
  if (faults.has('hang')) return { type: 'hang' }
  const rendered = answerOf(faults, url, elsewhere)
  return rendered === undefined ? undefined : { type: 'answer', rendered }
}

function answerOf(faults: FiredFaults, url: string, elsewhere: string): Rendered | undefined {
  const seconds = (name: FaultName) => String(Math.max(0, Math.ceil(Number(faults.get(name) ?? 1))))
  if (faults.has('throttle') || faults.has('throttle-burst')) {
    const wait = seconds('throttle')
    const detail = `Request was throttled. Expected available in ${wait} seconds.`
    return json(429, detail, { 'retry-after': wait })
  }
  if (faults.has('throttle-silent')) return json(429, 'Request was throttled.')
  if (faults.has('http-500')) return json(500, 'Internal server error.')
  if (faults.has('http-503')) {
    return json(503, 'Service unavailable.', { 'retry-after': seconds('http-503') })
  }
  if (faults.has('html-502')) return html(502)
  if (faults.has('html-504')) return html(504)
  if (faults.has('html-200')) return html(200)
  if (faults.has('empty-body')) {
    return { status: 200, headers: { 'content-type': 'application/json' }, body: '' }
  }
  if (!faults.has('redirect')) return undefined
  // With a slash at the end of the path, before the query if there is one.
  const slashed = url.replace(/(?=\?)|$/, '/')
  const location = faults.get('redirect') === 'slash' ? slashed : `${elsewhere}${url}`
  return { status: 302, headers: { location }, body: '' }
}

const DAMAGES = ['cut-json', 'corrupt-json', 'invalid-utf8', 'truncate', 'drip'] as const

/** True if a fault needs the whole body. */
export function isDamaging(faults: FiredFaults): boolean {
  return DAMAGES.some((name) => faults.has(name))
}

/** The damaged body. */
export function damage(faults: FiredFaults, body: string): Buffer {
  const whole = Buffer.from(body)
  const middle = Math.floor(whole.length / 2)
  if (faults.has('cut-json')) return whole.subarray(0, middle)
  const damaged = Buffer.from(whole)
  if (faults.has('corrupt-json')) damaged[0] = 0x21
  if (faults.has('invalid-utf8')) {
    const text = whole.indexOf('"last_name":"') >= 0 ? '"last_name":"' : '"text":"'
    const position = /^[{[]/.test(body) ? whole.indexOf(text) + text.length : lowerCaseAfter(whole, middle)
    if (position >= text.length && damaged[position] !== 0x22) damaged[position] = 0x96
  }
  return damaged
}

/** Index of the first lower-case letter from `from` on: a position inside a text of an export. */
function lowerCaseAfter(bytes: Buffer, from: number): number {
  return bytes.findIndex((byte, index) => index >= from && byte >= 0x61 && byte <= 0x7a)
}

/** Sends `body` truncated or slowly. The caller must have hijacked the reply. */
export async function sendFaulty(
  raw: ServerResponse,
  faults: FiredFaults,
  { status, headers }: Omit<Rendered, 'body'>,
  body: Buffer,
  clock: Clock,
): Promise<void> {
  raw.writeHead(status, { ...headers, 'content-length': body.length })
  if (faults.has('truncate')) {
    raw.write(body.subarray(0, Math.floor(body.length / 2)), () => raw.destroy())
    return
  }
  const pause = Number(faults.get('drip') ?? 200)
  const step = Math.max(1, Math.ceil(body.length / 10))
  for (let index = 0; index < body.length && !raw.destroyed; index += step) {
    if (index > 0) await clock.sleep(pause)
    raw.write(body.subarray(index, index + step))
  }
  raw.end()
}
