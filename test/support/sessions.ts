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

whenFileEnds(async () => {
  for (const url of [...idle.keys()]) await forgetSessions(url)
})

/** From now on sessions of `url` are kept, until `forgetSessions`. */
export function keepSessions(url: string): void {
  if (!idle.has(url)) idle.set(url, [])
}

export async function forgetSessions(url: string): Promise<void> {
  const clients = idle.get(url) ?? []
  idle.delete(url)
  await Promise.all(clients.map((client) => client.end()))
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
