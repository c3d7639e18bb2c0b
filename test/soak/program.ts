/** The measured process, seen from the soak: commands that run in it, one after another or next to each other. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Notice, Order } from './child.ts'

export interface Ended {
  readonly code: number
  readonly output: string
}

export interface Program {
  run(...words: string[]): Promise<Ended>
  /** Starts `serve` and resolves when it is ready. */
  serve(): Promise<void>
  /** Resident bytes after garbage was collected. */
  residentBytes(): Promise<number>
  /** Ends it in good order, or without notice. */
  stop(how: 'orderly' | 'killed'): Promise<void>
}

/** `root`: of the project whose code it executes. */
export function startProgram(env: Readonly<Record<string, string>>, root: string): Program {
  const child: ChildProcess = fork(join(root, 'test/soak/child.ts'), {
    execArgv: ['--expose-gc', '--import', 'tsx'],
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
  })
  const exited = once(child, 'exit')
  /** What to do with notices, by order. */
  const listeners: ((notice: Notice) => void)[] = []
  child.on('message', (notice: Notice) => listeners[notice.id]!(notice))
  const send = (words: Order['words'], onNotice: (notice: Notice) => void = () => {}) => {
    child.send({ id: listeners.push(onNotice) - 1, words } satisfies Order)
  }
  const failed = exited.then(([code, signal]) => {
    throw new Error(`the measured process ended: ${code ?? signal}`)
  })
  failed.catch(() => {})
  const answerOf = (words: Order['words'], isAnswer: (notice: Notice) => boolean) =>
    Promise.race([
      failed,
      new Promise<Notice>((resolve) => send(words, (notice) => isAnswer(notice) && resolve(notice))),
    ])
  return {
    async run(...words) {
      const { code, output } = await answerOf(words, (notice) => notice.code !== null)
      return { code: code!, output }
    },
    async serve() {
      const isReady = ({ code, output }: Notice) => code !== null || /^\}$/m.test(output)
      const { code, output } = await answerOf(['serve', '--no-schedule', '--json'], isReady)
      if (code !== null) throw new Error(`serve ended: ${output}`)
    },
    async residentBytes() {
      return Number((await answerOf('memory', () => true)).output)
    },
    async stop(how) {
      if (how === 'killed') child.kill('SIGKILL')
      else {
        send(null)
        // Its commands end first; the connection to this process would keep it alive.
        setTimeout(() => child.connected && child.disconnect(), 2_000)
      }
      await exited
    },
  }
}
