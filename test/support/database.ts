/**
 * A fresh database for a test: a clone of the migrated template, or an empty one.
 *
 * Invariant: tests share nothing but the server's roles. A test whose code leaves a connection open fails, and the error
 * contains the application name of the connection.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { inject } from 'vitest'
import type {} from './global-setup.ts'
import { startOwnTime } from './own-time.ts'
import { forgetSessions, keepSessions, withSession } from './sessions.ts'

export interface TestDatabase {
  readonly url: string
  /** Removes the database. Throws, after removing it, when connections to it were left open. */
  drop(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** How long a connection may take to close after its client ended it. */
const GRACE_MILLISECONDS = 2_000
/** Advisory lock: one clone at a time, because Postgres allows no connection to a template meanwhile. Any number works. */
const TURN = 7_301_118

export async function createTestDatabase(
  options: { empty?: boolean; encoding?: string } = {},
): Promise<TestDatabase> {
  const { url: serverUrl, template, prefix, strategy } = inject('testServer')
  keepSessions(serverUrl)
  const name = `${prefix}${randomBytes(6).toString('hex')}`
  const source =
    options.empty === true
      ? options.encoding === undefined
        ? "encoding 'UTF8' template template0"
        : `encoding '${options.encoding}' locale_provider libc lc_collate 'C' lc_ctype 'C' template template0`
      : `template ${template} strategy ${strategy}`
  await withSession(serverUrl, async (client) => {
    await client.query('select pg_advisory_lock($1)', [TURN])
    await client.query(`create database ${name} ${source}`)
  })
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  keepSessions(url.href)
  let dropping: Promise<void> | undefined
  const drop = () => {
    dropping ??= forgetSessions(url.href).then(() =>
      withSession(serverUrl, (client) => dropDatabase(client, name)),
    )
    return dropping
  }
  return { url: url.href, drop, [Symbol.asyncDispose]: drop }
}

async function dropDatabase(client: pg.Client, name: string): Promise<void> {
  const left = await connectionsLeft(client, name)
  await client.query(`drop database if exists ${name} with (force)`)
  if (left.length === 0) return
  throw new Error(`the test left ${left.length} connection(s) to its database open: ${left.join('; ')}`)
}

/** Application names and states of the connections, never their statements. */
async function connectionsLeft(client: pg.Client, name: string): Promise<string[]> {
  using time = startOwnTime()
  for (;;) {
    const { rows } = await client.query<{ application_name: string; state: string }>(
      `select application_name, coalesce(state, '') as state from pg_stat_activity
       where datname = $1 and backend_type = 'client backend'`,
      [name],
    )
    if (rows.length === 0 || time.milliseconds > GRACE_MILLISECONDS) {
      return rows.map((row) => `${row.application_name || 'unnamed'} (${row.state})`)
    }
    await sleep(20)
  }
}
