/**
 * Ctrl-C and SIGTERM of the project's own commands.
 *
 * Invariant: a signal undoes what the command started, in reverse order, and the process exits with 130 or 143. A second
 * signal ends it immediately. Child programs end before the resources that they use are removed.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'

type Undo = () => unknown

const begun: Undo[] = []
const CODES = { SIGINT: 130, SIGTERM: 143 } as const
/** One Ctrl-C arrives several times: from the terminal, from npm, and from the parent program. */
const SAME_MS = 2_000
let interruptedAt: number | null = null

/** Registers a function that a signal calls, until the returned function is called. */
export function whenInterrupted(undo: Undo): () => void {
  if (process.listenerCount('SIGTERM', onSignal) === 0)
    for (const signal of Object.keys(CODES)) process.on(signal, onSignal)
  begun.push(undo)
  return () => {
    const at = begun.indexOf(undo)
    if (at >= 0) begun.splice(at, 1)
  }
}

function onSignal(signal: keyof typeof CODES): void {
  if (interruptedAt !== null) {
    if (performance.now() - interruptedAt > SAME_MS) process.exit(CODES[signal])
    return
  }
  interruptedAt = performance.now()
  // Work that is still running finds its resources removed.
  process.on('uncaughtException', () => {})
  void undoAll().finally(() => process.exit(CODES[signal]))
}

async function undoAll(): Promise<void> {
  for (let undo = begun.pop(); undo !== undefined; undo = begun.pop()) {
    try {
      await undo()
    } catch (error) {
      process.stderr.write(`could not be undone: ${(error as Error).message}\n`)
    }
  }
}

export interface Ran {
  readonly status: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program to its end; a signal to this process ends it. Returns its output if that is piped. */
export async function runProgram(
  file: string,
  words: readonly string[],
  options: SpawnOptions,
): Promise<Ran> {
  const child = spawn(file, words, options)
  const over = once(child, 'close')
  const forget = whenInterrupted(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGTERM')
    await over
  })
  const said = { stdout: textOf(child, 'stdout'), stderr: textOf(child, 'stderr') }
  const [code] = (await over) as [number | null]
  // The signal handler undid everything and ended the program.
  if (interruptedAt !== null) await new Promise(() => {})
  forget()
  return { status: code ?? 1, stdout: said.stdout(), stderr: said.stderr() }
}

function textOf(child: ChildProcess, stream: 'stdout' | 'stderr'): () => string {
  let text = ''
  child[stream]?.setEncoding('utf8').on('data', (piece: string) => {
    text += piece
  })
  return () => text
}
