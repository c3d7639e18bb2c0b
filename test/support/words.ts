/**
 * Arguments of the project's own commands (`npm run crash`, `fuzz`, `bench`, …).
 *
 * Invariant: invalid arguments end the command with exit code 2 and one sentence, before anything was started; `--help`
 * prints the usage and exits with 0.
 */
import { accessSync, constants, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { type ParseArgsConfig, parseArgs } from 'node:util'

type Options = NonNullable<ParseArgsConfig['options']>
type Read<Taken extends Options> = ReturnType<
  typeof parseArgs<{ options: Taken; allowPositionals: true; strict: true }>
>

/** `usage`: the call in its first line, then each option. Arguments that are no option are rejected unless `positionals` allows them. */
export function readWords<const Taken extends Options>(
  usage: string,
  options: Taken,
  { words = process.argv.slice(2), positionals = false } = {},
): Read<Taken> {
  if (words.includes('--help') || words.includes('-h')) {
    process.stdout.write(`${usage}\n`)
    process.exit(0)
  }
  try {
    return parseArgs({
      args: joined(words),
      options,
      allowPositionals: positionals,
      strict: true,
    }) as Read<Taken>
  } catch (error) {
    return refuse(`${firstSentence(error)}; ${usage.split('\n')[0]}`)
  }
}

/** A negative number is a value, not an option. */
function joined(words: readonly string[]): string[] {
  const args: string[] = []
  for (const word of words) {
    const option = args.at(-1)
    if (/^-\d+$/.test(word) && option?.startsWith('--') && !option.includes('='))
      args.splice(-1, 1, `${option}=${word}`)
    else args.push(word)
  }
  return args
}

/** Ends the command with exit code 2. */
export function refuse(sentence: string): never {
  process.stderr.write(`${sentence}\n`)
  process.exit(2)
}

/** The value of an option that takes a count. */
export function wholeNumber(option: string, value: string, least = 1): number {
  const number = Number(value)
  if (/^\d+$/.test(value) && Number.isSafeInteger(number) && number >= least) return number
  return refuse(`${option} is a whole number, ${least} or more, and not "${value}"`)
}

/** The value of an option that selects from a list, separated by commas. */
export function someOf(option: string, value: string, names: readonly string[]): readonly string[] {
  const wanted = value.split(',').map((name) => name.trim())
  const unknown = wanted.find((name) => !names.includes(name))
  if (unknown === undefined) return wanted
  const known = names.length > 20 ? `${names[0]} to ${names.at(-1)}` : names.join(', ')
  return refuse(`${option} takes ${known}, and not "${unknown}"`)
}

/** The path of a file that is written at the end; an unusable path is reported at the start. */
export function fileToWrite(option: string, value: string): string {
  const path = resolve(value)
  try {
    accessSync(dirname(path), constants.W_OK)
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return path
  } catch {
    // Reported below.
  }
  return refuse(`${option} names a file that cannot be written: ${value}`)
}

function firstSentence(error: unknown): string {
  const { message } = error as Error
  return message.split(/\. |\n/)[0]!
}
