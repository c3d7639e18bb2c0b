/**
 * Directories and processes for the tests of the embedded server.
 *
 * Invariant: `cleanUp` ends every process that was started here and removes every directory, also directories to which
 * a server for root was moved. It fails when a server still runs after its users ended.
 */

import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import pg from 'pg'
import { identityOf } from '../../src/embedded/process-identity.ts'
import type { EmbeddedOptions, EmbeddedServer } from '../../src/embedded/server.ts'
import { builtFile } from './built.ts'
import { makeFolder } from './folders.ts'
import { freePort } from './free-port.ts'

export interface Opened {
  readonly url: string
  readonly directory: string
  readonly notices: readonly string[]
}

export interface Command {
  readonly process: ChildProcess
  /** The line it printed when the server was open, or the error. */
  readonly opened: Promise<Opened>
  /** Ends it normally; returns its last line. */
  stop(): Promise<unknown>
  /** Ctrl-C: sends SIGINT to its whole process group; returns its last line. */
  interrupt(): Promise<unknown>
  kill(): Promise<void>
}

/** The first set-up may still be writing after its command was killed. */
const REMOVE = { recursive: true, force: true, maxRetries: 20, retryDelay: 100 } as const

export const ROOT = process.getuid?.() === 0
/** A user without privileges, for tests of an ordinary user. */
export const NOBODY = 65534

/** Said to a user who waits: it depends on the machine alone. */
const SLOW = /^the embedded Postgres is still starting/
const PROGRAM = fileURLToPath(new URL('./embedded-command.mjs', import.meta.url))
const directories: string[] = []
const commands: Command[] = []

const serverProgram = () => builtFile('embedded/server.js')

/** The built module of the embedded server, so that the child process needs no loader. */
export async function openEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const module = await import(pathToFileURL(serverProgram()).href)
  return await module.openEmbedded(options)
}

/** A directory that the server's user can enter. */
export function temporaryDirectory(): string {
  const directory = lastingDirectory()
  directories.push(directory)
  return directory
}

/** A data directory that is set up, for `copyOf`: a set-up takes a second. The caller removes it. */
export async function makeOnce(): Promise<string> {
  const directory = lastingDirectory()
  const server = await openEmbedded({ dataDir: directory, unsafe: true })
  await server.stop()
  // One that no other process receives while the server is away.
  writeFileSync(join(directory, 'port'), `${await freePort()}\n`)
  return directory
}

function lastingDirectory(): string {
  const directory = makeFolder()
  chmodSync(directory, 0o711)
  return directory
}

/** A directory of the user `uid`. */
export function directoryOf(uid: number): string {
  const directory = join(temporaryDirectory(), 'hers')
  mkdirSync(directory)
  chownSync(directory, uid, uid)
  return directory
}

/** A data directory that is set up already: a copy of `made`, including owners. */
export function copyOf(made: string): string {
  const directory = join(temporaryDirectory(), 'data')
  execFileSync('cp', ['-a', made, directory])
  return directory
}

/** Why no process of an ordinary user can run this project here; undefined if one can. */
export function whyNoOrdinaryUser(): string | undefined {
  if (!ROOT) return 'this run is an ordinary user already'
  try {
    const reading = [PROGRAM, serverProgram()].map(
      (path) => `require('fs').readFileSync(${JSON.stringify(path)})`,
    )
    execFileSync(process.execPath, ['-e', reading.join(';')], {
      uid: NOBODY,
      gid: NOBODY,
      cwd: '/',
      stdio: 'ignore',
    })
    return undefined
  } catch {
    return 'an ordinary user can read neither node nor this checkout'
  }
}

/** Starts a command on `dataDir`, in a process group of its own; through `wrapper` if there is one. */
export function start(dataDir: string, options: { uid?: number; wrapper?: string[] } = {}): Command {
  const words = [
    ...(options.wrapper ?? []),
    process.execPath,
    PROGRAM,
    pathToFileURL(serverProgram()).href,
    dataDir,
  ]
  const { NODE_OPTIONS: _, ...env } = process.env
  const child = spawn(words[0]!, words.slice(1), {
    detached: true,
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
    ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
  })
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]()
  const ended = once(child, 'exit')
  const next = async () => JSON.parse((await lines.next()).value ?? '{"error":"ended without a word"}')
  const opened = next().then((line) => {
    if ('error' in line) throw new Error(`${line.error} ${line.hint ?? ''}`)
    return { ...line, notices: line.notices.filter((each: string) => !SLOW.test(each)) } as Opened
  })
  opened.catch(() => undefined)
  const command: Command = {
    process: child,
    opened,
    async stop() {
      child.stdin!.end()
      const line = await next()
      await ended
      return line
    },
    async interrupt() {
      process.kill(-child.pid!, 'SIGINT')
      const line = await next()
      await ended
      return line
    },
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
  }
  commands.push(command)
  return command
}

export async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url, application_name: 'tests' })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

export function postmasterOf(home: string): number {
  return Number(readFileSync(join(home, 'cluster', 'postmaster.pid'), 'utf8').split('\n')[0])
}

export function supervisorOf(home: string): number {
  return Number.parseInt(JSON.parse(readFileSync(join(home, 'supervisor.json'), 'utf8')).identity, 10)
}

export function isServed(home: string): boolean {
  return existsSync(join(home, 'cluster', 'postmaster.pid')) && identityOf(postmasterOf(home)) !== undefined
}

/** Waits until `condition` is true; fails after a minute. */
export async function until(what: string, condition: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 60_000; !condition(); await sleep(20)) {
    if (Date.now() > deadline) throw new Error(`waited a minute in vain: ${what}`)
  }
}

export async function cleanUp(): Promise<void> {
  for (const command of commands.splice(0))
    if (command.process.exitCode === null) await command.kill().catch(() => undefined)
  for (const directory of directories.splice(0)) {
    for (const home of homesBelow(directory)) {
      await until(
        `the server in ${home} stops`,
        () => !isServed(home) && !existsSync(join(home, 'supervisor.json')),
      )
      rmSync(home, REMOVE)
    }
    rmSync(directory, REMOVE)
  }
  for (const parent of ['/var/lib/intake-sync']) {
    try {
      rmdirSync(parent)
    } catch {
      // Not empty, so it contains files of others; or it was never created.
    }
  }
}

function homesBelow(directory: string): string[] {
  const find = (name: string) =>
    execFileSync('find', [directory, '-maxdepth', '5', '-name', name], { encoding: 'utf8' })
      .split('\n')
      .filter(Boolean)
  const elsewhere = find('server-files-are-in').map((pointer) => readFileSync(pointer, 'utf8').trim())
  return [...find('cluster').map((cluster) => join(cluster, '..')), ...elsewhere]
}
