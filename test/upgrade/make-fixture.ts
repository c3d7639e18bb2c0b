/**
 * `node --import tsx test/upgrade/make-fixture.ts`: writes test/fixtures/warehouse-0.1.sql.gz, the warehouse that
 * version 0.1 leaves: its own build, against its own emulator, on the oldest Postgres that is supported.
 *
 * Needs git, npm, and the programs of Postgres 15 (`--programs DIR`). Run once: the result is committed, and differs
 * each time it is made, since it holds times and random ids.
 */
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import { startPostgres } from '../compat/postgres.ts'
import { whenInterrupted } from '../support/interruption.ts'
import { readWords, refuse } from '../support/words.ts'
import { liveThrough } from './history-of-fixture.ts'

/** The last commit of version 0.1. */
const COMMIT = '0fa9623'
const ROOT = resolve(import.meta.dirname, '../..')
const FIXTURE = join(ROOT, 'test/fixtures/warehouse-0.1.sql.gz')

const usage = 'node --import tsx test/upgrade/make-fixture.ts [--programs /usr/lib/postgresql/15/bin]'
const { values } = readWords(usage, { programs: { type: 'string' } })
const programs = values.programs ?? '/usr/lib/postgresql/15/bin'
if (!existsSync(join(programs, 'pg_dump'))) refuse(`there is no pg_dump in ${programs}; ${usage}`)

const work = mkdtempSync(join(tmpdir(), 'intake-sync-fixture-'))
// Run by root, the server is another user, who has to come through.
chmodSync(work, 0o755)
const removeWork = () => rmSync(work, { recursive: true, force: true })
whenInterrupted(removeWork)

try {
  const cli = buildOld(join(work, 'checkout'))
  const server = await startPostgres(programs, join(work, 'server'))
  const forget = whenInterrupted(() => server.close())
  try {
    await liveThrough({ cli, databaseUrl: server.url, folder: work })
    const text = dumped(server.url)
    writeFileSync(FIXTURE, gzipSync(text, { level: 9 }))
    process.stdout.write(`${text.length} characters\n`)
  } finally {
    forget()
    server.close()
  }
} finally {
  removeWork()
}

/** Returns the path of the command line of version 0.1. */
function buildOld(checkout: string): string {
  mkdirSync(checkout)
  const archive = execFileSync('git', ['archive', COMMIT], { cwd: ROOT, maxBuffer: 2 ** 28 })
  execFileSync('tar', ['-x', '-C', checkout], { input: archive })
  execFileSync('npm', ['ci', '--ignore-scripts'], { cwd: checkout, stdio: 'inherit' })
  execFileSync('npm', ['run', 'build'], { cwd: checkout, stdio: 'inherit' })
  return join(checkout, 'dist/cli.js')
}

/** Statements alone, which any client runs: no meta-commands of psql, no owner, no schema of Postgres's own. */
function dumped(url: string): string {
  const options = ['--inserts', '--rows-per-insert=200', '--no-owner', '--schema=intake*']
  const text = execFileSync(join(programs, 'pg_dump'), [...options, url], {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  })
  const kept = text.split('\n').filter((line) => !/^\\(un)?restrict /.test(line))
  return kept.join('\n')
}
