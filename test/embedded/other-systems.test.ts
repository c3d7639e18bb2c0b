/** File systems and processes that behave as those of other machines do, or change at the moment when they are used. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  constants,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, afterEach, expect, test, vi } from 'vitest'
import { makeLibraryLinks } from '../../src/embedded/binaries.ts'
import { findHome } from '../../src/embedded/home.ts'
import { initialise } from '../../src/embedded/initialise.ts'
import { serves } from '../../src/embedded/postmaster.ts'
import { withLock } from '../../src/embedded/process-identity.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

/** What happens before a function is called, by its name: it may change files, or fail. */
const before = vi.hoisted(() => new Map<string, (...words: unknown[]) => void>())
const hooked = vi.hoisted(() => (real: Record<string, unknown>, names: readonly string[]) => {
  const own = names.map((name) => [
    name,
    (...words: unknown[]) => {
      before.get(name)?.(...words)
      return (real[name] as (...words: unknown[]) => unknown)(...words)
    },
  ])
  return { ...real, ...Object.fromEntries(own) }
})
vi.mock('node:fs/promises', async (original) => {
  const names = ['access', 'link', 'lstat', 'rename', 'rm', 'symlink']
  const real = hooked(await original(), names)
  const waiting = names.map((name) => [
    name,
    async (...words: unknown[]) => await (real[name] as (...words: unknown[]) => unknown)(...words),
  ])
  return { ...real, ...Object.fromEntries(waiting) }
})
vi.mock('node:fs', async (original) => hooked(await original(), ['readlinkSync']))

const ROOT = process.getuid?.() === 0
const base = makeFolder('other-')
chmodSync(base, 0o711)
afterAll(() => removeFolder(base))
const started: ChildProcess[] = []
afterEach(() => {
  before.clear()
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

let folders = 0
function newFolder(mode = 0o711, name = `${++folders}`): string {
  const folder = join(base, name)
  mkdirSync(folder)
  chmodSync(folder, mode)
  return folder
}
const failure = (code: string) => Object.assign(new Error('of the system'), { code })

/** A package with one library, which needs one link. */
function newPackage() {
  const directory = newFolder()
  mkdirSync(join(directory, 'native/lib'), { recursive: true })
  writeFileSync(join(directory, 'native/lib/libpq.so.5.18'), 'library')
  const [source, target] = ['native/lib/libpq.so.5.18', 'native/lib/libpq.so.5']
  writeFileSync(join(directory, 'native/pg-symlinks.json'), JSON.stringify([{ source, target }]))
  return { directory, library: join(directory, target) }
}

test('a library link that another process makes at the same moment is left as it is', async () => {
  const { directory, library } = newPackage()
  before.set('symlink', () => symlinkSync('of-another', library))
  expect(await makeLibraryLinks(directory)).toBe(true)
  expect(readlinkSync(library)).toBe('of-another')
})

test('where a library can be neither linked nor copied, that is reported, and no part of a copy is left', async () => {
  const { directory, library } = newPackage()
  before.set('symlink', () => {
    throw failure('EPERM')
  })
  before.set('rename', () => {
    throw failure('ENOSPC')
  })
  expect(await makeLibraryLinks(directory)).toBe(false)
  expect(readdirSync(dirname(library))).toEqual(['libpq.so.5.18'])
})

test('leftover drafts of earlier set-ups that vanish or cannot be removed do not prevent a set-up', async () => {
  const directory = newFolder()
  const [gone, kept, removed] = ['a', 'b', 'c'].map((name) =>
    join(directory, `.draft-${2 ** 31 - 1}-${name}`),
  )
  for (const path of [gone!, kept!, removed!, join(directory, 'cluster')]) mkdirSync(path)
  const cluster = join(directory, 'cluster')
  writeFileSync(join(cluster, 'PG_VERSION'), '18\n')
  before.set('lstat', (path) => {
    if (path === gone) rmdirSync(gone!)
  })
  before.set('rm', (path) => {
    if (path === kept) throw failure('EPERM')
  })
  await initialise({ directory, cluster, user: undefined }, { bin: '/none', major: '18' }, true)
  expect(readdirSync(directory).map((name) => join(directory, name))).toEqual([kept, cluster])
})

const noNotice = () => undefined

test('a data directory that cannot be written is refused with what to do about it', async () => {
  const directory = newFolder()
  let asked: unknown
  before.set('access', (...words) => {
    asked = words
    throw failure('EACCES')
  })
  await expect(findHome(directory, noNotice)).rejects.toMatchObject({
    ...{ variable: 'INTAKE_DATA_DIR', code: 'data_dir_unusable' },
    message: `the data directory ${directory} belongs to another user, or cannot be written`,
    hint: 'Run intake-sync as the user who created it, or set INTAKE_DATA_DIR to another directory.',
  })
  expect(asked).toEqual([directory, constants.R_OK | constants.W_OK | constants.X_OK])
})

test.runIf(ROOT).each(['EACCES', 'EROFS', 'EPERM'])(
  'a place outside that is not to be written (%s) is passed over',
  async (code) => {
    const [closed, refused, place] = [newFolder(0o700), newFolder(), newFolder()]
    const asked: unknown[] = []
    before.set('access', (path, mode) => {
      if (path === refused || path === place) asked.push([path, mode])
      if (path === refused) throw failure(code)
    })
    const { directory } = await findHome(closed, noNotice, [refused, place])
    expect(dirname(directory)).toBe(place)
    expect(asked).toEqual([refused, place].map((path) => [path, constants.W_OK]))
  },
)

test.runIf(ROOT)('a place outside whose disk fails is no reason to take the next one', async () => {
  const [closed, broken] = [newFolder(0o700), newFolder()]
  before.set('access', () => {
    throw failure('EIO')
  })
  await expect(findHome(closed, noNotice, [broken, newFolder()])).rejects.toMatchObject({ code: 'EIO' })
})

test.runIf(ROOT)('a home that another process chose at the same moment is used by both', async () => {
  const [closed, place, theirs] = [newFolder(0o700), newFolder(), newFolder()]
  before.set('link', () => {
    before.delete('link')
    writeFileSync(join(closed, 'server-files-are-in'), `${theirs}\n`)
  })
  const { directory } = await findHome(closed, noNotice, [place])
  expect(directory).toBe(theirs)
  expect(readdirSync(place)).toEqual([])
})

test('the home that a pointer names by a link is the directory behind it', async () => {
  const [directory, elsewhere] = [newFolder(), newFolder()]
  const link = join(base, 'link')
  symlinkSync(elsewhere, link)
  writeFileSync(join(directory, 'server-files-are-in'), `${link}\n`)
  expect(await findHome(directory, noNotice)).toMatchObject({
    ...{ directory: elsewhere, cluster: join(elsewhere, 'cluster') },
  })
})

test('a lock that is gone at the end has been removed by somebody; one that cannot be removed is an error', async () => {
  const path = join(newFolder(), 'lock')
  const removing = withLock(path, 60_000, async () => {
    rmSync(path)
    return 'done'
  })
  expect(await removing).toBe('done')
  before.set('rename', () => {
    throw failure('EIO')
  })
  await expect(withLock(path, 60_000, async () => 'done')).rejects.toMatchObject({
    code: 'EIO',
  })
})

test('a lock that a third process takes while the lock of another one is being restored stays with the third', async () => {
  const path = join(newFolder(), 'lock')
  await withLock(path, 60_000, async () => {
    writeFileSync(path, 'of another')
    const third = (_: unknown, to: unknown) => {
      if (to === path) writeFileSync(path, 'of a third')
    }
    for (const name of ['link', 'rename']) before.set(name, third)
  })
  expect(readFileSync(path, 'utf8')).toBe('of a third')
  expect(readdirSync(dirname(path))).toEqual(['lock'])
})

/** A child of a server that works in the directory `cluster`. */
async function childOf(cluster: string): Promise<number> {
  const user = ROOT ? { uid: 65_534, gid: 65_533 } : {}
  const child = spawn('sleep', ['60'], { argv0: 'postgres: writer ', cwd: cluster, ...user })
  started.push(child)
  await once(child, 'spawn')
  await expect.poll(() => readFileSync(`/proc/${child.pid}/cmdline`, 'utf8')).toMatch(/^postgres/)
  return child.pid!
}

test.runIf(ROOT && process.platform === 'linux')(
  'where root may not see in which directory a process works, the user of the server looks',
  async () => {
    // A name that ends in a blank is another one than without.
    const [cluster, other] = [newFolder(0o711, 'cluster '), newFolder(0o711, 'cluster')]
    const directory = base
    const user = { name: 'nobody', uid: 65_534, gid: 65_533 }
    const pid = await childOf(cluster)
    for (const code of ['EACCES', 'EPERM', 'ENOENT']) {
      before.set('readlinkSync', () => {
        throw failure(code)
      })
      expect([
        serves(pid, { directory, cluster, user }),
        serves(pid, { directory, cluster: other, user }),
        serves(pid, { directory, cluster, user: undefined }),
        serves(pid, { directory, cluster, user: { ...user, uid: 65_532 } }),
      ]).toEqual([code !== 'ENOENT', false, false, false])
    }
  },
)
