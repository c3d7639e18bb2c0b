/**
 * The environment of a command: variables, output, signal, warehouse, the client of one team. cli.ts builds it once; a
 * test builds its own.
 *
 * Invariant: stdout carries results only; stderr carries logs, progress and errors. A closed pipe stops neither.
 */
import { existsSync } from 'node:fs'
import pino, { type Logger } from 'pino'
import { prettyFactory } from 'pino-pretty'
import { type Answer, type Client, type ClientOptions, openClient } from '../api/client.ts'
import { type Config, requireTeams, type TeamConfig } from '../config/config.ts'
import type { EnvFile } from '../config/settings.ts'
import { systemClock } from '../core/clock.ts'
import { IntakeError } from '../core/errors.ts'
import { isObject, parseJson } from '../core/json.ts'
import { selectTeam } from '../core/which-team.ts'
import { openEmbedded } from '../embedded/server.ts'
import { ENDPOINTS } from '../streams/catalogue.ts'
import { shown } from './printable.ts'

export interface Context {
  /** What the settings file adds included. */
  readonly env: NodeJS.ProcessEnv
  /** The settings file; null where there is none. */
  readonly envFile?: EnvFile | null
  readonly stdout: Output
  readonly stderr: Output
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal
  readonly version: string
}

export interface Output {
  /** Bytes are written unchanged. */
  write(text: string | Uint8Array): unknown
  readonly isTTY?: boolean
  readonly columns?: number
}

/** The first words of a command line. An installed package has its command in the path, and no Dockerfile. */
export const TYPED = existsSync(new URL('../../Dockerfile', import.meta.url))
  ? 'npx intake-sync'
  : 'intake-sync'

/** Ends a command with an exit code and no error message of its own: 3, 4, 130 … */
export class ExitCode extends Error {
  readonly exitCode: number

  constructor(exitCode: number) {
    super(`exit ${exitCode}`)
    this.exitCode = exitCode
  }
}

/** Ends a command whose work ended so; returns if there is nothing to report. */
export function exitAfter({ signal }: Context, status: Ended): void {
  if (status === 'succeeded') return
  if (status === 'interrupted') throw new ExitCode(signal.reason === 'SIGTERM' ? 143 : 130)
  throw new ExitCode(status === 'failed' ? 1 : 4)
}

type Ended = 'succeeded' | 'failed' | 'needs_attention' | 'interrupted'

export function openLogger({ stderr }: Pick<Context, 'stderr'>, config: Config): Logger {
  const options = { level: config.logLevel, base: null }
  if (stderr.isTTY !== true) return pino(options, { write: (line) => void stderr.write(line) })
  const readable = prettyFactory({ colorize: true, singleLine: true, translateTime: 'HH:MM:ss' })
  return pino(options, { write: (line) => void stderr.write(readable(line)) })
}

export interface OpenWarehouse extends AsyncDisposable {
  readonly url: string
}

/** Opens the configured warehouse. The embedded server stops when its last user disposes of it. */
export async function openWarehouse(context: Context, config: Config): Promise<OpenWarehouse> {
  if (config.databaseUrl !== null) {
    return { url: config.databaseUrl, [Symbol.asyncDispose]: async () => {} }
  }
  const onNotice = (line: string) => void context.stderr.write(`${line}\n`)
  const server = await openEmbedded({ dataDir: config.dataDir, onNotice })
  return { url: server.url, [Symbol.asyncDispose]: () => server.stop() }
}

/** Throws `no_warehouse` where opening would create an embedded server. For commands that only read. */
export async function requireWarehouse(context: Context, config: Config): Promise<OpenWarehouse> {
  const { databaseUrl, dataDir } = config
  if (databaseUrl !== null || existsSync(dataDir)) return openWarehouse(context, config)
  const demo = `${dataDir}-demo`
  const orDemo = existsSync(demo) ? `; for that of the demo, set INTAKE_DATA_DIR=${demo}` : ''
  throw new IntakeError(`there is no warehouse yet: DATABASE_URL is not set, and ${dataDir} does not exist`, {
    code: 'no_warehouse',
    verdict: 'stop',
    hint: `set DATABASE_URL or INTAKE_DATA_DIR, or create it with intake-sync backfill${orDemo}`,
  })
}

/** Writes the one JSON document of `--json`. */
export function printJson(context: Context, document: unknown): void {
  context.stdout.write(`${JSON.stringify(document, null, 2)}\n`)
}

/** The team that `--team` names, or the only one; never picks one of several. Throws `UsageError`. */
export function oneTeam(config: Config, name: string | undefined): TeamConfig {
  return selectTeam(requireTeams(config, name), name, 'configuration')
}

/** Opens a client that the command's signal aborts, unless `own` has another signal. */
export function openService(
  context: Context,
  config: Config,
  team: TeamConfig,
  own: Partial<ClientOptions> = {},
): Client {
  const { name: _name, webhookSecrets: _secrets, timezone: _zone, ...connection } = team
  return openClient({
    ...connection,
    endpoints: ENDPOINTS,
    clock: systemClock,
    random: Math.random,
    logger: openLogger(context, config),
    signal: context.signal,
    version: context.version,
    ...own,
  })
}

/**
 * The service's explanation of a refusal (`detail`) in one line, or null if the body is not JSON or has no explanation. It
 * may quote health data, so it goes to stdout only.
 */
export function detailOf(refusal: Answer): string | null {
  try {
    const { value } = parseJson(refusal.body as Uint8Array)
    return shown(isObject(value) ? (value.detail ?? value) : value) || null
  } catch {
    return null
  }
}
