/**
 * Runs the command line in this process: like `runCli`, without the 0.3 seconds that a child process takes to start. Use
 * it for the output and requests of a command, and `runCli` for signals, pipes and standard input.
 *
 * Invariant: a command sees only the variables that the test sets, and creates no folder in the source tree.
 */
import { join } from 'node:path'
import { runProgram } from '../../src/commands/program.ts'
import type { Ended, Variables } from './cli.ts'
import { withKnownDocument } from './documents.ts'
import { makeFolder, removeFolder } from './folders.ts'
import { withoutPersons } from './no-person.ts'
import { whenFileEnds } from './when-file-ends.ts'

let folder: string | undefined

whenFileEnds(() => {
  if (folder !== undefined) removeFolder(folder)
  folder = undefined
})

export interface RunOptions {
  /** Of a terminal; default: a pipe. */
  readonly columns?: number
  /** Default: one that never aborts. */
  readonly signal?: AbortSignal
  readonly version?: string
  /** Called after each piece of standard output. */
  readonly onOutput?: (text: string) => void
}

/** Runs a command to its end. */
export async function runCommand(
  words: readonly string[],
  env: Variables,
  { columns, signal = new AbortController().signal, version = '0.0.0', onOutput }: RunOptions = {},
): Promise<Ended> {
  folder ??= makeFolder('command-')
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  const begun = performance.now()
  const code = await runProgram(words, {
    env: { INTAKE_DATA_DIR: join(folder, 'data'), ...env },
    stdout: {
      write(text) {
        stdout.push(Buffer.from(text))
        onOutput?.(String(text))
      },
      ...(columns === undefined ? {} : { isTTY: true, columns }),
    },
    stderr: { write: (text) => stderr.push(Buffer.from(text)) },
    signal,
    version,
  })
  const seconds = (performance.now() - begun) / 1000
  const [out, err] = [textOf(stdout), textOf(stderr)]
  const ended = { code, signal: null, stdout: out, stderr: err, output: out + err, seconds }
  return withKnownDocument(words, withoutPersons(words, ended))
}

function textOf(pieces: readonly Buffer[]): string {
  return Buffer.concat(pieces).toString('utf8')
}
