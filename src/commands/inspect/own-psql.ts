/**
 * The client of `intake-sync psql` where psql is not installed, or JSON is wanted: runs SQL and prints its results.
 *
 * Invariant: errors are in Postgres's words, as in psql, since they are about the SQL that the user wrote.
 */
import { createInterface } from 'node:readline'
import pg from 'pg'
import { IntakeError, UsageError } from '../../core/errors.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { type Context, printJson } from '../context.ts'
import { printable } from '../printable.ts'
import type { Keyboard } from '../terminal.ts'
import { fittedTable } from '../terminal.ts'

export interface Target {
  readonly url: string
  /** Options of the session, as Postgres takes them. */
  readonly settings: readonly string[]
}

/** From a pipe, all of it at once; at a terminal, line by line until a line ends with a semicolon. */
export async function* statementsOf(context: Context, keyboard: Keyboard): AsyncGenerator<string> {
  const atTerminal = keyboard.isTTY === true
  if (atTerminal)
    context.stderr.write('psql is not installed. Type SQL; a line that ends with ; runs it, Ctrl-D ends.\n')
  const lines = createInterface({ input: keyboard, terminal: false })
  const end = () => lines.close()
  context.signal.addEventListener('abort', end, { once: true })
  let text = ''
  try {
    if (atTerminal) context.stderr.write('> ')
    for await (const line of lines) {
      text += `${line}\n`
      if (!atTerminal) continue
      if (/;\s*$/.test(text)) {
        yield text
        text = ''
      }
      context.stderr.write('> ')
    }
    context.signal.throwIfAborted()
    if (text.trim() !== '') yield text
  } finally {
    context.signal.removeEventListener('abort', end)
  }
}

interface Result {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly unknown[])[]
  readonly command: string
  readonly row_count: number | null
}

/** With `batch`, the first statement that fails ends the command; else its error is printed. */
export async function runStatements(
  context: Context,
  { url, settings }: Target,
  texts: readonly string[] | AsyncIterable<string>,
  { json, batch }: { readonly json: boolean; readonly batch: boolean },
): Promise<void> {
  const options = `options=${encodeURIComponent(settings.join(' '))}`
  await using session = await openSession({
    url: `${url}${url.includes('?') ? '&' : '?'}${options}`,
    purpose: 'psql',
  })
  let canceling: Promise<void> | undefined
  const pid = await pidOf(session)
  const cancel = () => {
    canceling = cancelStatement(url, pid).finally(() => session.client.end())
  }
  context.signal.addEventListener('abort', cancel, { once: true })
  const results: Result[] = []
  try {
    for await (const text of texts) {
      context.signal.throwIfAborted()
      try {
        const found = await queried(session.client, text, json)
        if (json) results.push(...found)
        else for (const result of found) context.stdout.write(resultText(context, result))
      } catch (error) {
        context.signal.throwIfAborted()
        if (!(error instanceof pg.DatabaseError)) throw warehouseError(error)
        if (batch) throw refused(error, text)
        context.stderr.write(`error: ${inWords(error, text)}\n`)
      }
    }
  } finally {
    context.signal.removeEventListener('abort', cancel)
    await canceling
  }
  if (json) printJson(context, { results })
}

/** As the server counts; a pooler may report another one when it connects. */
async function pidOf({ client }: Session): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  return rows[0]!.pid
}

/** Without it, the server goes on with a statement whose client has left. */
async function cancelStatement(url: string, pid: number): Promise<void> {
  try {
    await using session = await openSession({ url, purpose: 'psql', connectTimeoutMs: CANCEL_MS })
    await session.client.query('select pg_cancel_backend($1)', [pid])
  } catch {
    // Closing the connection is all that is left.
  }
}

const CANCEL_MS = 2_000

function inWords(error: pg.DatabaseError, text: string): string {
  return text.trimStart().startsWith('\\')
    ? 'commands that begin with \\ need psql'
    : printable(error.message)
}

function refused(error: pg.DatabaseError, text: string): IntakeError {
  return new IntakeError(inWords(error, text), {
    code: 'sql',
    verdict: 'stop',
    ...(error.hint === undefined ? {} : { hint: printable(error.hint) }),
  })
}

/** As JSON, numbers, booleans and JSON values are themselves; everything else is text as Postgres writes it. */
const AS_JSON: ReadonlySet<number> = new Set([16, 21, 23, 26, 114, 700, 701, 3802])

async function queried(client: pg.Client, text: string, json: boolean): Promise<readonly Result[]> {
  const types = {
    getTypeParser: (type: number) => (value: string) =>
      json && AS_JSON.has(type) ? (pg.types.getTypeParser(type)(value) as unknown) : value,
  }
  const answer = (await client.query({
    text,
    rowMode: 'array',
    types: types as pg.CustomTypesConfig,
  })) as pg.QueryArrayResult | pg.QueryArrayResult[]
  const answers = Array.isArray(answer) ? answer : [answer]
  if (answers.some(({ command }) => command === 'COPY')) throw new UsageError('COPY needs psql', 'use select')
  // An empty statement has no command.
  const results = answers.filter(({ command }) => command !== null)
  return results.map(({ fields, rows, command, rowCount }) => ({
    columns: fields.map(({ name }) => name),
    rows,
    command,
    row_count: rowCount,
  }))
}

function resultText(context: Context, { columns, rows, command, row_count }: Result): string {
  if (columns.length === 0) return `${[command, row_count].filter((part) => part !== null).join(' ')}\n`
  const cells = rows.map((row) => row.map((cell) => (cell === null ? '' : printable(String(cell)))))
  const count = `(${rows.length} row${rows.length === 1 ? '' : 's'})`
  return `${fittedTable(context, [columns, ...cells], columns.length - 1)}${count}\n\n`
}
