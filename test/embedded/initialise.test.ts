/** The first set-up of the embedded server: whole or not at all, with a password of its own that appears nowhere. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test, vi } from 'vitest'
import { initialise, readPassword } from '../../src/embedded/initialise.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const base = makeFolder('initialise-')
afterAll(() => removeFolder(base))

/** In place of initdb: notes its words and the password, and makes what the real one makes. */
const INITDB = `#!/bin/sh
printf '%s\\n' "$@" > "$(dirname "$0")/words"
{ pwd; ls -ldn "$(dirname "$2")" | tr -s ' ' | cut -d ' ' -f 1,3,4; env; } > "$(dirname "$0")/place"
for word in "$@"; do case "$word" in --pwfile=*) cp "\${word#--pwfile=}" "$(dirname "$0")/password" ;; esac; done
mkdir "$2" && echo 18 > "$2/PG_VERSION"
`
const FAILING = `#!/bin/sh
mkdir "$2" && echo 18 > "$2/PG_VERSION"
echo 'a warning' >&2
echo 'initdb: error: no space left on device' >&2
exit 1
`

let homes = 0
function newHome(program = INITDB) {
  const bin = join(base, `bin ${++homes}`)
  const directory = join(base, `home ${homes}`)
  for (const folder of [bin, directory]) mkdirSync(folder)
  writeFileSync(join(bin, 'initdb'), program)
  chmodSync(join(bin, 'initdb'), 0o755)
  const home = { directory, cluster: join(directory, 'cluster'), user: undefined }
  const wordsOf = () => readFileSync(join(bin, 'words'), 'utf8').trim().split('\n')
  return { home, bin, binaries: { bin, major: '18' }, wordsOf }
}

test('it makes the data directory with a password of 32 characters, which its owner alone may read', async () => {
  const { home, bin, binaries, wordsOf } = newHome()
  vi.stubEnv('INTAKE_API_SECRET', 'secret')
  await initialise(home, binaries, false)
  vi.unstubAllEnvs()
  const [place, mode, ...environment] = readFileSync(join(bin, 'place'), 'utf8').split('\n')
  expect([place, mode]).toEqual(['/', expect.stringMatching(/^drwx------\S? /)])
  expect(environment.some((line) => line.includes('secret'))).toBe(false)
  expect(readdirSync(home.directory).sort()).toEqual(['cluster', 'password'])
  const password = await readPassword(home)
  expect(password).toMatch(/^[\w-]{32}$/)
  expect(statSync(join(home.directory, 'password')).mode & 0o777).toBe(0o600)
  expect(readFileSync(join(bin, 'password'), 'utf8')).toBe(password)
  expect(statSync(join(bin, 'password')).mode & 0o077).toBe(0)
  expect(wordsOf()).toEqual(
    expect.arrayContaining([
      ...['-U', 'intake', '--auth=scram-sha-256', '--encoding=UTF8', '--builtin-locale=C.UTF-8'],
      ...['--locale-provider=builtin', '--locale=C', '--set', 'timezone=UTC', '--no-instructions'],
    ]),
  )
  expect(wordsOf()).not.toContain('--no-sync')
  expect(wordsOf().join()).not.toContain(password)
  const other = newHome()
  await initialise(other.home, other.binaries, true)
  expect(other.wordsOf()).toContain('--no-sync')
  expect(await readPassword(other.home)).not.toBe(password)
})

test('the name of the data directory is on the disk before the draft is removed', async () => {
  const { home, binaries } = newHome()
  const handle = await open(base)
  const synced = vi.spyOn(Object.getPrototypeOf(handle) as typeof handle, 'sync')
  await handle.close()
  onTestFinished(() => synced.mockRestore())
  const there: unknown[] = []
  synced.mockImplementation(async () => {
    there.push([existsSync(home.cluster), readdirSync(home.directory).some((name) => /^\.draft/.test(name))])
  })
  await initialise(home, binaries, true)
  // Of the password, and of the folder.
  expect(there).toEqual([
    [false, false],
    [true, true],
  ])
})

test('on Windows, where a folder cannot be opened, its name is left to the system', async () => {
  const { home, binaries } = newHome()
  const handle = await open(base)
  const synced = vi.spyOn(Object.getPrototypeOf(handle) as typeof handle, 'sync').mockResolvedValue()
  await handle.close()
  const platform = vi.spyOn(process, 'platform', 'get').mockReturnValue('win32')
  onTestFinished(() => {
    synced.mockRestore()
    platform.mockRestore()
  })
  await initialise(home, binaries, true)
  // Of the password alone.
  expect([synced.mock.calls.length, existsSync(home.cluster)]).toEqual([1, true])
})

test.runIf(process.getuid?.() === 0)(
  'for root it is set up by the user of the server, who gets the password',
  async () => {
    const { home, bin, binaries } = newHome()
    for (const path of [base, home.directory]) chmodSync(path, 0o711)
    chmodSync(bin, 0o777)
    const user = { name: 'nobody', uid: 65_534, gid: 65_533 }
    await initialise({ ...home, user }, binaries, true)
    const { uid, gid } = statSync(home.cluster)
    expect([uid, gid]).toEqual([65_534, 65_533])
    expect(readFileSync(join(bin, 'place'), 'utf8').split('\n')[1]).toMatch(/^drwx------\S? 65534 65533$/)
    expect(readFileSync(join(bin, 'password'), 'utf8')).toBe(await readPassword(home))
    expect(statSync(join(home.directory, 'password')).uid).toBe(0)
  },
)

test('data that are there stay as they are, and those of another version are refused', async () => {
  const { home, bin, binaries } = newHome()
  await initialise(home, binaries, true)
  const password = await readPassword(home)
  const words = join(bin, 'words')
  writeFileSync(words, 'none')
  await initialise(home, binaries, true)
  await expect(initialise(home, { bin, major: '19' }, true)).rejects.toMatchObject({
    ...{ variable: 'INTAKE_DATA_DIR', code: 'data_dir_unusable' },
    message: `the data in ${home.directory} were written by Postgres 18, and Postgres 19 is installed`,
    hint: 'Install the earlier release, or set INTAKE_DATA_DIR to a new directory and run a backfill.',
  })
  expect([readFileSync(words, 'utf8'), await readPassword(home)]).toEqual(['none', password])
})

test('a set-up that fails leaves no data directory, says why, and the next one uses the same password', async () => {
  const { home, bin, binaries } = newHome(FAILING)
  await expect(initialise(home, binaries, true)).rejects.toMatchObject({
    ...{ code: 'embedded_not_started', verdict: 'stop' },
    message: `the embedded Postgres could not be set up in ${home.directory}: initdb: error: no space left on device`,
    hint: 'Check that the disk has space and preserves file modes, or set INTAKE_DATA_DIR or DATABASE_URL.',
  })
  expect(existsSync(home.cluster)).toBe(false)
  const password = await readPassword(home)
  writeFileSync(join(bin, 'initdb'), INITDB)
  await initialise(home, binaries, true)
  expect(await readPassword(home)).toBe(password)
  expect(readFileSync(join(bin, 'password'), 'utf8')).toBe(password)
})

test('a set-up that fails without a word names its exit code', async () => {
  const { home, binaries } = newHome('#!/bin/sh\necho a warning >&2\nexit 3\n')
  await expect(initialise(home, binaries, true)).rejects.toMatchObject({
    message: `the embedded Postgres could not be set up in ${home.directory}: initdb ended with 3`,
  })
})

test.each([
  ['in any case', "echo 'FATAL:  of the server' >&2; exit 1", 'FATAL:  of the server'],
  ['in any case', "echo 'INITDB: ERROR: loud' >&2; exit 1", 'INITDB: ERROR: loud'],
  ['of several', "echo '  error: first  ' >&2; echo 'error: second' >&2; exit 1", 'error: first'],
  // More than is read at once.
  ['far from the end', "echo 'error: early' >&2; yes warning | head -c 300000 >&2; exit 1", 'error: early'],
  // By a child, once the program itself is gone.
  [
    'late',
    `own=$$; (while kill -0 $own 2>/dev/null; do :; done; echo 'error: late' >&2) & exit 1`,
    'error: late',
  ],
])('why a set-up failed is its first complaint, also one that was made %s', async (_, script, reason) => {
  const { home, binaries } = newHome(`#!/bin/bash\n${script}\n`)
  await expect(initialise(home, binaries, true)).rejects.toMatchObject({
    message: `the embedded Postgres could not be set up in ${home.directory}: ${reason}`,
  })
  expect(existsSync(home.cluster)).toBe(false)
})

test('a program for the set-up that cannot be run is an error of the system', async () => {
  const { home, bin, binaries } = newHome()
  rmSync(join(bin, 'initdb'))
  await expect(initialise(home, binaries, true)).rejects.toMatchObject({ code: 'ENOENT' })
  expect(existsSync(home.cluster)).toBe(false)
})

test('a password that was lost is an error, which says what to do', async () => {
  const { home } = newHome()
  await expect(readPassword(home)).rejects.toMatchObject({
    ...{ variable: 'INTAKE_DATA_DIR', code: 'data_dir_unusable' },
    message: `the password file of the embedded Postgres is missing in ${home.directory}`,
    hint: 'Restore it, or set INTAKE_DATA_DIR to another directory to start with an empty warehouse.',
  })
})

test('drafts of set-ups that were killed are removed, those of one that runs are not unless they are old', async () => {
  const { home, binaries } = newHome()
  const gone = 2 ** 31 - 1
  const drafts = [`.draft-${gone}-a`, `lock.released-${gone}-a`, `.draft-${process.pid}-old`]
  const kept = [`.draft-${process.pid}-new`, 'draft-1', 'server.log']
  for (const name of [...drafts, ...kept]) {
    mkdirSync(join(home.directory, name))
    writeFileSync(join(home.directory, name, 'x'), '')
  }
  const hours = (count: number) => new Date(Date.now() - count * 3_600_000)
  utimesSync(join(home.directory, drafts[2]!), hours(1.1), hours(1.1))
  utimesSync(join(home.directory, kept[0]!), hours(0.9), hours(0.9))
  await initialise(home, binaries, true)
  expect(readdirSync(home.directory).sort()).toEqual([...kept, 'cluster', 'password'].sort())
})
