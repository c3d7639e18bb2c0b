/**
 * The embedded Postgres: the warehouse when DATABASE_URL is not set.
 *
 * Invariant: whatever was killed before (a command, the supervisor, Postgres, a first set-up halfway), opening leads
 * to the same data, running once. Several processes may use one server; it stops with the last of them, however that
 * one ends.
 *
 *   openEmbedded ──► home: where the files are ──► attach to the supervisor ──► url
 *                                                     │ none: under the lock,
 *                                                     └► binaries, first set-up, start the supervisor
 */
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { IntakeError } from '../core/errors.ts'
import { prepareBinaries } from './binaries.ts'
import { findHome, type Home } from './home.ts'
import { initialise, ROLE, readPassword } from './initialise.ts'
import { withLock } from './process-identity.ts'
import { type Attachment, attach, notStarted, readAddress, startSupervisor } from './supervise.ts'

export interface EmbeddedOptions {
  /** INTAKE_DATA_DIR; made when it is missing. */
  readonly dataDir: string
  /** Called with one line for the user; never a secret. */
  readonly onNotice?: (line: string) => void
  /** For tests: fast, and need not survive a power cut. */
  readonly unsafe?: boolean
}

export interface EmbeddedServer {
  /** Holds the password: for a pool, never for a log. */
  readonly url: string
  /** Where the server's files are: the data directory, or what its pointer names. */
  readonly directory: string
  /** Detaches. Once it resolves, the server has stopped unless other processes use it. */
  stop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

const LOCK_TIMEOUT_MILLISECONDS = 300_000
/** Another process started the server while we waited, or it is just ending. */
const SHORT_MILLISECONDS = 20
const LEAVE_ATTEMPTS = 3
/** Supervisors that are killed while they start before we give up. */
const KILLED_ATTEMPTS = 10
const SLOW_MILLISECONDS = 5_000

/** Starts the server of `dataDir`, or joins the one that runs. Throws `UsageError` where none can run. */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const onNotice = options.onNotice ?? (() => undefined)
  const home = await findHome(options.dataDir, onNotice)
  const enter = () => use(home, options.unsafe ?? false, onNotice)
  let attachment = await enter()
  let stopping: Promise<void> | undefined
  /** Settles when we use the server again under another supervisor, or cannot. */
  let returning: Promise<void> = Promise.resolve()
  const stop = () => {
    // A reattachment finishes first: two attachments of one process would each expect the other to stay.
    stopping ??= returning.then(() => leave(attachment, enter))
    return stopping
  }
  const keep = () =>
    attachment.onLost(() => {
      if (stopping !== undefined) return
      // The supervisor was killed; another one takes the server over, which goes on running meanwhile.
      returning = enter().then(
        (next) => {
          attachment = next
          keep()
        },
        (error: Error) => onNotice(`the embedded Postgres was lost: ${error.message}`),
      )
    })
  keep()
  try {
    const password = await readPassword(home)
    await ensureDatabase(attachment.port, password, home)
    const url = databaseUrl(attachment.port, password)
    return { url, directory: home.directory, stop, [Symbol.asyncDispose]: stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function use(home: Home, unsafe: boolean, onNotice: (line: string) => void): Promise<Attachment> {
  const slow = setTimeout(() => {
    onNotice('the embedded Postgres is still starting, which takes longer the first time and after a crash')
  }, SLOW_MILLISECONDS)
  let killed = 0
  try {
    for (;;) {
      const attached = await attach(home)
      if (attached === 'failed') throw notStarted(home)
      if (attached !== 'none') return attached
      await withLock(join(home.directory, 'lock'), LOCK_TIMEOUT_MILLISECONDS, async () => {
        if ((await readAddress(home)) !== undefined) return sleep(SHORT_MILLISECONDS)
        const binaries = await prepareBinaries(home, onNotice)
        await initialise(home, binaries, unsafe)
        if ((await startSupervisor({ home, bin: binaries.bin, unsafe })) === 'started') return
        killed += 1
        if (killed === KILLED_ATTEMPTS) throw notStarted(home)
      })
    }
  } finally {
    clearTimeout(slow)
  }
}

/** Leaves; a supervisor that was killed meanwhile is replaced first, since the server it left must be stopped too. */
async function leave(attachment: Attachment, enter: () => Promise<Attachment>): Promise<void> {
  let current = attachment
  for (let attempt = 1; (await current.leave()) === 'lost'; attempt += 1) {
    if (attempt === LEAVE_ATTEMPTS) throw notStopped()
    current = await enter()
  }
}

function notStopped(): IntakeError {
  return new IntakeError('the embedded Postgres could not be stopped', {
    code: 'embedded_busy',
    verdict: 'stop',
    hint: 'The next command takes it over, and stops it at its end.',
  })
}

/**
 * The database `intake` on the embedded server.
 *
 * Invariant: the server on the port is the one of this home: another server has neither its password nor its data
 * directory.
 */
const DATABASE = 'intake'
/** SQLSTATEs of losing a race for the same `create database`. */
const DATABASE_EXISTS = new Set(['42P04', '23505'])
/** Starting up or shutting down, or not listening. */
const MAY_PASS = new Set(['57P01', '57P02', '57P03', 'ECONNREFUSED', 'ECONNRESET'])
const CONNECT_MILLISECONDS = 10_000

function databaseUrl(port: number, password: string, database: string = DATABASE): string {
  return `postgres://${ROLE}:${password}@127.0.0.1:${port}/${database}`
}

/** Makes the database unless it is there, and checks that the server is the one of `home`. */
async function ensureDatabase(port: number, password: string, home: Home): Promise<void> {
  await query(databaseUrl(port, password, 'postgres'), async (client) => {
    await checkPlace(home, client)
    const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [DATABASE])
    if (rowCount === 1) return
    await client.query(`create database ${DATABASE}`).catch((failure: unknown) => {
      if (!DATABASE_EXISTS.has(codeOf(failure))) throw failure
    })
  })
}

async function checkPlace(home: Home, client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ data_directory: string }>('show data_directory')
  const found = rows[0]!.data_directory
  if (realpathSync(found) === realpathSync(home.cluster)) return
  throw new IntakeError(`port ${client.port} is served from ${found}, not from ${home.cluster}`, {
    code: 'embedded_not_started',
    verdict: 'retry',
  })
}

async function query(url: string, action: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = await connect(url)
  try {
    await action(client)
  } finally {
    await client.end()
  }
}

/** The server was ready a moment ago; if it died since, the supervisor is starting it again. */
async function connect(url: string): Promise<pg.Client> {
  for (const deadline = Date.now() + CONNECT_MILLISECONDS; ; await sleep(100)) {
    const client = new pg.Client({ connectionString: url, application_name: 'intake-sync' })
    client.on('error', () => undefined)
    try {
      await client.connect()
      return client
    } catch (error) {
      if (!MAY_PASS.has(codeOf(error)) || Date.now() > deadline) throw error
    }
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
