/**
 * Kept sessions for the tests' own queries: opening one costs ten times as much as most queries.
 *
 * Invariant: a session is handed out as new, without settings, locks or temporary tables of earlier use. None is left
 * when its database is dropped or the test file ends.
 */
import pg from 'pg'
import { whenFileEnds } from './when-file-ends.ts'

/** Idle sessions of each database that keeps them. */
const idle = new Map<string, pg.Client[]>()

/** A session of each database that keeps its statements, by text. */
const readers = new Map<string, Promise<{ client: pg.Client; names: Map<string, string> }>>()

whenFileEnds(async () => {
  for (const url of new Set([...idle.keys(), ...readers.keys()])) await forgetSessions(url)
})

/** From now on sessions of `url` are kept, until `forgetSessions`. */
export function keepSessions(url: string): void {
  if (!idle.has(url)) idle.set(url, [])
}

export async function forgetSessions(url: string): Promise<void> {
  const clients = idle.get(url) ?? []
  const reader = readers.get(url)
  idle.delete(url)
  readers.delete(url)
  await Promise.all([...clients.map((client) => client.end()), reader?.then(({ client }) => client.end())])
}

export async function withSession<Result>(
  url: string,
  action: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = idle.get(url)?.pop() ?? (await openTestSession(url))
  let kept = false
  try {
    const result = await action(client)
    if (idle.has(url)) {
      // Fails inside a transaction; the session is then closed.
      await client.query('discard all').then(
        () => {
          kept = idle.get(url)?.push(client) !== undefined
        },
        () => undefined,
      )
    }
    return result
  } finally {
    if (!kept) await client.end()
  }
}

/** A session that nobody else uses; the caller ends it. */
export async function openTestSession(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'the test itself',
    options: '-c timezone=UTC',
  })
  client.on('error', () => undefined)
  client.once('end', () => {
    const others = idle.get(url)
    const at = others?.indexOf(client) ?? -1
    if (at >= 0) others!.splice(at, 1)
  })
  await client.connect()
  return client
}

/** Runs one query in a session that may have been kept. */
export async function ask<Row extends object = Record<string, unknown>>(
  url: string,
  text: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  return await withSession(url, async (client) => (await client.query<Row>(text, [...values])).rows)
}

/** The rows of each statement, all on one snapshot. Statements have one parameter, an integer, and are planned once. */
export async function readPrepared<Row extends object>(
  url: string,
  texts: readonly string[],
  parameter: number,
): Promise<readonly Row[][]> {
  if (!readers.has(url)) readers.set(url, openReader(url))
  const { client, names } = await readers.get(url)!
  const added = texts.filter((text) => !names.has(text))
  // Named at once: another call may wait for this session too.
  for (const text of added) names.set(text, `reads_${names.size}`)
  await client.query(added.map((text) => `prepare ${names.get(text)} (int) as ${text}`).join('; '))
  const reads = texts.map((text) => `execute ${names.get(text)} (${parameter})`)
  const all = ['begin isolation level repeatable read read only', ...reads, 'commit'].join('; ')
  const results = (await client.query(all)) as unknown as readonly pg.QueryResult<Row>[]
  return results.slice(1, -1).map(({ rows }) => rows)
}

async function openReader(url: string) {
  const client = await openTestSession(url)
  await client.query('set plan_cache_mode = force_generic_plan')
  return { client, names: new Map<string, string>() }
}
