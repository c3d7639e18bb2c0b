/** Small files of the embedded server: whole or absent, for their owner only, in spite of any number of writers. */
import {
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test, vi } from 'vitest'
import {
  createPrivate,
  giveToOwnerOfDirectory,
  isCode,
  readIfThere,
  writePrivate,
} from '../../src/embedded/private-file.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const base = makeFolder('private-')
afterAll(() => removeFolder(base))

let folders = 0
function newFolder(): string {
  const folder = join(base, String(++folders))
  mkdirSync(folder)
  return folder
}

test('a written file replaces the one that was there, and only its owner may read it', async () => {
  const folder = newFolder()
  const path = join(folder, 'port')
  writeFileSync(path, 'a longer text than the next', { mode: 0o644 })
  await writePrivate(path, 'next')
  expect(readFileSync(path, 'utf8')).toBe('next')
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(readdirSync(folder)).toEqual(['port'])
})

test('a file has its name only once its text is on the disk', async () => {
  const path = join(newFolder(), 'password')
  const handle = await open(base)
  const synced = vi.spyOn(Object.getPrototypeOf(handle) as typeof handle, 'sync')
  await handle.close()
  onTestFinished(() => synced.mockRestore())
  const named: boolean[] = []
  synced.mockImplementation(async () => void named.push(existsSync(path)))
  await createPrivate(path, 'first')
  rmSync(path)
  await writePrivate(path, 'second')
  expect(named).toEqual([false, false])
})

test.runIf(process.platform === 'linux')(
  'no file stays open, even if its text cannot be written to the disk; such a file gets no name',
  async () => {
    const folder = newFolder()
    const inFolder = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`).startsWith(folder)
        } catch {
          return false
        }
      })
    const [written, created] = [join(folder, 'written'), join(folder, 'created')]
    await writePrivate(written, 'first')
    await createPrivate(created, 'x')
    expect(inFolder()).toEqual([])
    const handle = await open(base)
    const synced = vi.spyOn(Object.getPrototypeOf(handle) as typeof handle, 'sync')
    await handle.close()
    onTestFinished(() => synced.mockRestore())
    synced.mockRejectedValue(new Error('no space'))
    for (const path of [written, join(folder, 'other')])
      await expect(writePrivate(path, 'second')).rejects.toThrow('no space')
    await expect(createPrivate(join(folder, 'third'), 'x')).rejects.toThrow('no space')
    expect([inFolder(), readFileSync(written, 'utf8')]).toEqual([[], 'first'])
    expect(readdirSync(folder).filter((name) => !name.includes('.draft-'))).toEqual(['created', 'written'])
  },
)

test('of many who create a file one succeeds, the file is hers, and nothing else is left', async () => {
  const folder = newFolder()
  const path = join(folder, 'lock')
  const created = await Promise.all([1, 2, 3, 4, 5].map((each) => createPrivate(path, `text ${each}`)))
  expect(created.filter(Boolean)).toHaveLength(1)
  expect(readFileSync(path, 'utf8')).toBe(`text ${created.indexOf(true) + 1}`)
  expect(await createPrivate(path, 'later')).toBe(false)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(readdirSync(folder)).toEqual(['lock'])
  await expect(createPrivate(join(folder, 'none', 'lock'), 'x')).rejects.toMatchObject({ code: 'ENOENT' })
})

test('a file that is not there has no text, and one that cannot be read is an error', async () => {
  const folder = newFolder()
  expect(await readIfThere(join(folder, 'none'))).toBeUndefined()
  await expect(readIfThere(folder)).rejects.toMatchObject({ code: 'EISDIR' })
  writeFileSync(join(folder, 'empty'), '')
  expect(await readIfThere(join(folder, 'empty'))).toBe('')
})

test('an error is recognized by one of several codes', () => {
  const error = Object.assign(new Error('x'), { code: 'EACCES' })
  expect([isCode(error, 'ENOENT', 'EACCES'), isCode(error, 'ENOENT'), isCode(error)]).toEqual([
    ...[true, false, false],
  ])
  expect([isCode(new Error('x'), 'ENOENT'), isCode({ code: 'ENOENT' }, 'ENOENT')]).toEqual([false, false])
})

test.runIf(process.getuid?.() === 0)(
  'what root makes in the folder of a user belongs to that user',
  async () => {
    const folder = newFolder()
    chownSync(folder, 65_534, 65_533)
    const [written, created, given] = ['written', 'created', 'given'].map((name) => join(folder, name))
    await writePrivate(written!, 'x')
    await createPrivate(created!, 'x')
    writeFileSync(given!, 'x')
    await giveToOwnerOfDirectory(given!)
    for (const path of [written!, created!, given!])
      expect([statSync(path).uid, statSync(path).gid]).toEqual([65_534, 65_533])
  },
)
