/**
 * The least server that throttles as the service does: a sliding window of one team, `Retry-After` in whole seconds,
 * rounded up; a refused call does not lengthen the window.
 *
 * Invariant: it counts for itself what it permitted and refused, so that nobody has to believe the client.
 */
import http from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ThrottledServer extends AsyncDisposable {
  readonly url: string
  readonly apiKey: string
  readonly apiSecret: string
  counts(): { readonly permitted: number; readonly refused: number }
}

export async function startThrottledServer(options: {
  readonly limit: number
  readonly seconds?: number
  /** Milliseconds before each answer. */
  readonly latency?: number
  /** False leaves out `Retry-After` and the sentence. */
  readonly header?: boolean
}): Promise<ThrottledServer> {
  const { limit, seconds = 1, latency = 0, header = true } = options
  const counts = { permitted: 0, refused: 0 }
  const taken: number[] = []
  const server = http.createServer((_, response) => {
    const now = performance.now()
    while (taken.length > 0 && taken[0]! <= now - seconds * 1000) taken.shift()
    let answer: () => void
    if (taken.length < limit) {
      taken.push(now)
      counts.permitted += 1
      answer = () =>
        response
          .writeHead(200, { 'content-type': 'application/json' })
          .end('{"count":0,"next":null,"results":[]}')
    } else {
      counts.refused += 1
      const wait = Math.ceil((taken[0]! + seconds * 1000 - now) / 1000)
      answer = header
        ? () =>
            response
              .writeHead(429, { 'retry-after': String(wait) })
              .end(
                JSON.stringify({ detail: `Request was throttled. Expected available in ${wait} seconds.` }),
              )
        : () => response.writeHead(429).end('{"detail":"Request was throttled."}')
    }
    if (latency > 0) setTimeout(answer, latency)
    else answer()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    apiKey: '00000000-0000-4000-8000-000000000000',
    apiSecret: 'any',
    counts: () => ({ ...counts }),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
