/** A Postgres for one test, which can be stopped, hung and restarted. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { migrate } from '../../../src/analytics/migrate.ts'
import { cleanUp, openEmbedded, postmasterOf, temporaryDirectory } from '../../support/embedded-fixture.ts'
import { freePort } from '../../support/free-port.ts'

export interface OwnServer extends AsyncDisposable {
  readonly url: string
  /** Like `pg_ctl stop -m immediate`, without notice to clients; its supervisor restarts it, with recovery. */
  kill(): void
  stop(): Promise<void>
  start(): Promise<void>
  /** Suspends every process of it; the result resumes them. */
  hang(): () => void
}

export async function openOwnServer(): Promise<OwnServer> {
  const directory = temporaryDirectory()
  // Its port stays reserved while it is stopped.
  writeFileSync(join(directory, 'port'), String(await freePort()))
  let server = await openEmbedded({ dataDir: directory, unsafe: true })
  await migrate(server.url)
  const { url, directory: home } = server
  const childrenOf = (pid: number) =>
    spawnSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' })
      .stdout.split('\n')
      .map(Number)
      .filter((each) => each > 0)
  /** The first of them starts no other while it is suspended; the second look finds what it was just starting. */
  const signal = (name: NodeJS.Signals) => {
    const postmaster = postmasterOf(home)
    process.kill(postmaster, name)
    for (const pid of [...childrenOf(postmaster), ...childrenOf(postmaster)]) sendIfThere(pid, name)
  }
  return {
    url,
    kill: () => void process.kill(postmasterOf(home), 'SIGQUIT'),
    stop: () => server.stop(),
    async start() {
      server = await openEmbedded({ dataDir: directory, unsafe: true })
      if (server.url !== url) throw new Error('the server came back at another address')
    },
    hang() {
      signal('SIGSTOP')
      return () => signal('SIGCONT')
    },
    async [Symbol.asyncDispose]() {
      await server.stop()
      await cleanUp()
    },
  }
}

/** A session may end at any moment. */
function sendIfThere(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
