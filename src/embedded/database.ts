/**
 * The database `intake` on the embedded server.
 *
 * Invariant: the server on the port is the one of this home: another server has neither its password nor its data
 * directory.
 */
import { realpathSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { IntakeError } from '../core/errors.ts'
import type { Home } from './home.ts'
import { ROLE } from './initialise.ts'

const DATABASE = 'intake'
/** SQLSTATEs of losing a race for the same `create database`. */
const DATABASE_EXISTS = new Set(['42P04', '23505'])
/** Starting up or shutting down, or not listening. */
const MAY_PASS = new Set(['57P01', '57P02', '57P03', 'ECONNREFUSED', 'ECONNRESET'])
const CONNECT_MILLISECONDS = 10_000

export function databaseUrl(port: number, password: string, database: string = DATABASE): string {
  return `postgres://${ROLE}:${password}@127.0.0.1:${port}/${database}`
}

/** Makes the database unless it is there, and checks that the server is the one of `home`. */
export async function ensureDatabase(port: number, password: string, home: Home): Promise<void> {
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
    code: 'embedded_stranger',
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
