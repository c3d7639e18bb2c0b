import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import { makeLibraryLinks, prepareBinaries } from '../../src/embedded/binaries.ts'
import { findPackage } from '../../src/embedded/package.ts'
import { builtFile } from '../support/built.ts'
import {
  cleanUp,
  directoryOf,
  isServed,
  NOBODY,
  postmasterOf,
  query,
  ROOT,
  start,
  supervisorOf,
  temporaryDirectory,
  whyNoOrdinaryUser,
} from '../support/embedded-fixture.ts'

const noOrdinaryUser = whyNoOrdinaryUser()

/** The platform package as npm leaves it when install scripts do not run. */
function packageWithoutLinks() {
  const from = findPackage()
  const directory = join(temporaryDirectory(), 'package')
  for (const part of ['bin', 'lib', 'share', 'pg-symlinks.json']) {
    cpSync(join(from.directory, 'native', part), join(directory, 'native', part), {
      recursive: true,
      filter: (source) => !lstatSync(source).isSymbolicLink(),
    })
  }
  return { ...from, directory }
}

function homeIn(directory: string) {
  return { directory, cluster: join(directory, 'cluster'), user: undefined }
}

describe('for root, the embedded server', () => {
  afterEach(cleanUp)

  test.skipIf(!ROOT)(
    'runs as another user, with its data inside a directory that this one can reach',
    async () => {
      const directory = join(temporaryDirectory(), 'data')
      const command = start(directory)
      expect(await command.opened).toMatchObject({ directory, notices: [] })
      expect(statSync(join(directory, 'cluster')).uid).not.toBe(0)
      await command.stop()
    },
  )

  test.skipIf(!ROOT)('moves out of a closed directory, says where to, and is found there again', async () => {
    const closed = join(temporaryDirectory(), 'closed')
    mkdirSync(closed, { mode: 0o700 })
    const dataDir = join(closed, 'data')
    const first = start(dataDir)
    const { url, directory, notices } = await first.opened
    expect(directory).toMatch(/^\/var\/lib\/intake-sync\/|intake-sync-root/)
    expect(notices).toEqual([expect.stringContaining(directory)])
    expect(readdirSync(dataDir)).toEqual(['server-files-are-in'])
    await query(url, 'create table kept as select 42 as answer')
    await first.stop()
    const second = start(dataDir)
    expect((await second.opened).directory).toBe(directory)
    expect(await query((await second.opened).url, 'select * from kept')).toEqual([{ answer: 42 }])
    await second.stop()

    // Whoever removes the data directory asks for a new warehouse; the old one is not brought back behind her back.
    rmSync(dataDir, { recursive: true })
    const third = start(dataDir)
    expect((await third.opened).directory).not.toBe(directory)
    expect((await third.opened).notices[0]).toContain(`is left in ${directory};`)
    await expect(query((await third.opened).url, 'select * from kept')).rejects.toMatchObject({
      code: '42P01',
    })
    await third.stop()
    rmSync(directory, { recursive: true })
  })

  test.skipIf(!ROOT)(
    'starts, recovers and stops in a container whose root may not trace other processes',
    async () => {
      const directory = join(temporaryDirectory(), 'data')
      const wrapper = ['setpriv', '--bounding-set=-sys_ptrace', '--inh-caps=-sys_ptrace']
      const first = start(directory, { wrapper })
      await first.opened
      for (const pid of [supervisorOf(directory), postmasterOf(directory)]) process.kill(pid, 'SIGKILL')
      await first.kill()
      const second = start(directory, { wrapper })
      await second.opened
      await second.stop()
      expect(isServed(directory)).toBe(false)
    },
  )

  test.skipIf(noOrdinaryUser !== undefined)(
    `runs as the owner of a directory that is an ordinary user's, who can use it afterwards${noOrdinaryUser === undefined ? '' : ` (skipped: ${noOrdinaryUser})`}`,
    async () => {
      const directory = directoryOf(NOBODY)
      const visit = start(directory)
      await visit.opened
      expect(statSync(join(directory, 'cluster')).uid).toBe(NOBODY)
      await visit.stop()
      const hers = start(directory, { uid: NOBODY })
      expect(await query((await hers.opened).url, 'select 1 as one')).toEqual([{ one: 1 }])
      await hers.stop()
    },
  )
})

describe('for an ordinary user, the embedded server', () => {
  afterEach(cleanUp)
  const skipped = noOrdinaryUser === undefined ? '' : ` (skipped: ${noOrdinaryUser})`

  test.skipIf(noOrdinaryUser !== undefined)(
    `keeps everything inside the data directory${skipped}`,
    async () => {
      const directory = join(directoryOf(NOBODY), 'new', 'data')
      const command = start(directory, { uid: NOBODY })
      expect(await command.opened).toMatchObject({ directory, notices: [] })
      expect(statSync(join(directory, 'cluster')).uid).toBe(NOBODY)
      expect(statSync(directory).mode & 0o777).toBe(0o700)
      await command.stop()
      expect(isServed(directory)).toBe(false)
    },
  )

  test.skipIf(noOrdinaryUser !== undefined)(
    `refuses another user's data with what to do${skipped}`,
    async () => {
      const directory = join(temporaryDirectory(), 'data')
      const roots = start(directory)
      await roots.opened
      await roots.stop()
      chmodSync(directory, 0o755)
      await expect(start(directory, { uid: NOBODY }).opened).rejects.toThrow(/another user.*INTAKE_DATA_DIR/)
    },
  )

  test.skipIf(noOrdinaryUser !== undefined)(
    `refuses a directory it cannot make with what to do${skipped}`,
    async () => {
      const closed = join(temporaryDirectory(), 'closed')
      mkdirSync(closed, { mode: 0o700 })
      await expect(start(join(closed, 'data'), { uid: NOBODY }).opened).rejects.toThrow(
        /EACCES.*INTAKE_DATA_DIR/,
      )
    },
  )

  test.skipIf(noOrdinaryUser !== undefined)(
    `copies programs that lack links out of a read-only package${skipped}`,
    () => {
      const from = packageWithoutLinks()
      const home = directoryOf(NOBODY)
      const binaries = builtFile('embedded/binaries.js')
      const program = `
      import { prepareBinaries } from ${JSON.stringify(pathToFileURL(binaries))}
      const notices = []
      const { bin } = await prepareBinaries(${JSON.stringify(homeIn(home))}, (line) => notices.push(line), ${JSON.stringify(from)})
      console.log(JSON.stringify({ bin, notices }))`
      const parameters = ['--input-type=module', '-e', program]
      const printed = execFileSync(process.execPath, parameters, {
        uid: NOBODY,
        gid: NOBODY,
        encoding: 'utf8',
      })
      const { bin, notices } = JSON.parse(printed)
      expect(bin).toBe(join(home, `binaries-${from.version}`, 'native', 'bin'))
      expect(notices).toEqual([expect.stringMatching(/read-only.*private copy/)])
      expect(existsSync(join(from.directory, 'native', 'lib', 'libpq.so.5'))).toBe(false)
    },
  )
})

describe('the programs of the platform package', () => {
  afterEach(cleanUp)

  test('run after install scripts did not: the links they need are made, by any number of processes at once', async () => {
    const from = packageWithoutLinks()
    const listed: { target: string }[] = JSON.parse(
      readFileSync(join(from.directory, 'native', 'pg-symlinks.json'), 'utf8'),
    )
    const made = await Promise.all([1, 2, 3].map(() => makeLibraryLinks(from.directory)))
    expect(made).toEqual([true, true, true])
    for (const { target } of listed) expect(existsSync(join(from.directory, target))).toBe(true)
    const { bin } = await prepareBinaries(homeIn(temporaryDirectory()), () => undefined, from)
    expect(bin).toBe(join(from.directory, 'native', 'bin'))
  })

  test('that do not run here (musl, an old C library) end in an instruction', async () => {
    const from = packageWithoutLinks()
    // What the kernel says to a program whose loader is missing, as glibc's is under musl.
    writeFileSync(join(from.directory, 'native', 'bin', 'postgres'), '#!/no/such/loader\n')
    await expect(prepareBinaries(homeIn(temporaryDirectory()), () => undefined, from)).rejects.toMatchObject({
      hint: expect.stringContaining('DATABASE_URL'),
    })
  })
})
