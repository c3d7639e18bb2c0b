/**
 * The server's port: the one it had last time, so that a tool's saved connection goes on working, unless a stranger
 * took it.
 *
 * Invariant: loopback only. A port that was free may be taken the moment after; the caller starts again then.
 */
import { createServer } from 'node:net'

export async function freePort(preferred: number | undefined): Promise<number> {
  if (preferred !== undefined && (await listenOnce(preferred)) !== undefined) return preferred
  return (await listenOnce(0))!
}

/** Listens on `port` and stops at once; the port it got, or undefined when it is taken. */
function listenOnce(port: number): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (error) => (port === 0 ? reject(error) : resolve(undefined)))
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => {
      const address = server.address()
      const got = typeof address === 'object' && address !== null ? address.port : undefined
      server.close(() => resolve(got))
    })
  })
}
