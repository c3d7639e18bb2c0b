/** A receiver of webhooks on loopback: stores each delivery byte for byte, and answers as configured. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Loose } from './caller.ts'

export interface Delivery {
  readonly headers: IncomingHttpHeaders
  readonly method: string
  readonly path: string
  readonly bytes: Buffer
  /** The envelope, when the body is JSON. */
  readonly event: Loose
  /** Milliseconds of a monotonic clock. */
  readonly at: number
}

export interface Receiver extends AsyncDisposable {
  readonly url: string
  /** In order of arrival. */
  readonly deliveries: Delivery[]
  /** Answers a delivery; 200 at once when nothing else is set. */
  answer: (reply: ServerResponse, delivery: Delivery) => void
  connections: number
  close(): Promise<void>
}

export async function startReceiver(): Promise<Receiver> {
  const server = createServer((request, reply) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const bytes = Buffer.concat(chunks)
      const delivery: Delivery = {
        headers: request.headers,
        method: request.method ?? '',
        path: request.url ?? '',
        bytes,
        event: parsed(bytes),
        at: performance.now(),
      }
      receiver.deliveries.push(delivery)
      receiver.answer(reply, delivery)
    })
  })
  server.on('connection', () => {
    receiver.connections += 1
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const close = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}/hooks`,
    deliveries: [],
    answer: (reply) => reply.writeHead(200).end(),
    connections: 0,
    close,
    [Symbol.asyncDispose]: close,
  }
  return receiver
}

/** Answers with `status` and no body. */
export const answering = (status: number) => (reply: ServerResponse) => void reply.writeHead(status).end()

function parsed(bytes: Buffer): Loose {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return undefined
  }
}
