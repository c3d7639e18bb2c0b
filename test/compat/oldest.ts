/**
 * `npm run test:oldest [-- words for vitest]`: the tests with the oldest supported Postgres, where it is installed, and on
 * the newest long-term Node, where npm can be asked for it. `INTAKE_OLDEST_POSTGRES` names the folder of the programs of
 * Postgres if that is not the usual one.
 *
 * Invariant: prints which Node and which Postgres it runs with, and why not another. With neither of them it prints that
 * and exits with 0. Nothing of the server is left behind.
 */
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { makeFolder, removeFolder, removeForgotten } from '../support/folders.ts'
import { runProgram, whenInterrupted } from '../support/interruption.ts'
import { temporaryPlace } from '../support/server.ts'
import { NEWEST_LTS, newestOf, unpacked } from './from-npm.ts'
import { startPostgres } from './postgres.ts'

const OLDEST = 15
/** Usual places in Debian, Red Hat and Homebrew. */
const PLACES = [
  `/usr/lib/postgresql/${OLDEST}/bin`,
  `/usr/pgsql-${OLDEST}/bin`,
  `/opt/homebrew/opt/postgresql@${OLDEST}/bin`,
  `/usr/local/opt/postgresql@${OLDEST}/bin`,
]

const place = temporaryPlace()
for (const each of new Set([place, tmpdir()])) removeForgotten(each)
const work = makeFolder('oldest-', place)
// When run by root, the server is another user, who must be able to enter the folder.
chmodSync(work, 0o755)
const removeWork = () => removeFolder(work)
const forgetWork = whenInterrupted(removeWork)
try {
  const programs = findPrograms()
  if (programs === null)
    process.stdout.write(`Postgres ${OLDEST} is not installed (looked in ${PLACES.join(', ')})\n`)
  const node = findNode()
  if (programs === null && node === null) process.stdout.write('skipped: this is what npm test runs with\n')
  else process.exitCode = await runWith(node ?? process.execPath, programs)
} finally {
  forgetWork()
  removeWork()
}

/** The newest long-term Node; null if this is one, or if npm cannot be asked. */
function findNode(): string | null {
  if (process.versions.node.startsWith(`${NEWEST_LTS}.`)) return null
  const found = newestOf(`node-${process.platform}-${process.arch}`, NEWEST_LTS)
  if ('why' in found) {
    process.stdout.write(`Node ${process.versions.node}, and not ${NEWEST_LTS}: ${found.why}\n`)
    return null
  }
  return join(unpacked(found.versioned, join(work, 'node')), 'bin/node')
}

function findPrograms(): string | null {
  const places = process.env.INTAKE_OLDEST_POSTGRES ? [process.env.INTAKE_OLDEST_POSTGRES] : PLACES
  return places.find((place) => existsSync(join(place, 'initdb')) && majorOf(place) === OLDEST) ?? null
}

function majorOf(place: string): number {
  const said = execFileSync(join(place, 'postgres'), ['--version'], { encoding: 'utf8' })
  return Number(/\d+/.exec(said)?.[0])
}

async function runWith(node: string, programs: string | null): Promise<number> {
  const server = programs === null ? null : await startPostgres(programs, join(work, 'server'))
  const forget = whenInterrupted(() => server?.close())
  try {
    const vitest = resolve(import.meta.dirname, '../../node_modules/vitest/vitest.mjs')
    process.stdout.write(`Node ${execFileSync(node, ['--version'], { encoding: 'utf8' })}`)
    const { status } = await runProgram(node, [vitest, 'run', ...process.argv.slice(2)], {
      stdio: 'inherit',
      env: {
        ...process.env,
        PATH: `${dirname(node)}${delimiter}${process.env.PATH ?? ''}`,
        ...(server === null ? {} : { TEST_DATABASE_URL: server.url }),
      },
    })
    return status
  } finally {
    forget()
    server?.close()
  }
}
