/**
 * First set-up: a password, and Postgres's data directory.
 *
 * Invariant: `cluster` is there only when it is complete. `initdb` works in a draft that is renamed at the end, so
 * that it may be killed at any moment; the password is written before it, never changes, and appears in no argument
 * list, log or error.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmod, chown, lstat, mkdir, open, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { IntakeError, UsageError } from '../core/errors.ts'
import type { Binaries } from './binaries.ts'
import type { Home, ServerUser } from './home.ts'
import { createPrivate, readIfThere } from './private-file.ts'
import { identityOf } from './process-identity.ts'
import { serverEnvironment } from './settings.ts'

export const ROLE = 'intake'

const OLD_MILLISECONDS = 3_600_000

/** Makes what is missing in the home. Called under the start-up lock. */
export async function initialise(home: Home, binaries: Binaries, unsafe: boolean): Promise<void> {
  await removeDrafts(home)
  const version = (await readIfThere(join(home.cluster, 'PG_VERSION')))?.trim()
  if (version !== undefined) return checkVersion(home, version, binaries.major)
  await createPrivate(join(home.directory, 'password'), randomBytes(24).toString('base64url'))
  const draft = join(home.directory, `.draft-${process.pid}-${randomBytes(4).toString('hex')}`)
  await mkdir(draft)
  await chmod(draft, 0o700)
  await giveTo(home.user, draft)
  const passwordFile = join(draft, 'password')
  await writeFile(passwordFile, await readPassword(home), { mode: 0o600 })
  await giveTo(home.user, passwordFile)
  await runInitdb(home, binaries, draft, passwordFile, unsafe)
  await rename(join(draft, 'cluster'), home.cluster)
  await syncDirectory(home.directory)
  await rm(draft, { recursive: true, force: true })
}

export async function readPassword(home: Home): Promise<string> {
  const password = await readIfThere(join(home.directory, 'password'))
  if (password !== undefined) return password
  throw new UsageError(
    `the password file of the embedded Postgres is missing in ${home.directory}`,
    'Restore it, or set INTAKE_DATA_DIR to another directory to start with an empty warehouse.',
    'INTAKE_DATA_DIR',
    'data_dir_unusable',
  )
}

async function runInitdb(
  home: Home,
  binaries: Binaries,
  draft: string,
  passwordFile: string,
  unsafe: boolean,
): Promise<void> {
  const parameters = [
    ...['-D', join(draft, 'cluster'), '-U', ROLE, `--pwfile=${passwordFile}`, '--auth=scram-sha-256'],
    ...['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'],
    ...['--set', 'timezone=UTC', '--no-instructions', ...(unsafe ? ['--no-sync'] : [])],
  ]
  const initdb = spawn(join(binaries.bin, 'initdb'), parameters, {
    cwd: '/',
    env: serverEnvironment(),
    stdio: ['ignore', 'ignore', 'pipe'],
    windowsHide: true,
    ...(home.user === undefined ? {} : { uid: home.user.uid, gid: home.user.gid }),
  })
  let complaint = ''
  initdb.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint += text
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    initdb.once('error', reject).once('close', resolve)
  })
  if (code === 0) return
  const line = complaint.split('\n').find((text) => /error|FATAL/i.test(text)) ?? `initdb ended with ${code}`
  throw new IntakeError(`the embedded Postgres could not be set up in ${home.directory}: ${line.trim()}`, {
    code: 'embedded_not_started',
    verdict: 'stop',
    hint: 'Check that the disk has space and preserves file modes, or set INTAKE_DATA_DIR or DATABASE_URL.',
  })
}

function checkVersion(home: Home, found: string, installed: string): void {
  if (found === installed) return
  throw new UsageError(
    `the data in ${home.directory} were written by Postgres ${found}, and Postgres ${installed} is installed`,
    `Install the earlier release, or set INTAKE_DATA_DIR to a new directory and run a backfill.`,
    'INTAKE_DATA_DIR',
    'data_dir_unusable',
  )
}

/**
 * Removes drafts of set-ups that were killed: their process is gone, or they are old. If `initdb` is still writing to one,
 * a later start removes it.
 */
async function removeDrafts(home: Home): Promise<void> {
  for (const entry of await readdir(home.directory)) {
    const maker = /\.(?:draft|released)-(\d+)/.exec(entry)?.[1]
    if (maker === undefined) continue
    const path = join(home.directory, entry)
    const age = Date.now() - ((await lstat(path).catch(() => undefined))?.mtimeMs ?? 0)
    if (identityOf(Number(maker)) !== undefined && age < OLD_MILLISECONDS) continue
    await rm(path, { recursive: true, force: true }).catch(() => undefined)
  }
}

async function giveTo(user: ServerUser | undefined, path: string): Promise<void> {
  if (user !== undefined) await chown(path, user.uid, user.gid)
}

async function syncDirectory(path: string): Promise<void> {
  if (process.platform === 'win32') return
  const directory = await open(path)
  await directory.sync().finally(() => directory.close())
}
