/**
 * The process whose memory the soak measures: it serves webhooks and runs every nightly backfill, for the whole year.
 * Each message is a command; its output and exit code come back, and output also as soon as it is written.
 */
import { runProgram } from '../../src/commands/program.ts'

export interface Order {
  readonly id: number
  /** A command of the command line; `memory` asks for the resident bytes; null stops all that run. */
  readonly words: readonly string[] | 'memory' | null
}

export interface Notice {
  readonly id: number
  readonly output: string
  /** Null while it runs. */
  readonly code: number | null
}

const stop = new AbortController()

process.on('message', ({ id, words }: Order) => {
  if (words === null) return stop.abort('SIGTERM')
  let output = ''
  // Garbage is not growth, however long V8 waits to collect it.
  if (words === 'memory') {
    gc!()
    return process.send!({ id, output: String(process.memoryUsage.rss()), code: 0 } satisfies Notice)
  }
  const tell = (code: number | null) => process.send!({ id, output, code } satisfies Notice)
  const write = (text: string | Uint8Array) => {
    output += text.toString()
    tell(null)
    return true
  }
  const context = {
    env: process.env,
    stdout: { write },
    stderr: { write },
    signal: stop.signal,
    version: '0.0.0',
  }
  void runProgram(words, context).then(tell)
})
process.on('disconnect', () => process.exit())
