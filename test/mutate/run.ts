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
import { readWords, someOf } from '../support/words.ts'
import { PARTS } from './parts.ts'

/** Percent of the mutants of a part. */
const MIN_CAUGHT_PERCENT = 90
const FOLDER = '.stryker'

const USAGE = `npm run mutate -- [--part core,api] [--files GLOBS] [--force]

  --part NAMES  these parts alone: ${PARTS.map(({ name }) => name).join(', ')}
  --files GLOBS these files of the parts alone, comma-separated
  --force       tries every mutant again, whatever an earlier run found`

const { values } = readWords(USAGE, {
  part: { type: 'string' },
  files: { type: 'string' },
  force: { type: 'boolean' },
})
const names = PARTS.map(({ name }) => name)
const chosen = values.part === undefined ? names : someOf('--part', values.part, names)

process.chdir(resolve(import.meta.dirname, '../..'))
mkdirSync(FOLDER, { recursive: true })
for (const { name, mutate } of PARTS.filter((part) => chosen.includes(part.name))) {
  process.env.MUTATE_PART = name
  const results = await new Stryker({
    mutate: values.files === undefined ? [...mutate] : values.files.split(','),
    testRunner: 'vitest',
    vitest: { configFile: 'test/mutate/vitest.config.ts' },
    plugins: ['@stryker-mutator/vitest-runner'],
    coverageAnalysis: 'perTest',
    concurrency: 2,
    timeoutMS: 5_000,
    tempDirName: `${FOLDER}/tmp`,
    ignorePatterns: ['dist', 'docs', '.bench', 'test/bench', '.intake-sync'],
    incremental: true,
    incrementalFile: `${FOLDER}/${name}.json`,
    force: values.force === true,
    reporters: ['clear-text', 'progress-append-only', 'json'],
    clearTextReporter: { logTests: false, reportTests: false, allowColor: false },
    jsonReporter: { fileName: `${FOLDER}/${name}-report.json` },
    thresholds: { high: 95, low: MIN_CAUGHT_PERCENT, break: MIN_CAUGHT_PERCENT },
    // There is no TypeScript API in version 7 with which it would rewrite paths, and none to rewrite.
    tsconfigFile: `${FOLDER}/none.json`,
  }).runMutationTest()
  process.stdout.write(`${name}: ${results.length} mutants\n`)
}
