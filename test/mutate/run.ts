/**
 * `npm run mutate`: Stryker plants its own bugs (mutants) in the code whose tests are fast, and runs those tests for
 * each. Code that needs Postgres has deliberate bugs instead: `npm run mutations`.
 *
 * Invariant: the checkout is not changed; results of an earlier run are used again where neither code nor tests have
 * changed. A part in which fewer mutants are caught than MIN_CAUGHT_PERCENT ends the command with 1.
 */
import { mkdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { Stryker } from '@stryker-mutator/core'
import { readWords, refuse, someOf, wholeNumber } from '../support/words.ts'
import { type Group, PARTS } from './parts.ts'

/** Percent of the mutants of a part. */
const MIN_CAUGHT_PERCENT = 90
const FOLDER = '.stryker'

const USAGE = `npm run mutate -- [--part core,api] [--group N] [--files GLOBS] [--workers N] [--quick] [--force]

  --part NAMES  these parts alone: ${PARTS.map(({ name }) => name).join(', ')}
  --group N     this group of each part alone, counted from 1
  --files GLOBS these files of a single group alone, comma-separated
  --workers N   test processes at a time, 2 by default; 1 on a busy machine
  --quick       without mutants of code that runs while a file is loaded: each of them needs a new process
  --force       tries every mutant again, whatever an earlier run found`

const { values } = readWords(USAGE, {
  part: { type: 'string' },
  group: { type: 'string' },
  files: { type: 'string' },
  workers: { type: 'string' },
  quick: { type: 'boolean' },
  force: { type: 'boolean' },
})
const names = PARTS.map(({ name }) => name)
const chosen = values.part === undefined ? names : someOf('--part', values.part, names)
const onlyGroup = values.group === undefined ? null : wholeNumber('--group', values.group)
const workers = values.workers === undefined ? 2 : wholeNumber('--workers', values.workers)
const runs = PARTS.filter((part) => chosen.includes(part.name)).map(({ name, groups }) => ({
  name,
  groups: groups
    .map((group, at) => ({ group, at }))
    .filter(({ at }) => onlyGroup === null || at === onlyGroup - 1),
}))
if (values.files !== undefined && runs.flatMap(({ groups }) => groups).length !== 1)
  refuse('--files needs a --part and a --group')

process.chdir(resolve(import.meta.dirname, '../..'))
mkdirSync(FOLDER, { recursive: true })
const shares: string[] = []
for (const { name, groups } of runs) {
  const found = { caught: 0, survived: 0, unreached: 0 }
  for (const { group, at } of groups) {
    const report = `${FOLDER}/${name}-${at + 1}`
    process.env.MUTATE_TESTS = JSON.stringify(group.tests)
    for (const { status } of await mutate(group, report)) {
      if (status === 'Killed' || status === 'Timeout') found.caught += 1
      else if (status === 'Survived') found.survived += 1
      else if (status === 'NoCoverage') found.unreached += 1
    }
  }
  const all = found.caught + found.survived + found.unreached
  const share = (of: number) => (of === 0 ? 100 : Math.floor((found.caught / of) * 1000) / 10)
  shares.push(
    `${name}: ${found.caught} of ${all} mutants caught, ${share(all)} %; ${share(all - found.unreached)} % of those that tests reach`,
  )
  if (share(all) < MIN_CAUGHT_PERCENT) process.exitCode = 1
}
process.stdout.write(`${shares.join('\n')}\n`)

async function mutate(group: Group, report: string) {
  return new Stryker({
    mutate: values.files === undefined ? [...group.mutate] : values.files.split(','),
    testRunner: 'vitest',
    vitest: { configFile: 'test/mutate/vitest.config.ts' },
    plugins: ['@stryker-mutator/vitest-runner', resolve('test/mutate/messages.ts')],
    ignorers: ['messages'],
    coverageAnalysis: 'perTest',
    concurrency: workers,
    // A test that waits for ever fails by its own limit (vitest.config.ts), which costs no new process.
    timeoutMS: 10_000,
    tempDirName: `${report}-tmp`,
    ignorePatterns: ['dist', 'docs', '.bench', 'test/bench', '.intake-sync'],
    incremental: true,
    incrementalFile: `${report}-earlier.json`,
    force: values.force === true,
    ignoreStatic: values.quick === true,
    reporters: ['clear-text', 'progress-append-only', 'json'],
    clearTextReporter: { logTests: false, reportTests: false, allowColor: false },
    jsonReporter: { fileName: `${report}.json` },
    // There is no TypeScript API in version 7 with which it would rewrite paths, and none to rewrite.
    tsconfigFile: `${FOLDER}/none.json`,
  }).runMutationTest()
}
