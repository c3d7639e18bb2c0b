/** A durable Postgres of its own that comes back by itself, a folder and free ports. Leaves nothing behind. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openEmbedded, postmasterOf } from '../support/embedded-fixture.ts'

export interface Stage extends AsyncDisposable {
  readonly url: string
  readonly postmaster: () => number
  readonly folder: string
  readonly ports: readonly number[]
}

export async function openStage(): Promise<Stage> {
  const place = mkdtempSync(join(tmpdir(), `intake-sync-crash-${process.pid}-`))
  // Run by root, the server is another user, who must be able to pass through.
  chmodSync(place, 0o711)
  const folder = join(place, 'work')
  mkdirSync(folder)
  const server = await openEmbedded({ dataDir: join(place, 'data') })
  return {
    url: server.url,
    postmaster: () => postmasterOf(server.directory),
    folder,
    ports: [await freePort(), await freePort()],
    [Symbol.asyncDispose]: async () => {
      await server.stop()
      for (const path of [server.directory, place]) rmSync(path, { recursive: true, force: true })
    },
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}
