/**
 * What a command is given: the world outside it. Built once in cli.ts; a test builds its own.
 *
 * Invariant: stdout holds results only, stderr logs, progress and errors; a reader that goes away stops neither.
 */
import pino, { type Logger } from 'pino'
import { prettyFactory } from 'pino-pretty'
import type { Config } from '../config/config.ts'
import { openEmbedded } from '../embedded/server.ts'

export interface Context {
  readonly env: NodeJS.ProcessEnv
  readonly stdout: Output
  readonly stderr: Output
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly signal: AbortSignal
  readonly version: string
}

export interface Output {
  /** Bytes go out as they are. */
  write(text: string | Uint8Array): unknown
  readonly isTTY?: boolean
  readonly columns?: number
}

/** Ends a command with an exit code that is no failure of its own: 3, 4, 130 … */
export class ExitCode extends Error {
  readonly exitCode: number

  constructor(exitCode: number) {
    super(`exit ${exitCode}`)
    this.exitCode = exitCode
  }
}

export function openLogger({ stderr }: Pick<Context, 'stderr'>, config: Config): Logger {
  const options = { level: config.logLevel, base: null }
  if (stderr.isTTY !== true) return pino(options, { write: (line) => void stderr.write(line) })
  const readable = prettyFactory({ colorize: true, singleLine: true, translateTime: 'HH:MM:ss' })
  return pino(options, { write: (line) => void stderr.write(readable(line)) })
}

export interface OpenWarehouse extends AsyncDisposable {
  readonly url: string
  /** "embedded" or "DATABASE_URL": where it is, without saying how to get in. */
  readonly kind: 'embedded' | 'DATABASE_URL'
}

/** The warehouse of the configuration; the embedded server stops when its last user is done. */
export async function openWarehouse(context: Context, config: Config): Promise<OpenWarehouse> {
  if (config.databaseUrl !== null) {
    return { url: config.databaseUrl, kind: 'DATABASE_URL', [Symbol.asyncDispose]: async () => {} }
  }
  const onNotice = (line: string) => void context.stderr.write(`${line}\n`)
  const server = await openEmbedded({ dataDir: config.dataDir, onNotice })
  return { url: server.url, kind: 'embedded', [Symbol.asyncDispose]: () => server.stop() }
}

/** Writes the one JSON document of `--json`. */
export function printJson(context: Context, document: unknown): void {
  context.stdout.write(`${JSON.stringify(document, null, 2)}\n`)
}
