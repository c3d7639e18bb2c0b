/**
 * Logins of a test on the shared server, and what they can see.
 *
 * Invariant: a login is dropped when the test file ends; its name is unique.
 */
import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { connect, query } from '../e2e/support/scene.ts'
import { whenFileEnds } from '../support/when-file-ends.ts'

const made: { url: string; name: string }[] = []

whenFileEnds(async () => {
  for (const { url, name } of made.splice(0)) {
    const server = new URL(url)
    server.pathname = '/postgres'
    await query(server.href, `drop role if exists ${name}`)
  }
})

export interface Login {
  readonly name: string
  readonly url: string
  rows<Row extends object = Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]>
  /** The SQLSTATE with which each statement ends, each on its own; null if it succeeds. */
  endings(statements: readonly string[]): Promise<(string | null)[]>
  /** All error messages of the failing statements. */
  errors(statements: readonly string[]): Promise<string[]>
}

/** A login with these roles only. */
export async function makeLogin(url: string, ...roles: readonly string[]): Promise<Login> {
  const name = `intake_test_${randomBytes(6).toString('hex')}`
  await query(url, `create role ${name} login password 'p' in role ${roles.join(', ')}`)
  made.push({ url, name })
  const own = new URL(url)
  Object.assign(own, { username: name, password: 'p' })
  const failures = async (statements: readonly string[]) => {
    const client = await connect(own.href)
    try {
      const ends: (pg.DatabaseError | null)[] = []
      for (const statement of statements) ends.push(await client.query(statement).then(() => null, asItIs))
      return ends
    } finally {
      await client.end()
    }
  }
  return {
    name,
    url: own.href,
    rows: (text, values) => query(own.href, text, values),
    endings: async (statements) => (await failures(statements)).map((end) => end && String(end.code)),
    errors: async (statements) =>
      (await failures(statements)).flatMap((end) =>
        end === null ? [] : [JSON.stringify({ ...end, message: end.message })],
      ),
  }
}

const asItIs = (error: pg.DatabaseError) => error

/** Everything that a schema's views and tables show to a login, one line per row. */
export async function everything(login: Pick<Login, 'rows'>, schema: string): Promise<string> {
  const relations = await login.rows<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = $1 and c.relkind in ('r', 'v', 'm', 'p') order by 1`,
    [schema],
  )
  const lines: string[] = []
  for (const { name } of relations) {
    const rows = await login.rows<{ line: string }>(`select to_jsonb(x)::text as line from ${name} x`)
    lines.push(...rows.map(({ line }) => `${name} ${line}`))
  }
  return lines.join('\n')
}
