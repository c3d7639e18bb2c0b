/**
 * One Postgres for a whole test run, and on it one migrated template database that tests clone (database.ts). With
 * TEST_PARTITIONS, its large tables have so many partitions.
 *
 * Invariant: whichever server was chosen, the run leaves no process, port, file or database behind. Leftovers of a
 * killed run in the temporary directory are removed by the next run.
 */

import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { migrate } from '../../src/analytics/migrate.ts'
import { partition } from './partition.ts'
import { openTestServer } from './server.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    testServer: TestServerAddress
  }
}

export interface TestServerAddress {
  /** A database on the server from which others are created. */
  readonly url: string
  /** The migrated database that is cloned. */
  readonly template: string
  /** Prefix of this run's databases, so that those of a crashed test can be found. */
  readonly prefix: string
  /** The cloning strategy. */
  readonly strategy: 'wal_log' | 'file_copy'
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await openTestServer()
  process.stdout.write(`tests use ${server.description}, Postgres ${await versionOf(server.url)}\n`)
  const prefix = `intake_test_${randomBytes(4).toString('hex')}_`
  const template = `${prefix}template`
  const close = async () => {
    await withClient(server.url, (client) => dropAll(client, prefix))
    await server.close()
  }
  try {
    await withClient(server.url, (client) =>
      client.query(`create database ${template} encoding 'UTF8' template template0`),
    )
    const url = new URL(server.url)
    url.pathname = `/${template}`
    await migrate(url.href)
    const { TEST_PARTITIONS: partitions } = process.env
    if (partitions !== undefined) {
      await withClient(url.href, (client) => partition(client, Number(partitions)))
      await migrate(url.href)
    }
  } catch (error) {
    await close().catch(() => undefined)
    throw error
  }
  project.provide('testServer', { url: server.url, template, prefix, strategy: server.strategy })
  return close
}

async function versionOf(url: string): Promise<string> {
  const answer = (client: pg.Client) => client.query<{ server_version: string }>('show server_version')
  return (await withClient(url, answer)).rows[0]!.server_version
}

async function dropAll(client: pg.Client, prefix: string): Promise<void> {
  const { rows } = await client.query<{ datname: string }>(
    'select datname from pg_database where starts_with(datname, $1)',
    [prefix],
  )
  for (const { datname } of rows) await client.query(`drop database if exists ${datname} with (force)`)
}

async function withClient<T>(url: string, action: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url, application_name: 'intake-sync tests' })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await action(client)
  } finally {
    await client.end()
  }
}
