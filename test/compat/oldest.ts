/**
 * `npm run test:oldest [-- words for vitest]`: the tests with the oldest supported Postgres, where it is installed;
 * `INTAKE_OLDEST_POSTGRES` names the folder of its programs if that is not the usual one.
 *
 * Invariant: where it is not installed, prints that and exits with 0; nothing of the server is left behind.
 */
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { makeFolder, removeFolder, removeForgotten } from '../support/folders.ts'
import { runProgram, whenInterrupted } from '../support/interruption.ts'
import { temporaryPlace } from '../support/server.ts'
import { startPostgres } from './postgres.ts'

const OLDEST = 15
/** Usual places in Debian, Red Hat and Homebrew. */
const PLACES = [
  `/usr/lib/postgresql/${OLDEST}/bin`,
  `/usr/pgsql-${OLDEST}/bin`,
  `/opt/homebrew/opt/postgresql@${OLDEST}/bin`,
  `/usr/local/opt/postgresql@${OLDEST}/bin`,
]

const programs = findPrograms()
if (programs === null) {
  process.stdout.write(`skipped: Postgres ${OLDEST} is not installed (looked in ${PLACES.join(', ')})\n`)
} else {
  process.exitCode = await runBeside(programs)
}

function findPrograms(): string | null {
  const places = process.env.INTAKE_OLDEST_POSTGRES ? [process.env.INTAKE_OLDEST_POSTGRES] : PLACES
  return places.find((place) => existsSync(join(place, 'initdb')) && majorOf(place) === OLDEST) ?? null
}

function majorOf(place: string): number {
  const said = execFileSync(join(place, 'postgres'), ['--version'], { encoding: 'utf8' })
  return Number(/\d+/.exec(said)?.[0])
}

async function runBeside(folder: string): Promise<number> {
  const place = temporaryPlace()
  for (const each of new Set([place, tmpdir()])) removeForgotten(each)
  const work = makeFolder('oldest-', place)
  // When run by root, the server is another user, who must be able to enter the folder.
  chmodSync(work, 0o755)
  const removeWork = () => removeFolder(work)
  const forgetWork = whenInterrupted(removeWork)
  try {
    const server = await startPostgres(folder, join(work, 'server'))
    const forget = whenInterrupted(() => server.close())
    try {
      const vitest = resolve(import.meta.dirname, '../../node_modules/vitest/vitest.mjs')
      const { status } = await runProgram(process.execPath, [vitest, 'run', ...process.argv.slice(2)], {
        stdio: 'inherit',
        env: { ...process.env, TEST_DATABASE_URL: server.url },
      })
      return status
    } finally {
      forget()
      server.close()
    }
  } finally {
    forgetWork()
    removeWork()
  }
}
