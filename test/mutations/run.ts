/**
 * `npm run mutations`: puts each deliberate bug of mutations.ts into a copy of what is committed, one at a time, and
 * runs the tests that have to catch it. `--list` prints them, `--only 3,7` tries those alone, `--json FILE` writes the
 * results.
 *
 * Invariant: the checkout itself is never changed. A bug counts as caught only by a test that failed, and the same
 * tests pass without it; one that nobody caught, or whose place has moved, ends the command with 1.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { runProgram, whenInterrupted } from '../support/interruption.ts'
import { openTestServer } from '../support/server.ts'
import { fileToWrite, readWords, someOf } from '../support/words.ts'
import { MUTATIONS, type Mutation } from './mutations.ts'

const root = resolve(import.meta.dirname, '../..')
const USAGE = `npm run mutations -- [--list] [--only 3,7] [--json FILE]

  --list       prints the numbers of all, and changes nothing
  --only N,N   these alone, by their numbers
  --json FILE  writes the results`

const { values } = readWords(USAGE, {
  list: { type: 'boolean' },
  only: { type: 'string' },
  json: { type: 'string' },
})
const numbered = MUTATIONS.map((mutation, at) => ({ mutation, number: String(at + 1) }))
if (values.list) {
  for (const { mutation, number } of numbered)
    process.stdout.write(`${number}. ${mutation.bug} (${mutation.file})\n`)
  process.exit(0)
}
const asked =
  values.only === undefined
    ? null
    : someOf(
        '--only',
        values.only,
        numbered.map(({ number }) => number),
      )
const chosen = numbered.filter(({ number }) => asked?.includes(number) ?? true)
const json = values.json === undefined ? null : fileToWrite('--json', values.json)

interface Verdict {
  readonly number: number
  readonly bug: string
  readonly file: string
  /** The first test that failed; null where none did. */
  readonly caughtBy: string | null
  readonly seconds: number
}

const copy = mkdtempSync(join(tmpdir(), 'intake-sync-mutations-'))
const removeCopy = () => rmSync(copy, { recursive: true, force: true })
whenInterrupted(removeCopy)
const server = await openTestServer()
whenInterrupted(() => server.close())
try {
  execFileSync('git', ['clone', '--quiet', '--no-hardlinks', root, copy])
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  process.exitCode = (await tryAll()) ? 0 : 1
} finally {
  removeCopy()
  await server.close()
}

async function tryAll(): Promise<boolean> {
  const files = [...new Set(chosen.flatMap(({ mutation }) => mutation.tests))]
  const without = await failureOf(files)
  if (without !== null) {
    process.stdout.write(`the tests fail without any mutation: ${without}\n`)
    return false
  }
  const verdicts: Verdict[] = []
  for (const { mutation, number } of chosen) verdicts.push(await tryOne(mutation, Number(number)))
  if (json !== null) writeFileSync(json, `${JSON.stringify(verdicts, null, 2)}\n`)
  const caught = verdicts.filter(({ caughtBy }) => caughtBy !== null).length
  process.stdout.write(`${caught} of ${verdicts.length} caught\n`)
  return caught === verdicts.length
}

async function tryOne({ bug, file, from, to, tests }: Mutation, number: number): Promise<Verdict> {
  const path = join(copy, file)
  const text = readFileSync(path, 'utf8')
  if (text.split(from).length !== 2) throw new Error(`mutation ${number}: its place in ${file} has moved`)
  const begun = performance.now()
  writeFileSync(
    path,
    text.replace(from, () => to),
  )
  let caughtBy: string | null
  try {
    caughtBy = await failureOf(tests)
  } finally {
    writeFileSync(path, text)
  }
  const seconds = Math.round((performance.now() - begun) / 1000)
  process.stdout.write(`${number}. ${bug}: ${caughtBy ?? 'SURVIVED'} (${seconds} s)\n`)
  return { number, bug, file, caughtBy, seconds }
}

interface Report {
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly assertionResults: readonly { readonly status: string; readonly fullName: string }[]
  }[]
}

/** Runs these test files in the copy: the first that failed, or null. */
async function failureOf(tests: readonly string[]): Promise<string | null> {
  const isLong = (test: string) => test.endsWith('.long.test.ts')
  const [short, long] = [tests.filter((test) => !isLong(test)), tests.filter(isLong)]
  const first = short.length === 0 ? null : await failureIn(short, [])
  return first ?? (long.length === 0 ? null : await failureIn(long, ['--config=vitest.long.config.ts']))
}

async function failureIn(tests: readonly string[], options: readonly string[]): Promise<string | null> {
  const output = join(copy, 'node_modules.report.json')
  rmSync(output, { force: true })
  const { status, stdout, stderr } = await runProgram(
    process.execPath,
    [
      'node_modules/vitest/vitest.mjs',
      'run',
      ...options,
      '--bail=1',
      '--reporter=json',
      `--outputFile=${output}`,
      ...tests,
    ],
    {
      cwd: copy,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...process.env,
        TEST_DATABASE_URL: server.url,
        INTAKE_TEST_DATA: process.env.INTAKE_TEST_DATA ?? resolve(root, '../shared/data'),
      },
    },
  )
  if (status === 0) return null
  const { testResults } = reportIn(output) ?? { testResults: [] }
  for (const { name, assertionResults } of testResults) {
    const failed = assertionResults.find((each) => each.status === 'failed')
    if (failed !== undefined) return `${relative(copy, name)}: ${failed.fullName}`
  }
  // What a file does before its tests may be what fails.
  const before = testResults.find(({ status: each }) => each === 'failed')
  if (before !== undefined) return `${relative(copy, before.name)}: before its tests`
  throw new Error(`no test failed, and yet the run did:\n${stdout.slice(-2_000)}${stderr.slice(-2_000)}`)
}

function reportIn(path: string): Report | null {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Report
  } catch {
    return null
  }
}
