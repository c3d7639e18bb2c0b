/**
 * `npm run fuzz -- --minutes N`: tries the properties of this folder for N minutes in total (10 by default).
 * `--only FILE` tries one file, `--title WORDS` one property; `--seed S --path P`, as printed by a failure, repeats a case.
 *
 * Invariant: exits with 0 only when every requested property was tried and passed; a failure prints how to repeat it.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { runProgram } from '../support/interruption.ts'
import { readWords, refuse, someOf } from '../support/words.ts'

const USAGE = `npm run fuzz -- [--minutes 10] [--only FILE] [--title WORDS] [--seed S] [--path P]

  --minutes N    how long, in all
  --only FILE    the properties of one file, as webhooks
  --title WORDS  those whose title holds these words
  --seed, --path one case again, as a failure prints them`

/** Files that are tried concurrently. */
const AT_ONCE = 2

const { values } = readWords(USAGE, {
  minutes: { type: 'string' },
  only: { type: 'string' },
  title: { type: 'string' },
  seed: { type: 'string' },
  path: { type: 'string' },
})
const minutes = Number(values.minutes ?? 10)
if (!(minutes > 0 && minutes < Number.POSITIVE_INFINITY)) refuse('--minutes is a number above 0')
if (values.seed !== undefined && !/^-?\d+$/.test(values.seed)) refuse('--seed is a whole number')
if (values.path !== undefined && !/^\d+(:\d+)*$/.test(values.path)) refuse('--path is numbers between colons')
if (values.path !== undefined && values.seed === undefined) refuse('--path says nothing without its --seed')

const root = resolve(import.meta.dirname, '../..')
const names = readdirSync(import.meta.dirname).flatMap((name) => name.match(/^(.*)\.test\.ts$/)?.[1] ?? [])
const chosen = values.only === undefined ? names : someOf('--only', values.only, names)
const files = chosen.map((name) => ({
  name,
  text: readFileSync(join(import.meta.dirname, `${name}.test.ts`), 'utf8'),
}))
const { title } = values
const wanted = title === undefined ? files : files.filter(({ text }) => text.includes(title))
if (wanted.length === 0) refuse(`--title: no property of ${chosen.join(', ')} is called so`)

const properties =
  title === undefined ? wanted.flatMap(({ text }) => text.match(/\bholds\(/g) ?? []).length : wanted.length
const { status } = await runProgram(
  process.execPath,
  [
    join(root, 'node_modules/vitest/vitest.mjs'),
    'run',
    ...wanted.map(({ name }) => `test/fuzz/${name}.test.ts`),
    ...(title === undefined ? [] : ['-t', title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')]),
  ],
  {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      FUZZ_MINUTES: String((minutes * Math.min(AT_ONCE, wanted.length)) / Math.max(1, properties)),
      ...(values.seed === undefined ? {} : { FUZZ_SEED: values.seed }),
      ...(values.path === undefined ? {} : { FUZZ_PATH: values.path }),
    },
  },
)
if (status !== 0) {
  const again = `npm run fuzz -- --only FILE --title WORDS --seed S --path P`
  process.stderr.write(`to repeat a failure with the seed and path that it printed: ${again}\n`)
}
process.exitCode = status
