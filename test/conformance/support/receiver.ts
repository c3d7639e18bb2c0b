/**
 * A receiver of webhooks on this machine.
 *
 * Invariant: it keeps every request as received, byte for byte, and answers with the set status (200 by default).
 */
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Loose } from '../../support/service-under-test.ts'
import { until } from './control.ts'

export interface Delivery {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly bytes: Buffer
  /** The body as JSON. */
  readonly event: Loose
}

export interface Receiver extends AsyncDisposable {
  readonly url: string
  readonly deliveries: readonly Delivery[]
  /** Status of the next answers, one each; 200 after them. */
  readonly answers: number[]
  /** Waits for the first delivery, after the first `after`, that satisfies. */
  next(what: string, satisfies: (event: Loose) => boolean, after?: number): Promise<Delivery>
}

export async function openReceiver(): Promise<Receiver> {
  const deliveries: Delivery[] = []
  const answers: number[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const bytes = Buffer.concat(chunks)
      const { method = '', url: path = '', headers } = request
      deliveries.push({ method, path, headers, bytes, event: JSON.parse(bytes.toString('utf8')) })
      response.writeHead(answers.shift() ?? 200).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/hooks`,
    deliveries,
    answers,
    async next(what, satisfies, after = 0) {
      const find = async () => deliveries.slice(after).find(({ event }) => satisfies(event))
      const found = await until(what, find, (one) => one !== undefined)
      return found as Delivery
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
