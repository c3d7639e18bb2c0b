/**
 * Ctrl-C and SIGTERM of the project's own commands.
 *
 * Invariant: what was begun is undone, the latest first, and the process then ends with 130 or 143; another signal
 * after that ends it at once. Programs that were started end before what they use is removed.
 */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'

type Undo = () => unknown

const begun: Undo[] = []
const CODES = { SIGINT: 130, SIGTERM: 143 } as const
/** One Ctrl-C comes several times: from the terminal, from npm, from the program that started this one. */
const SAME_MS = 2_000
let interruptedAt: number | null = null

/** From now on a signal undoes this too, until the function that is returned is called. */
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
  // What goes on meanwhile finds gone what it uses.
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

/** Runs a program to its end, which a signal to this process brings about; what it says is returned where it is piped. */
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
  // Undone, and ended, by the signal.
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
