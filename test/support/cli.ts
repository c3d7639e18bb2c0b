/**
 * The command line as a child process, built from the source as it is now.
 *
 * Invariant: a child sees the variables that the test gives it and no other of ours, and works in a folder of its
 * own; children that a test forgot are killed when its file ends.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll } from 'vitest'

export type Variables = Readonly<Record<string, string | undefined>>

export interface Ended {
  /** Null when a signal ended it. */
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
  /** Both, for looking for what must not be there. */
  readonly output: string
  readonly seconds: number
}

export interface Running {
  readonly process: ChildProcess
  readonly ended: Promise<Ended>
  /** Resolves when standard error or output has shown `text`; rejects when the process ends without it. */
  said(text: string): Promise<void>
  /** What it wrote on standard output so far. */
  output(): string
  kill(signal?: NodeJS.Signals): void
}

export interface CliOptions {
  /** A command line of `sh` that reads standard output. */
  readonly pipeInto?: string
  /** What stands on standard input; nothing without it. */
  readonly input?: string
}

const ROOT = resolve(import.meta.dirname, '../..')
const CACHE = join(ROOT, 'node_modules/.cache/intake-sync-tests')
const HOUR = 3_600_000

const running = new Set<ChildProcess>()
const folders: string[] = []
let built: string | undefined

afterAll(async () => {
  for (const child of running)
    if (child.exitCode === null && child.signalCode === null) killGroup(child, 'SIGKILL')
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true })
})

/** Runs a command to its end. */
export function runCli(args: readonly string[], env: Variables, options: CliOptions = {}): Promise<Ended> {
  return startCli(args, env, options).ended
}

export function startCli(args: readonly string[], env: Variables, options: CliOptions = {}): Running {
  const words = [process.execPath, builtCli(), ...args]
  const [program, ...rest] =
    options.pipeInto === undefined ? words : ['sh', '-c', `"$@" | ${options.pipeInto}`, 'sh', ...words]
  const begun = performance.now()
  const child = spawn(program!, rest, {
    cwd: ownFolder(),
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
  })
  running.add(child)
  // A child that never reads ends all the same.
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
      done({ code, signal, stdout, stderr, output: stdout + stderr, seconds })
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
  const folder = mkdtempSync(join(tmpdir(), 'intake-sync-cli-'))
  folders.push(folder)
  return folder
}

/** Compiles the source once for each state of it; workers that do so at the same moment do not disturb each other. */
function builtCli(): string {
  built ??= build()
  return built
}

function build(): string {
  const place = join(CACHE, stateOfSource())
  const cli = join(place, 'dist/cli.js')
  if (existsSync(cli)) return cli
  removeOld()
  const draft = `${place}.${randomBytes(4).toString('hex')}`
  mkdirSync(draft, { recursive: true })
  copyFileSync(join(ROOT, 'package.json'), join(draft, 'package.json'))
  symlinkSync(join(ROOT, 'sql'), join(draft, 'sql'))
  const plain = [
    '--noCheck',
    '--declaration',
    'false',
    '--sourceMap',
    'false',
    '--outDir',
    join(draft, 'dist'),
  ]
  execFileSync(process.execPath, [
    join(ROOT, 'node_modules/typescript/bin/tsc'),
    '-p',
    join(ROOT, 'tsconfig.build.json'),
    ...plain,
  ])
  try {
    renameSync(draft, place)
  } catch {
    rmSync(draft, { recursive: true, force: true })
  }
  return cli
}

function stateOfSource(): string {
  const hash = createHash('sha256')
  for (const file of ['package.json', 'tsconfig.json', 'tsconfig.build.json'])
    hash.update(readFileSync(join(ROOT, file)))
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  for (const file of files.filter((name) => name.endsWith('.ts')).sort()) {
    hash.update(file).update(readFileSync(join(ROOT, 'src', file)))
  }
  return hash.digest('hex').slice(0, 16)
}

function removeOld(): void {
  if (!existsSync(CACHE)) return
  for (const entry of readdirSync(CACHE)) {
    const path = join(CACHE, entry)
    const made = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
    if (made < Date.now() - HOUR) rmSync(path, { recursive: true, force: true })
  }
}
