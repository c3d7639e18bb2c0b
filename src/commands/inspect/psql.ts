/**
 * `intake-sync psql`: SQL on the warehouse, with psql where it is installed, else with a client of our own.
 *
 * Invariant: the password is in no argument of a process and in no output. `--as` sets the role before the first
 * statement, so that privileges and row level security are those of the role, whoever the login is.
 */
import { spawn } from 'node:child_process'
import { Command, Option } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { type IntakeError, UsageError } from '../../core/errors.ts'
import { openSession } from '../../warehouse/connect.ts'
import { type Context, ExitCode, requireWarehouse } from '../context.ts'
import { READERS, type Reader, takeRole } from '../reader.ts'
import type { Keyboard } from '../terminal.ts'
import { runStatements, statementsOf, type Target } from './own-psql.ts'

interface Options {
  readonly as?: Reader
  readonly command?: readonly string[]
  readonly json?: true
}

export function psqlCommand(context: Context, keyboard: () => Keyboard = () => process.stdin): Command {
  const readers = Object.keys(READERS)
  return new Command('psql')
    .description('open psql on the warehouse, the embedded one included')
    .argument('[arguments...]', 'after --: arguments of psql')
    .addOption(new Option('--as <reader>', 'with the role of this reader only').choices(readers))
    .option(
      '-c, --command <sql>',
      'run this and end; may be repeated',
      (sql: string, before: readonly string[] = []) => [...before, sql],
    )
    .option('--json', 'print the results as one JSON document; needs --command or SQL on standard input')
    .addHelpText('after', HELP)
    .action((words: readonly string[], options: Options) => run(context, keyboard, words, options))
}

const HELP = `
Tables are found without their schema: those of intake, or with --as analyst the
views of intake_analytics. An embedded warehouse runs for as long as psql does.

Where psql is not installed, SQL of --command or of standard input is run all
the same, and its results are printed as tables.

Without psql, with --json, and with psql off a terminal, the first statement
that fails ends the command with exit code 1.

Examples:
  intake-sync psql --as analyst
  intake-sync psql --as analyst -c 'select * from freshness'
  intake-sync psql -- --csv -c 'select * from patients' > patients.csv`

async function run(
  context: Context,
  keyboard: () => Keyboard,
  words: readonly string[],
  options: Options,
): Promise<void> {
  const asked = options.command ?? []
  if (options.json && words.length > 0)
    throw new UsageError(
      '--json is not for arguments of psql',
      'leave out one of the two; psql has --csv',
      '--json',
    )
  if (options.json && asked.length === 0 && keyboard().isTTY === true)
    throw new UsageError('--json needs SQL', 'add --command SQL, or send SQL to standard input', '--json')
  const config = readConfig(context.env)
  await using warehouse = await requireWarehouse(context, config)
  await requireMigrated(warehouse.url).catch((error: IntakeError) => {
    // The login of a reader may not see which migrations were applied.
    if (error.code !== 'privilege') throw error
  })
  const path = options.as === undefined ? 'intake' : READERS[options.as].path
  const settings = [`-c search_path=${path.replaceAll(' ', '')},public`]
  if (options.as !== undefined) {
    await using session = await openSession({ url: warehouse.url, purpose: 'psql' })
    if (await takeRole(context, session, options.as)) settings.push(`-c role=${READERS[options.as].role}`)
  }
  const target = { url: warehouse.url, settings, as: options.as }
  const batch = asked.length > 0 || keyboard().isTTY !== true
  if (
    !options.json &&
    (await ranPsql(context, target, batch, [...asked.flatMap((sql) => ['-c', sql]), ...words]))
  )
    return
  if (words.length > 0) throw notInstalled()
  const typed = asked.length > 0 ? asked : statementsOf(context, keyboard())
  await runStatements(context, target, typed, { json: options.json === true, batch })
}

interface Opened extends Target {
  readonly as: Reader | undefined
}
/** False where psql is not installed. */
async function ranPsql(
  context: Context,
  { url, settings, as }: Opened,
  batch: boolean,
  words: readonly string[],
): Promise<boolean> {
  const place = placeOf(url)
  const given = [place.options, context.env.PGOPTIONS].filter(Boolean)
  const env = {
    ...context.env,
    ...(place.password === null ? {} : { PGPASSWORD: place.password }),
    PGAPPNAME: 'intake-sync psql',
    PGOPTIONS: [...given, ...settings].join(' '),
  }
  const own = [
    ...(batch ? ['-v', 'ON_ERROR_STOP=1'] : []),
    ...(as === undefined ? [] : ['-v', `PROMPT1=%/ as ${as}%R%x%# `]),
  ]
  // Ctrl-C is for psql, which cancels a statement; it must not end the process that keeps the warehouse running. There
  // is always a listener: without one, the signal would end this process.
  const listeners = process.listeners('SIGINT') as NodeJS.SignalsListener[]
  const ignore = () => {}
  process.on('SIGINT', ignore)
  for (const listener of listeners) process.off('SIGINT', listener)
  const over = new AbortController()
  try {
    const child = spawn('psql', [...own, ...words, '-d', place.url], { env, stdio: 'inherit' })
    const end = () => void child.kill('SIGTERM')
    context.signal.addEventListener('abort', end, { once: true, signal: over.signal })
    const code = await new Promise<number | null | 'missing'>((resolve, reject) => {
      child.once('exit', resolve)
      child.once('error', (error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT' || error.code === 'EACCES') resolve('missing')
        else reject(error)
      })
    })
    if (code === 'missing') return false
    context.signal.throwIfAborted()
    if (code !== 0) throw new ExitCode(1)
    return true
  } finally {
    over.abort()
    for (const listener of listeners) process.on('SIGINT', listener)
    process.off('SIGINT', ignore)
  }
}

function notInstalled(): UsageError {
  return new UsageError(
    'psql is not installed, and only psql understands the arguments after --',
    'install the Postgres client, or use --command',
    '--',
  )
}

/** Parameters that psql knows; the rest are for the library with which commands connect. */
const OF_PSQL =
  /^(?:host|hostaddr|port|dbname|user|passfile|connect_timeout|client_encoding|keepalives\w*|tcp_user_timeout|ssl(?:mode|rootcert|cert|key|crl|negotiation)|target_session_attrs|channel_binding|gss\w+|require_auth)$/

/** Separates what no process list may show, and what psql takes from elsewhere, from a connection string. */
export function placeOf(url: string): { url: string; password: string | null; options: string } {
  const [, scheme = '', userinfo = '', rest = ''] = /^(\w+:\/\/)(?:([^@/?]*)@)?(.*)$/s.exec(url)!
  const [user = '', ...secret] = userinfo.split(':')
  const [address, query = ''] = rest.split(/\?(.*)/s)
  const parameters = new URLSearchParams(query)
  const known = [...parameters].filter(([name]) => OF_PSQL.test(name))
  if (parameters.get('ssl') === 'true' && !parameters.has('sslmode')) known.push(['sslmode', 'require'])
  const text = known
    .map(([name, value]) => `${name}=${encodeURIComponent(value === 'no-verify' ? 'require' : value)}`)
    .join('&')
  return {
    url: `${scheme}${user === '' ? '' : `${user}@`}${address}${text === '' ? '' : `?${text}`}`,
    password:
      parameters.get('password') ?? (secret.length === 0 ? null : decodeURIComponent(secret.join(':'))),
    options: parameters.getAll('options').join(' '),
  }
}
