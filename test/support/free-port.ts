import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** Below the range from which systems assign ports, so that no other process receives the port before it is used. */
export async function freePort(): Promise<number> {
  const port = randomInt(12_000, 21_000)
  const server = createServer()
  const isFree = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
  })
  if (!isFree) return freePort()
  await new Promise((done) => server.close(done))
  return port
}
