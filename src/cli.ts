#!/usr/bin/env -S node --max-semi-space-size=32
/**
 * The process of the command line. The only place that reads the environment and ends the process.
 *
 * Invariant: it ends with the exit code that commands/program.ts finds; the first signal lets the command end by
 * itself, a second one does not wait; output that nobody takes stops nothing. A reader that goes away is no failure,
 * a result that could not be written is one.
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

// A reader of our output that goes away (`| head`) does not stop a run, and a disk that is full does not either.
let lost = false
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE' || lost) return
  lost = true
  process.stderr.write(`error: standard output could not be written (${code ?? 'unknown'})\n`)
})
process.stderr.on('error', () => {})
// The last of it may fail after the command's end.
process.on('exit', (code) => {
  if (lost && code === 0) process.exitCode = 1
})

const context: Context = {
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: stop.signal,
  version,
}

process.exitCode = await runProgram(process.argv.slice(2), context)
