/** A question that only a person at a terminal answers. Invariant: without a terminal nothing is asked, and nothing done. */
import { createInterface } from 'node:readline/promises'
import type { Readable } from 'node:stream'
import { UsageError } from '../../core/errors.ts'
import type { Context } from '../context.ts'

export type Keyboard = Readable & { readonly isTTY?: boolean }

/** True for yes. Throws `UsageError` off a terminal, and the signal's reason when it comes meanwhile. */
export async function agrees(context: Context, keyboard: Keyboard, question: string): Promise<boolean> {
  const unasked = new UsageError(
    'this cannot be undone, and there is no terminal to ask at',
    'add --yes',
    '--yes',
  )
  return /^y(?:es)?$/i.test(await answerTo(context, keyboard, `${question} [y/N]`, unasked))
}

/** The line that was typed, trimmed; empty where the keyboard ends. Throws `unasked` off a terminal. */
export async function answerTo(
  context: Context,
  keyboard: Keyboard,
  question: string,
  unasked: UsageError,
): Promise<string> {
  if (keyboard.isTTY !== true) throw unasked
  const desk = createInterface({ input: keyboard, terminal: false })
  const answered = new Promise<string>((resolve, reject) => {
    context.signal.addEventListener('abort', () => reject(context.signal.reason), { once: true })
    desk.once('line', resolve)
    desk.once('close', () => resolve(''))
  })
  context.stderr.write(`${question} `)
  try {
    return (await answered).trim()
  } finally {
    desk.close()
  }
}
