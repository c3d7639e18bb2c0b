/**
 * Runs the command line as a child process, built from the current source.
 *
 * Invariant: a child sees only the variables of this project that the test sets, and works in a folder of its own;
 * children that are still running are killed when the test file ends.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { builtFile } from './built.ts'
import { withKnownDocument } from './documents.ts'
import { makeFolder, removeFolder } from './folders.ts'
import { withoutPersons } from './no-person.ts'
import { whenFileEnds } from './when-file-ends.ts'

export type Variables = Readonly<Record<string, string | undefined>>

export interface Ended {
  /** Null when a signal ended the process. */
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
  /** Standard output and error together, to search for text that must not appear. */
  readonly output: string
  readonly seconds: number
}

export interface Running {
  readonly process: ChildProcess
  readonly ended: Promise<Ended>
  /** Resolves when standard error or output has shown `text`; rejects when the process ends without it. */
  said(text: string): Promise<void>
  /** Standard output so far. */
  output(): string
  /** Standard error so far. */
  errors(): string
  kill(signal?: NodeJS.Signals): void
}

export interface CliOptions {
  /** A shell command that reads standard output. */
  readonly pipeInto?: string
  /** A file that receives standard output. */
  readonly onto?: string
  /** Content of standard input; empty by default. */
  readonly input?: string
  /** The working directory; a new one by default. */
  readonly cwd?: string
}

const running = new Set<ChildProcess>()
const folders: string[] = []

whenFileEnds(() => {
  for (const child of running)
    if (child.exitCode === null && child.signalCode === null) killGroup(child, 'SIGKILL')
  for (const folder of folders.splice(0)) removeFolder(folder)
})

/** Runs a command to its end. */
export function runCli(args: readonly string[], env: Variables, options: CliOptions = {}): Promise<Ended> {
  return startCli(args, env, options).ended
}

export function startCli(args: readonly string[], env: Variables, options: CliOptions = {}): Running {
  const words = [process.execPath, builtFile('cli.js'), ...args]
  const { pipeInto, onto } = options
  const output = pipeInto !== undefined ? `"$@" | ${pipeInto}` : onto && `exec "$@" > ${onto}`
  const [program, ...rest] = output ? ['sh', '-c', output, 'sh', ...words] : words
  const begun = performance.now()
  const child = spawn(program!, rest, {
    cwd: options.cwd ?? ownFolder(),
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
  running.add(child)
  // A child that never reads its input ends as well.
  child.stdin.on('error', () => {}).end(options.input)
  let stdout = ''
  let stderr = ''
  const listeners = new Set<() => void>()
  const heard = () => {
    for (const listener of listeners) listener()
  }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
    heard()
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
    heard()
  })
  const ended = new Promise<Ended>((done, failed) => {
    child.once('error', failed)
    child.once('close', (code, signal) => {
      running.delete(child)
      const seconds = (performance.now() - begun) / 1000
      const end = { code, signal, stdout, stderr, output: stdout + stderr, seconds }
      try {
        done(withKnownDocument(args, withoutPersons(args, end), false))
      } catch (error) {
        failed(error)
      }
      heard()
    })
  })
  const said = (text: string) =>
    new Promise<void>((done, failed) => {
      const look = () => {
        const found = `${stdout}${stderr}`.includes(text)
        if (!found && running.has(child)) return
        listeners.delete(look)
        if (found) done()
        else failed(new Error(`ended without saying "${text}"; it said: ${stderr}`))
      }
      listeners.add(look)
      look()
    })
  return {
    process: child,
    ended,
    said,
    output: () => stdout,
    errors: () => stderr,
    kill: (signal = 'SIGKILL') => killGroup(child, signal),
  }
}

function killGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  try {
    process.kill(-child.pid!, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function ownFolder(): string {
  const folder = makeFolder('cli-')
  folders.push(folder)
  return folder
}
