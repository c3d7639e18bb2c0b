#!/usr/bin/env -S node --max-semi-space-size=32
/**
 * The process of the command line. Only this file reads the environment and ends the process.
 *
 * Invariant: exits with the code that commands/program.ts returns. The first signal asks the command to end, a second
 * one ends the process at once. Output that cannot be written does not stop the command; a closed pipe is not a
 * failure, any other lost result is.
 *
 * The first line widens the young generation of the heap: a page's records live just long enough to be copied twice
 * in the default one, which costs a quarter of a run's time (docs/benchmarks.md). `serve` keeps it small.
 */
import { readFileSync } from 'node:fs'
import type { Context } from './commands/context.ts'
import { keepYoungGenerationSmall } from './operate/serve/young-generation.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string
}

const stop = new AbortController()

/** Under npm, one Ctrl-C arrives twice: from the terminal and from npm. */
const ECHO_MS = 500
let stoppedAt = 0

for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.on(name, () => {
    // A second signal ends the process at once.
    if (stop.signal.aborted && performance.now() - stoppedAt > ECHO_MS) {
      process.exit(name === 'SIGTERM' ? 143 : 130)
    }
    if (stop.signal.aborted) return
    stoppedAt = performance.now()
    stop.abort(name)
  })
}

// Neither a closed pipe (`| head`) nor a full disk stops a run.
let lost = false
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  if (code === 'EPIPE' || lost) return
  lost = true
  process.stderr.write(`error: standard output could not be written (${code ?? 'unknown'})\n`)
})
process.stderr.on('error', () => {})
// The last write may fail after the command has ended.
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

const words = process.argv.slice(2)
if (words[0] === 'serve') keepYoungGenerationSmall()
const { runProgram } = await import('./commands/program.ts')
process.exitCode = await runProgram(words, context, process.cwd())
