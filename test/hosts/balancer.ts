/**
 * A balancer in front of the ingesters: asks each for its readiness twice a second, takes turns among those that are ready,
 * and tries another when one fails or answers 503.
 */
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Agent, request } from 'undici'

const EVERY_MS = 500
const PROBE_MS = 1_000
const ANSWER_MS = 3_000
const ATTEMPTS = 3

export interface Balancer extends AsyncDisposable {
  readonly url: string
  readonly counts: { passed: number; again: number; refused: number }
}

export async function openBalancer(
  targets: readonly { readonly origin: string; readonly probe: string }[],
): Promise<Balancer> {
  const agent = new Agent({ connections: 64, connect: { timeout: PROBE_MS } })
  const isReady = new Map(targets.map(({ origin }) => [origin, false]))
  const counts = { passed: 0, again: 0, refused: 0 }
  let turn = 0

  async function call(url: string, ms: number, body?: Buffer, headers = {}): Promise<number> {
    const answer = await request(url, {
      ...{ dispatcher: agent, headers, signal: AbortSignal.timeout(ms) },
      ...(body === undefined ? {} : { method: 'POST' as const, body }),
    })
    await answer.body.dump()
    return answer.statusCode
  }

  async function pass(path: string, headers: IncomingMessage['headers'], body: Buffer): Promise<number> {
    const { 'content-type': type, 'x-service-signature': signature } = headers
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const ready = targets.filter(({ origin }) => isReady.get(origin))
      const among = ready.length === 0 ? targets : ready
      const { origin } = among[turn++ % among.length]!
      const status = await call(`${origin}${path}`, ANSWER_MS, body, {
        ...{ 'content-type': type, 'x-service-signature': signature },
      }).catch(() => 503)
      if (status !== 503) return status
      counts.again += 1
    }
    return 503
  }

  const server = createServer(async (incoming, response) => {
    const pieces: Buffer[] = []
    for await (const piece of incoming) pieces.push(piece as Buffer)
    const status = await pass(incoming.url!, incoming.headers, Buffer.concat(pieces))
    if (status === 503) counts.refused += 1
    else counts.passed += 1
    response.writeHead(status).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const probing = setInterval(() => {
    for (const { origin, probe } of targets)
      void call(probe, PROBE_MS)
        .catch(() => 503)
        .then((status) => isReady.set(origin, status === 200))
  }, EVERY_MS)
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    counts,
    async [Symbol.asyncDispose]() {
      clearInterval(probing)
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await agent.destroy()
    },
  }
}
