/**
 * A Postgres of a given version, from installed programs, for the duration of a test run.
 *
 * Invariant: it listens on loopback only, need not be durable, and `close` leaves no process and no file.
 */
import { spawnSync } from 'node:child_process'
import { chownSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { findServerUser } from '../../src/embedded/home.ts'
import { freePort } from '../../src/embedded/start-server.ts'

/** `programs`: the folder of `initdb` and `pg_ctl`. `folder`: one that does not exist yet. */
export async function startPostgres(
  programs: string,
  folder: string,
): Promise<{ readonly url: string; close(): void }> {
  const user = await findServerUser([])
  const port = await freePort(undefined)
  mkdirSync(folder, { mode: 0o700 })
  if (user !== undefined) chownSync(folder, user.uid, user.gid)
  const data = join(folder, 'data')
  const run = (program: string, ...parameters: string[]) => {
    const { status, stderr } = spawnSync(join(programs, program), parameters, {
      ...{ cwd: '/', encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] },
      ...(user === undefined ? {} : { uid: user.uid, gid: user.gid }),
    })
    if (status !== 0) throw new Error(`${program} failed: ${stderr}`)
  }
  run('initdb', '-D', data, '-U', 'tests', '--auth=trust', '--encoding=UTF8', '--locale=C', '--no-sync')
  const settings = ['fsync=off', 'full_page_writes=off', 'max_connections=200']
  const options = [`-p ${port}`, '-h 127.0.0.1', "-k ''", ...settings.map((each) => `-c ${each}`)].join(' ')
  run('pg_ctl', '-D', data, '-l', join(folder, 'log'), '-w', '-o', options, 'start')
  return {
    url: `postgres://tests@127.0.0.1:${port}/postgres`,
    close() {
      run('pg_ctl', '-D', data, '-m', 'fast', '-w', 'stop')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
