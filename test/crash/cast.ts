/**
 * Processes that are restarted whenever they end, as by a container engine or systemd.
 *
 * Invariant: after `dismiss` none of them is left, and each had time to end normally.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { whenInterrupted } from '../support/interruption.ts'

export interface Member {
  readonly name: string
  /** Number of starts. */
  readonly starts: number
  signal(name: NodeJS.Signals): void
  /** Resolves when it has reported readiness since its last start. */
  ready(): Promise<void>
  /** Its standard error, over all restarts. */
  readonly log: string
}

export interface Cast {
  add(name: string, args: readonly string[], env: NodeJS.ProcessEnv): Member
  dismiss(): Promise<readonly { name: string; code: number | null }[]>
}

export function openCast(program: string, cwd: string): Cast {
  const members: { member: Member; child: () => ChildProcess }[] = []
  let over = false

  function add(name: string, args: readonly string[], env: NodeJS.ProcessEnv): Member {
    let child: ChildProcess
    let isReady = false
    const state = { starts: 0, log: '' }
    const start = () => {
      state.starts += 1
      isReady = false
      child = spawn(process.execPath, [program, ...args], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
      child.stdout!.on('data', () => {
        isReady = true
      })
      child.stderr!.setEncoding('utf8').on('data', (text: string) => {
        state.log += text
      })
      child.once('exit', () => {
        if (!over) setTimeout(() => over || start(), 100)
      })
    }
    start()
    const member: Member = {
      name,
      get starts() {
        return state.starts
      },
      get log() {
        return state.log
      },
      signal: (signal) => void child.kill(signal),
      async ready() {
        while (!isReady) await sleep(20)
      },
    }
    members.push({ member, child: () => child })
    return member
  }

  const forget = whenInterrupted(dismiss)

  async function dismiss() {
    over = true
    forget()
    return await Promise.all(
      members.map(async ({ member, child }) => {
        const process = child()
        if (process.exitCode === null && process.signalCode === null) {
          const ended = once(process, 'exit')
          process.kill('SIGCONT')
          process.kill('SIGTERM')
          const late = setTimeout(() => process.kill('SIGKILL'), 20_000)
          await ended
          clearTimeout(late)
        }
        return { name: member.name, code: process.exitCode }
      }),
    )
  }

  return { add, dismiss }
}
