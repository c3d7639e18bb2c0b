import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** Below those that systems give to whoever asks for any: nobody is given it between our look and its use. */
export async function freePort(): Promise<number> {
  const port = randomInt(12_000, 21_000)
  const server = createServer()
  const isFree = await new Promise<boolean>((told) => {
    server.once('error', () => told(false)).listen(port, '127.0.0.1', () => told(true))
  })
  if (!isFree) return freePort()
  await new Promise((done) => server.close(done))
  return port
}
