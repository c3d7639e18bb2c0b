/** Confirmation questions. Invariant: without a terminal, asking fails, and so nothing is changed. */
import { createInterface } from 'node:readline/promises'
import type { Readable } from 'node:stream'
import { UsageError } from '../../core/errors.ts'
import type { Context } from '../context.ts'

export type Keyboard = Readable & { readonly isTTY?: boolean }

/** True for yes. Throws `UsageError` without a terminal, and the signal's reason on abort. */
export async function agrees(context: Context, keyboard: Keyboard, question: string): Promise<boolean> {
  const noTerminal = new UsageError(
    'this cannot be undone, and there is no terminal to ask at',
    'add --yes',
    '--yes',
    'confirmation_missing',
  )
  return /^y(?:es)?$/i.test(await answerTo(context, keyboard, `${question} [y/N]`, noTerminal))
}

/** The typed line, trimmed; empty at the end of the input. Throws `noTerminal` without a terminal. */
export async function answerTo(
  context: Context,
  keyboard: Keyboard,
  question: string,
  noTerminal: UsageError,
): Promise<string> {
  if (keyboard.isTTY !== true) throw noTerminal
  const input = createInterface({ input: keyboard, terminal: false })
  const answered = new Promise<string>((resolve, reject) => {
    context.signal.addEventListener('abort', () => reject(context.signal.reason), { once: true })
    input.once('line', resolve)
    input.once('close', () => resolve(''))
  })
  context.stderr.write(`${question} `)
  try {
    return (await answered).trim()
  } finally {
    input.close()
  }
}
