/**
 * What runs on each host: an ingester with a drain, a worker, and now and then a command that plans a run.
 *
 * Invariant: a process that ends by itself, or is killed, starts again after `RESTART_MS`, as systemd would have it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { builtFile } from '../support/built.ts'
import { addressOf, type HostName, on } from './namespaces.ts'

/** Longer than others may take to take over: the host itself must not. */
const RESTART_MS = 6_000
const PRELOAD = pathToFileURL(join(import.meta.dirname, 'clock.mjs')).href

export interface Host {
  readonly name: HostName
  /** Sends a signal to every process. */
  signal(name: NodeJS.Signals): void
  /** From the next start of its processes. */
  setClock(aheadMs: number): void
  /** Ends its processes normally; they start again at once. */
  restart(): void
  /** Plans a run; the exit code of the command, or null if it was killed, as it is after `limitMs`. */
  plan(words: readonly string[], limitMs: number): Promise<number | null>
}

export function openHost(name: HostName, folder: string, own: NodeJS.ProcessEnv): Host {
  const children = new Set<ChildProcess>()
  const again = new Map<ChildProcess, () => void>()
  let aheadMs = 0

  function start(words: readonly string[], logName: string): ChildProcess {
    const log = openSync(join(folder, `${name}-${logName}.log`), 'a')
    const program = [...on(name), process.execPath, '--import', PRELOAD, builtFile('cli.js'), ...words]
    const ports = { INTAKE_ADMIN_PORT: words[0] === 'serve' ? '9090' : '9091' }
    const env = { PATH: process.env.PATH, ...own, ...ports, CLOCK_AHEAD_MS: String(aheadMs) }
    const child = spawn(program[0]!, program.slice(1), { cwd: folder, env, stdio: ['ignore', log, log] })
    children.add(child)
    child.once('exit', () => children.delete(child))
    return child
  }

  function keep(words: readonly string[]): void {
    const child = start(words, words[0]!)
    let isSoon = false
    again.set(child, () => {
      isSoon = true
      child.kill('SIGTERM')
    })
    child.once('exit', () => {
      again.delete(child)
      setTimeout(() => keep(words), isSoon ? 0 : RESTART_MS)
    })
  }

  keep(['serve', '--no-schedule', '--no-work'])
  keep(['work'])
  return {
    name,
    signal: (signal) => {
      for (const child of children) child.kill(signal)
    },
    setClock: (ms) => {
      aheadMs = ms
    },
    restart: () => {
      for (const end of again.values()) end()
    },
    plan(words, limitMs) {
      const child = start(['backfill', '--detach', ...words], 'plan')
      const late = setTimeout(() => child.kill('SIGKILL'), limitMs)
      return new Promise((resolve) => {
        child.once('exit', (code) => {
          clearTimeout(late)
          resolve(code)
        })
      })
    },
  }
}

export const originOf = (name: HostName) => `http://${addressOf(name)}:8080`
export const probeOf = (name: HostName) => `http://${addressOf(name)}:9090/readyz?part=ingest`

export function environmentOf(name: HostName, url: string, config: string): NodeJS.ProcessEnv {
  return {
    DATABASE_URL: url,
    INTAKE_CONFIG: config,
    // The bridge is the private network.
    INTAKE_ALLOW_HTTP: '1',
    INTAKE_ALLOW_INSECURE_DATABASE: '1',
    INTAKE_WEBHOOK_HOST: addressOf(name),
    INTAKE_WEBHOOK_PORT: '8080',
    INTAKE_ADMIN_HOST: addressOf(name),
    LOG_LEVEL: 'info',
  }
}
