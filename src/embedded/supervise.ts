/**
 * Starts the supervisor (supervisor.ts) as a process of its own.
 *
 * Invariant: it outlives us, shares no terminal, no environment secret and no pipe with us, and works alike from the
 * built JavaScript and from the sources (where Node needs tsx to read it; what is published needs nothing).
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { extname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { IntakeError } from '../core/errors.ts'
import { readAddress } from './control.ts'
import type { Home } from './home.ts'
import { giveToOwnerOfDirectory } from './private-file.ts'
import { serverEnvironment } from './settings.ts'

/** Input of the supervisor, as JSON on its standard input. */
export interface Orders {
  readonly home: Home
  /** The directory of Postgres's programs. */
  readonly bin: string
  /** For tests: the data need not survive a power cut. */
  readonly unsafe: boolean
}

const RECENT_LINES = 20
const POLL_MILLISECONDS = 10

/**
 * `started`: clients can attach; the server may still be starting. `killed`: a signal ended it before that, and a new
 * attempt may succeed. Throws when it ended by itself.
 */
export async function startSupervisor(orders: Orders): Promise<'started' | 'killed'> {
  const suffix = extname(fileURLToPath(import.meta.url))
  const program = fileURLToPath(new URL(`./supervisor${suffix}`, import.meta.url))
  const logPath = join(orders.home.directory, 'supervisor.log')
  const log = openSync(logPath, 'w', 0o600)
  await giveToOwnerOfDirectory(logPath)
  const child = spawn(process.execPath, [...loader(suffix), program], {
    cwd: '/',
    detached: true,
    env: serverEnvironment(),
    stdio: ['pipe', log, log],
    windowsHide: true,
  })
  closeSync(log)
  let over: 'ended' | 'killed' | undefined
  child
    .once('exit', (_, signal) => {
      over = signal === null ? 'ended' : 'killed'
    })
    .once('error', () => {
      over = 'ended'
    })
  child.stdin?.on('error', () => undefined).end(JSON.stringify(orders))
  child.unref()
  while (over === undefined && (await readAddress(orders.home)) === undefined) await sleep(POLL_MILLISECONDS)
  if (over === undefined || (await readAddress(orders.home)) !== undefined) return 'started'
  if (over === 'killed') return 'killed'
  throw notStarted(orders.home)
}

/** The error for a server that did not start, with the reason from its log. */
export function notStarted(home: Home): IntakeError {
  const path = join(home.directory, 'server.log')
  const lines = readLines(path).concat(readLines(join(home.directory, 'supervisor.log')))
  const reason = lines.slice(-RECENT_LINES).findLast((line) => /FATAL|PANIC|Error:/.test(line))
  const detail = reason === undefined ? '' : `: ${reason.replace(/^.*?(FATAL|PANIC|Error):\s*/, '')}`
  return new IntakeError(`the embedded Postgres did not start${detail}`, {
    code: 'embedded_not_started',
    verdict: 'stop',
    hint: `Its log is ${path}. A Postgres of your own serves as well: set DATABASE_URL.`,
  })
}

function loader(suffix: string): string[] {
  if (suffix !== '.ts') return []
  return ['--import', pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href]
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n')
  } catch {
    return []
  }
}
