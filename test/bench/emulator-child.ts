/**
 * A server for the benchmark, in a process of its own: the emulator, or, given an address and its content, a bare HTTP
 * server that answers the same paths with the same bytes. Prints its address as one line of JSON.
 *
 * Invariant: it ends with its standard input, so that none is left behind when the benchmark is killed.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { startEmulator } from '../../src/emulator/server.ts'

const { records, pageSize, copy } = JSON.parse(process.argv[2] ?? '{}') as {
  readonly records?: number
  readonly pageSize?: number
  readonly copy?: {
    readonly origin: string
    readonly headers: Record<string, string>
    readonly paths: string[]
    /** Before each answer. */
    readonly latencyMs?: number
  }
}

if (copy !== undefined) {
  const bodies = new Map<string, Buffer>()
  for (const path of copy.paths) {
    const response = await fetch(copy.origin + path, { headers: copy.headers })
    bodies.set(path, Buffer.from(await response.arrayBuffer()))
  }
  const server = createServer(async (request, response) => {
    if (copy.latencyMs !== undefined) await sleep(copy.latencyMs)
    const body = bodies.get(request.url ?? '')
    const headers = { 'content-type': 'application/json', 'content-length': body?.length ?? 0 }
    response.writeHead(body === undefined ? 404 : 200, headers).end(body)
  })
  server.listen(0, '127.0.0.1', () => {
    ready(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {})
  })
} else if (records !== undefined) {
  const { environments } = await startEmulator({
    ...{ port: 0, patients: records, responses: records },
    ...(pageSize === undefined ? {} : { pageSize }),
  })
  const { base_url, teams } = environments[0]!
  ready(base_url, { 'x-api-key': teams[0]!.api_key, 'x-api-secret': teams[0]!.api_secret })
} else
  throw new Error(
    'usage: emulator-child {"records": N, "pageSize": N} | {"copy": {"origin", "headers", "paths"}}',
  )

function ready(origin: string, headers: Record<string, string>): void {
  process.stdin.on('end', () => process.exit(0)).resume()
  process.stdout.write(`${JSON.stringify({ origin, headers })}\n`)
}
