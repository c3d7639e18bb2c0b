/**
 * Postgres at the bridge: the programs of the embedded server, which itself listens on loopback alone.
 *
 * Invariant: the hosts reach it directly, so that it learns from its own keepalives that one of them is gone. It is durable.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, chmodSync, mkdirSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { prepareBinaries } from '../../src/embedded/binaries.ts'
import { findHome } from '../../src/embedded/home.ts'
import { initialise, ROLE, readPassword } from '../../src/embedded/initialise.ts'
import { serverEnvironment, settings } from '../../src/embedded/settings.ts'
import { query } from '../crash/query.ts'
import { BRIDGE } from './namespaces.ts'

const PORT = 5432
const PATIENCE_MS = 60_000

export interface BridgePostgres {
  readonly url: string
  /** Stops it without a checkpoint, ends its sessions, and starts it again. */
  restart(): Promise<void>
}

export async function openPostgres(folder: string): Promise<BridgePostgres> {
  const dataDir = join(folder, 'data')
  mkdirSync(dataDir)
  chmodSync(dataDir, 0o711)
  const home = await findHome(dataDir, () => {})
  const { bin, major } = await prepareBinaries(home, () => {})
  await initialise(home, { bin, major }, false)
  appendFileSync(join(home.cluster, 'pg_hba.conf'), 'host all all 10.77.0.0/24 scram-sha-256\n')
  const parameters = {
    ...settings(PORT, false),
    listen_addresses: `127.0.0.1,${BRIDGE}`,
    max_connections: '300',
  }
  const words = Object.entries(parameters).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const log = openSync(join(folder, 'postgres.log'), 'a')
  const password = await readPassword(home)
  const urlOf = (database: string) => `postgres://${ROLE}:${password}@${BRIDGE}:${PORT}/${database}`

  async function start(): Promise<ChildProcess> {
    const child = spawn(join(bin, 'postgres'), ['-D', home.cluster, ...words], {
      cwd: home.cluster,
      env: serverEnvironment(),
      stdio: ['ignore', log, log],
      ...(home.user === undefined ? {} : { uid: home.user.uid, gid: home.user.gid }),
    })
    for (const end = Date.now() + PATIENCE_MS; ; await sleep(50)) {
      try {
        await query(urlOf('postgres'), 'select 1')
        return child
      } catch (error) {
        if (Date.now() > end || child.exitCode !== null) throw error
      }
    }
  }

  let server = await start()
  await query(urlOf('postgres'), 'create database intake')
  return {
    url: urlOf('intake'),
    async restart() {
      const ended = once(server, 'exit')
      server.kill('SIGQUIT')
      await ended
      server = await start()
    },
  }
}
