#!/usr/bin/env -S node --max-semi-space-size=32
/**
 * The process of the command line. The only place that reads the environment and ends the process.
 *
 * Invariant: it ends with the exit code that commands/program.ts finds; the first signal lets the command end by
 * itself, a second one does not wait; a reader of our output that goes away stops nothing.
 *
 * The first line widens the young generation of the heap: a page's records live just long enough to be copied twice
 * in the default one, which costs a quarter of a run's time (docs/benchmarks.md).
 */
import { readFileSync } from 'node:fs'
import type { Context } from './commands/context.ts'
import { runProgram } from './commands/program.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string
}

const stop = new AbortController()

/** One Ctrl-C comes twice where npm passes on what the terminal sent already. */
const ECHO_MS = 500
let stoppedAt = 0

for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.on(name, () => {
    // A second signal means now.
    if (stop.signal.aborted && performance.now() - stoppedAt > ECHO_MS) {
      process.exit(name === 'SIGTERM' ? 143 : 130)
    }
    if (stop.signal.aborted) return
    stoppedAt = performance.now()
    stop.abort(name)
  })
}

// A reader of our output that goes away (`| head`) does not stop a run.
for (const output of [process.stdout, process.stderr]) {
  output.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

const context: Context = {
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: stop.signal,
  version,
}

process.exitCode = await runProgram(process.argv.slice(2), context)
