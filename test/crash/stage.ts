/**
 * A durable Postgres that restarts by itself, a folder and free ports. Leaves nothing behind.
 *
 * Invariant: its address stays the same, also after a restart.
 */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openEmbedded, postmasterOf } from '../support/embedded-fixture.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { freePort } from '../support/free-port.ts'

export interface Stage extends AsyncDisposable {
  readonly url: string
  readonly postmaster: () => number
  /** Stops it; the result starts it again. */
  leave(): Promise<() => Promise<void>>
  readonly folder: string
  readonly ports: readonly number[]
}

export async function openStage(): Promise<Stage> {
  const place = makeFolder('crash-')
  // When run by root, the server is another user, who must be able to enter the folder.
  chmodSync(place, 0o711)
  const folder = join(place, 'work')
  mkdirSync(folder)
  const dataDir = join(place, 'data')
  mkdirSync(dataDir)
  // Its port stays reserved while it is stopped.
  writeFileSync(join(dataDir, 'port'), String(await freePort()))
  let server = await openEmbedded({ dataDir })
  const { url, directory } = server
  const start = async () => {
    server = await openEmbedded({ dataDir })
    if (server.url !== url) throw new Error('the server came back at another address')
  }
  return {
    url,
    postmaster: () => postmasterOf(directory),
    async leave() {
      await server.stop()
      return start
    },
    folder,
    ports: [await freePort(), await freePort()],
    [Symbol.asyncDispose]: async () => {
      await server.stop()
      removeFolder(place)
    },
  }
}
