/** A Postgres for one test, which can be stopped, hung and restarted. */
import { execFileSync } from 'node:child_process'
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
  const signal = (name: NodeJS.Signals) => {
    const postmaster = postmasterOf(home)
    const children = execFileSync('ps', ['-o', 'pid=', '--ppid', String(postmaster)], { encoding: 'utf8' })
    for (const pid of [
      postmaster,
      ...children
        .split('\n')
        .map(Number)
        .filter((each) => each > 0),
    ]) {
      process.kill(pid, name)
    }
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
