import type { Context } from '../../src/commands/context.ts'

/** Of functions that lay out text: for a pipe, or for a terminal of so many columns, in colors unless `env` turns them off. */
export function contextOf(columns?: number, env: Context['env'] = {}): Context {
  const output = { write: () => true, ...(columns === undefined ? {} : { isTTY: true, columns }) }
  return { env, stdout: output, stderr: output, signal: new AbortController().signal, version: '' }
}
