/**
 * The Postgres of a test run: the server that TEST_DATABASE_URL names, or a container if Docker answers, or else the
 * embedded server in a temporary directory.
 *
 * Invariant: `close` leaves nothing behind; without Docker, looking for it costs at most a second.
 */

import { accessSync, chmodSync, constants, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { tmpdir } from 'node:os'
import pg from 'pg'
import { openEmbedded } from '../../src/embedded/server.ts'
import { makeFolder, removeForgotten } from './folders.ts'

export interface TestServer {
  /** Contains a password: do not log it. */
  readonly url: string
  readonly description: string
  /** How to create databases cheaply: file_copy needs a checkpoint, which is free where nothing must be durable. */
  readonly strategy: 'wal_log' | 'file_copy'
  close(): Promise<void>
}

export async function openTestServer(): Promise<TestServer> {
  const named = process.env.TEST_DATABASE_URL
  if (named !== undefined && named !== '') {
    const description = 'the Postgres of TEST_DATABASE_URL'
    return { url: named, description, strategy: 'wal_log', close: async () => undefined }
  }
  return ((await dockerAnswers()) && (await openContainer())) || openTemporary()
}

/** Asks the socket of the daemon; the command-line client need not be installed. */
function dockerAnswers(): Promise<boolean> {
  const host = process.env.DOCKER_HOST ?? 'unix:///var/run/docker.sock'
  const address = host.startsWith('unix://')
    ? { socketPath: host.slice('unix://'.length) }
    : { host: hostOf(host)?.hostname ?? 'localhost', port: hostOf(host)?.port || 2375 }
  return new Promise((resolve) => {
    const request = get({ ...address, path: '/_ping', timeout: 1_000 }, (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    request.once('error', () => resolve(false))
    request.once('timeout', () => request.destroy())
  })
}

function hostOf(host: string): URL | undefined {
  return URL.canParse(host) ? new URL(host) : undefined
}

/** False when Docker answers but cannot pull the image, for example without a network. */
async function openContainer(): Promise<TestServer | false> {
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql')
  const parameters = ['fsync=off', 'synchronous_commit=off', 'full_page_writes=off', 'max_wal_size=2GB']
  try {
    const container = await new PostgreSqlContainer('postgres:18')
      .withCommand(['postgres', ...parameters.flatMap((parameter) => ['-c', parameter])])
      .start()
    return {
      url: container.getConnectionUri(),
      description: 'a container of postgres:18',
      strategy: 'file_copy',
      close: async () => {
        await container.stop()
      },
    }
  } catch {
    process.stdout.write('Docker answers, but did not start postgres:18\n')
    return false
  }
}

/** Hundreds of databases are created and dropped: uses memory if there is room, because none must be durable. */
const MEMORY = '/dev/shm'
const ROOM = 3 * 2 ** 30

export function temporaryPlace(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY)
    accessSync(MEMORY, constants.W_OK)
    return bavail * bsize > ROOM ? MEMORY : tmpdir()
  } catch {
    return tmpdir()
  }
}

async function openTemporary(): Promise<TestServer> {
  const place = temporaryPlace()
  for (const each of new Set([place, tmpdir()])) removeForgotten(each)
  const directory = makeFolder('', place)
  // When run by root, the server is another user, who must be able to enter the folder.
  chmodSync(directory, 0o711)
  const server = await openEmbedded({ dataDir: directory, unsafe: true })
  await easeLogin(server.url)
  return {
    url: server.url,
    description: `the embedded Postgres in ${server.directory}`,
    strategy: 'file_copy',
    close: async () => {
      await server.stop()
      for (const path of [server.directory, directory]) rmSync(path, { recursive: true, force: true })
    },
  }
}

/**
 * Thousands of sessions are opened, and the exchange of a strong password takes a third of each: passwords are still
 * checked, but sent as they are.
 */
async function easeLogin(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, application_name: 'intake-sync tests' })
  await client.connect()
  try {
    const { username, password } = new URL(url)
    await client.query('alter system set scram_iterations = 1')
    await client.query('set scram_iterations = 1')
    await client.query(
      `alter role ${client.escapeIdentifier(username)} password ${client.escapeLiteral(decodeURIComponent(password))}`,
    )
    const { rows } = await client.query<{ hba_file: string }>('show hba_file')
    writeFileSync(rows[0]!.hba_file, 'host all all 127.0.0.1/32 password\n')
    await client.query('select pg_reload_conf()')
  } finally {
    await client.end()
  }
}
