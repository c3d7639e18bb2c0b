/** A data directory leads to one home, which the server's user can reach, or to an instruction. */
import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { canReach, findHome, OUTSIDE } from '../../src/embedded/home.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const ROOT = process.getuid?.() === 0
const base = makeFolder('home-')
chmodSync(base, 0o711)
afterAll(() => removeFolder(base))

let folders = 0
function newFolder(mode = 0o711): string {
  const folder = join(base, `of ${++folders}`)
  mkdirSync(folder)
  chmodSync(folder, mode)
  return folder
}

async function homeOf(dataDir: string, outside?: readonly string[]) {
  const notices: string[] = []
  return { ...(await findHome(dataDir, (line) => notices.push(line), outside)), notices }
}

const UNUSABLE = { variable: 'INTAKE_DATA_DIR', code: 'data_dir_unusable' }

describe('the home of a data directory', () => {
  test('is the directory itself, which is made for the server alone', async () => {
    const directory = join(newFolder(), 'new', 'data')
    const found = await homeOf(directory)
    expect(found).toMatchObject({ directory, cluster: join(directory, 'cluster'), notices: [] })
    expect(statSync(directory).mode & 0o777).toBe(ROOT ? 0o711 : 0o700)
    chmodSync(directory, 0o755)
    expect(await homeOf(directory)).toEqual(found)
    expect(statSync(directory).mode & 0o777).toBe(0o755)
  })

  test.runIf(ROOT)(
    'that root makes in the folder of a user belongs to that user, who is the one of the server',
    async () => {
      const folder = newFolder(0o755)
      chownSync(folder, 65_534, 65_534)
      const { user, directory, notices } = await homeOf(join(folder, 'data'))
      expect([statSync(directory).uid, statSync(directory).gid]).toEqual([65_534, 65_534])
      expect(user).toMatchObject({ uid: 65_534, gid: 65_534 })
      expect([directory, notices]).toEqual([join(folder, 'data'), []])
    },
  )

  test('is one, whatever name leads to it', async () => {
    const directory = newFolder()
    symlinkSync(directory, join(base, 'link'))
    expect((await homeOf(join(base, 'link'))).directory).toBe(directory)
  })

  test.each(['"', '$', '`', '\\', '\n', '\r'])('may not have %j in its path', async (character) => {
    const directory = join(newFolder(), `a${character}b`)
    await expect(homeOf(directory)).rejects.toMatchObject({
      ...{ ...UNUSABLE, hint: 'Set INTAKE_DATA_DIR to a path without them.' },
      message: `Postgres cannot be set up in ${directory}: its tools misread quotes, $, \` and \\ in a path`,
    })
  })

  test('has to be one that can be made', async () => {
    const file = join(newFolder(), 'file')
    writeFileSync(file, '')
    await expect(homeOf(join(file, 'data'))).rejects.toMatchObject({
      ...{ ...UNUSABLE, hint: 'Set INTAKE_DATA_DIR to a directory that this user may write.' },
      message: `the data directory ${join(file, 'data')} cannot be created (ENOTDIR)`,
    })
  })

  test('is where its pointer leads, also when that was removed', async () => {
    const [directory, elsewhere] = [newFolder(), join(newFolder(), 'moved')]
    writeFileSync(join(directory, 'server-files-are-in'), `${elsewhere}\n`)
    const { notices, ...found } = await homeOf(directory)
    expect(found).toMatchObject({ directory: elsewhere, cluster: join(elsewhere, 'cluster') })
    const root = `running as root: the embedded Postgres runs as the user ${found.user?.name}, who cannot reach ${directory}`
    const others = `root set up the embedded Postgres of ${directory} outside of it`
    expect(notices).toEqual([`${ROOT ? root : others}; its files are in ${elsewhere}`])
    const getuid = vi.spyOn(process, 'getuid').mockReturnValue(1_000)
    onTestFinished(() => getuid.mockRestore())
    expect(await homeOf(directory)).toMatchObject({
      ...{ directory: elsewhere, user: undefined },
      notices: [`${others}; its files are in ${elsewhere}`],
    })
    expect(existsSync(elsewhere)).toBe(true)
  })

  test.runIf(ROOT)('is served by the owner of the data where its pointer leads', async () => {
    const [directory, elsewhere] = [newFolder(), newFolder()]
    writeFileSync(join(directory, 'server-files-are-in'), `${elsewhere}\n`)
    for (const [folder, id] of [
      [directory, 65_533],
      [elsewhere, 1],
    ] as const) {
      mkdirSync(join(folder, 'cluster'))
      chownSync(join(folder, 'cluster'), id, id + 1)
    }
    expect((await homeOf(directory)).user).toMatchObject({ uid: 1, gid: 2 })
    // Without a cluster, the owner of the data directory decides.
    for (const folder of [directory, elsewhere]) rmdirSync(join(folder, 'cluster'))
    chownSync(directory, 65_534, 65_533)
    chownSync(elsewhere, 1, 2)
    expect((await homeOf(directory)).user).toMatchObject({ uid: 65_534, gid: 65_533 })
  })

  test.runIf(ROOT)(
    'is outside of a closed directory, the same each time, and a new one once the pointer is gone',
    async () => {
      const directory = join(newFolder(0o700), 'data')
      const pointer = join(directory, 'server-files-are-in')
      const first = await homeOf(directory)
      const second = await homeOf(directory)
      expect([second.directory, second.user]).toEqual([first.directory, first.user])
      expect(readFileSync(pointer, 'utf8')).toBe(`${first.directory}\n`)
      expect(first.notices).toEqual([
        expect.stringContaining(`who cannot reach ${directory}; its files are in`),
      ])
      expect(await canReach(first.user, first.directory)).toBe(true)
      rmSync(pointer)
      const third = await homeOf(directory)
      expect(third.directory).toBe(`${first.directory}-2`)
      expect(third.notices[0]).toBe(
        `an earlier warehouse of ${directory} is left in ${first.directory}; remove it when nobody needs it`,
      )
      rmSync(pointer)
      const fourth = await homeOf(directory)
      expect(fourth.directory).toBe(`${first.directory}-3`)
      const left = (path: string) =>
        `an earlier warehouse of ${directory} is left in ${path}; remove it when nobody needs it`
      expect(fourth.notices.slice(0, -1)).toEqual([left(first.directory), left(third.directory)])
      for (const each of [first, third, fourth]) rmdirSync(each.directory)
      try {
        rmdirSync(join(first.directory, '..'))
      } catch {
        // It contains files of others.
      }
    },
  )
})

describe('a home outside of the data directory', () => {
  test('is kept when the machine starts again, where that is possible', () => {
    expect(OUTSIDE[0]).toBe('/var/lib/intake-sync')
    expect(OUTSIDE[1]).toBe(join(tmpdir(), 'intake-sync-root'))
  })

  test.runIf(ROOT)('is in the first place that can be made and is our own', async () => {
    const [file, others, own] = [join(newFolder(), 'file'), newFolder(), join(newFolder(), 'own')]
    writeFileSync(file, '')
    chownSync(others, 65_534, 65_534)
    const unusable = [join(file, 'place'), others]
    const closed = newFolder(0o700)
    const { directory } = await homeOf(closed, [...unusable, own, newFolder()])
    const name = createHash('sha256').update(closed).digest('hex').slice(0, 16)
    expect([directory, readdirSync(others)]).toEqual([join(own, name), []])
    expect(statSync(own).mode & 0o777).toBe(0o711)
    await expect(homeOf(newFolder(0o700), unusable)).rejects.toMatchObject({
      ...{ ...UNUSABLE, message: 'found no directory in which the embedded Postgres could store its data' },
      hint: 'Set INTAKE_DATA_DIR to a directory on a local disk that other users may pass through (mode 711).',
    })
  })

  test.runIf(ROOT)('is the same for all who start at the same moment', async () => {
    const [closed, place] = [newFolder(0o700), newFolder()]
    const found = await Promise.all([1, 2, 3].map(() => homeOf(closed, [place])))
    const directories = new Set(found.map(({ directory }) => directory))
    expect([...directories].map((path) => dirname(path))).toEqual([place])
    expect(readdirSync(place)).toHaveLength(1)
  })
})

describe('a directory can be reached', () => {
  const { uid, gid } = statSync(base)
  const user = (more: object) => ({ name: 'x', uid: uid + 1, gid: gid + 1, ...more })

  test.each([
    [0o701, {}, true],
    [0o710, {}, false],
    [0o710, { gid }, true],
    [0o701, { gid }, false],
    [0o100, { uid }, true],
    [0o077, { uid }, false],
    [0o706, {}, false],
  ])('with mode %o by %j: %j', async (mode, own, expected) => {
    const folder = newFolder()
    const inside = join(folder, 'inside')
    mkdirSync(inside)
    chmodSync(inside, 0o777)
    chmodSync(folder, mode)
    expect([await canReach(user(own), folder), await canReach(undefined, folder)]).toEqual([expected, true])
    // Through each directory on the way.
    if (ROOT) expect(await canReach(user(own), inside)).toBe(expected)
    chmodSync(folder, 0o700)
  })
})
