/** The user that the server runs as: the current one, or for root another one that is able to run it. */
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { findServerUser } from '../../src/embedded/home.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const ROOT = process.getuid?.() === 0
const base = makeFolder('home-user-')
chmodSync(base, 0o711)
afterAll(() => removeFolder(base))

let folders = 0
function newFolder(mode = 0o711): string {
  const folder = join(base, `of ${++folders}`)
  mkdirSync(folder)
  chmodSync(folder, mode)
  return folder
}

describe('the user of the server', () => {
  test.runIf(!ROOT)('is oneself', async () => {
    expect(await findServerUser([base])).toBeUndefined()
  })

  test.runIf(ROOT)(
    'is for root the owner of the first folder that root does not own, or else a user who owns nothing',
    async () => {
      const [one, two, roots] = [newFolder(), newFolder(), newFolder()]
      chownSync(one, 65_534, 65_534)
      chownSync(two, 1, 1)
      const uidOf = async (...places: string[]) => (await findServerUser(places))!.uid
      expect(await uidOf(join(base, 'none'), roots, one, two)).toBe(65_534)
      expect(await uidOf(two, one)).toBe(1)
      // A path below a file does not exist.
      writeFileSync(join(roots, 'file'), '')
      expect(await uidOf(join(roots, 'file', 'cluster'), one)).toBe(65_534)
      const other = (await findServerUser([roots]))!
      expect(other.uid).toBeGreaterThan(0)
      expect(other.gid).toBeGreaterThan(0)
      expect(other.name).toMatch(/^(?:_?postgres|nobody|daemon|bin)$/)
      const idOf = (option: string) => Number(execFileSync('id', [option, other.name], { encoding: 'utf8' }))
      expect([other.uid, other.gid]).toEqual([idOf('-u'), idOf('-g')])
    },
  )

  /** In place of the system's: knows these names, with user and group, and lets root become user 9 only. */
  const systemId = ['/usr/bin/id', '/bin/id'].find((path) => existsSync(path))
  const knowing = (names: Readonly<Record<string, readonly [number, number]>>) => {
    const folder = newFolder(0o755)
    const lines = Object.entries(names).map(
      ([name, [uid, gid]]) => `"-u ${name}") echo ${uid};; "-g ${name}") echo ${gid};;`,
    )
    const own = `"-u") test "$(${systemId} -u) $(${systemId} -g)" = "9 10";;`
    writeFileSync(join(folder, 'id'), `#!/bin/sh\ncase "$*" in ${lines.join(' ')} ${own} *) exit 1;; esac\n`)
    chmodSync(join(folder, 'id'), 0o755)
    vi.stubEnv('PATH', folder)
    onTestFinished(() => void vi.unstubAllEnvs())
  }

  test.runIf(ROOT)('is one that root may become, of a group that is not root’s', async () => {
    knowing({ postgres: [7, 8], _postgres: [0, 10], nobody: [9, 0], daemon: [9, 10], bin: [9, 10] })
    expect(await findServerUser([])).toEqual({ name: 'daemon', uid: 9, gid: 10 })
    for (const name of ['postgres', '_postgres', 'nobody', 'daemon', 'bin']) {
      knowing({ [name]: [9, 10] })
      expect(await findServerUser([])).toEqual({ name, uid: 9, gid: 10 })
    }
    knowing({})
    await expect(findServerUser([])).rejects.toMatchObject({
      ...{ code: 'embedded_unavailable', variable: 'DATABASE_URL', verdict: 'stop' },
      message: 'Postgres refuses to run as root, and this machine has no other user that it could run as',
      hint: 'Run intake-sync as an ordinary user, or set DATABASE_URL to a Postgres 15 to 18.',
    })
  })
})
