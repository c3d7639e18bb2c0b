/** A process is recognized beyond its pid, and a lock ends with the process that has it. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test, vi } from 'vitest'
import { identityOf, isRunning, withLock } from '../../src/embedded/process-identity.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const folder = makeFolder('identity-')
afterAll(() => removeFolder(folder))

const own = identityOf(process.pid)!

describe('the identity of a process', () => {
  test('is that of this process only: another start, boot or pid is another process', () => {
    expect(identityOf(process.pid)).toBe(own)
    expect(own.split(' ')[0]).toBe(String(process.pid))
    expect(isRunning(own)).toBe(true)
    const others = [own.replace(/ \S+/, ' 1'), own.replace(/\S+$/, 'x'), own.replace(/^\d+/, '1'), '', 'x']
    expect(others.map(isRunning)).toEqual(others.map(() => false))
  })

  test.each([0, -1, 1.5, Number.NaN, 2 ** 53, 2 ** 31 - 1])('is none of the pid %s', (pid) => {
    expect(identityOf(pid)).toBeUndefined()
  })

  test('ends with the process, and not while the process is suspended', async () => {
    const child = spawn('sleep', ['60'])
    const identity = identityOf(child.pid!)!
    expect(isRunning(identity)).toBe(true)
    child.kill('SIGSTOP')
    if (process.platform === 'linux')
      await expect.poll(() => readFileSync(`/proc/${child.pid}/stat`, 'utf8')).toMatch(/\) T /)
    expect(isRunning(identity)).toBe(true)
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect([identityOf(child.pid!), isRunning(identity)]).toEqual([undefined, false])
  })

  test.runIf(process.platform === 'linux')('is none of a zombie', async () => {
    const parent = spawn('sh', ['-c', 'sleep 60 & echo $!; exec sleep 60'])
    const [line] = (await once(parent.stdout, 'data')) as [Buffer]
    const pid = Number(line)
    // A program that does not look after children.
    await expect.poll(() => readFileSync(`/proc/${parent.pid}/cmdline`, 'utf8')).toMatch(/^sleep/)
    expect(identityOf(pid)).toBeDefined()
    process.kill(pid, 'SIGKILL')
    await expect.poll(() => identityOf(pid)).toBeUndefined()
    expect(readFileSync(`/proc/${pid}/stat`, 'utf8')).toMatch(/\) Z /)
    parent.kill('SIGKILL')
    await once(parent, 'exit')
  })

  test.runIf(process.platform === 'linux')(
    'has the time of its start, whatever the program is called',
    async () => {
      const program = join(folder, 'a) R 1 (b')
      copyFileSync('/bin/sleep', program)
      const child = spawn(program, ['60'])
      await once(child, 'spawn')
      expect(identityOf(child.pid!)).toMatch(new RegExp(`^${child.pid} \\d{3,} [0-9a-f-]{36}$`))
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  )
})

describe('on systems without /proc', () => {
  const as = (platform: NodeJS.Platform) => vi.spyOn(process, 'platform', 'get').mockReturnValue(platform)
  afterEach(() => {
    vi.restoreAllMocks()
    vi.unstubAllEnvs()
  })

  test.runIf(process.platform === 'linux')('a process is its pid and its start, as ps says it', async () => {
    as('darwin')
    const identity = identityOf(process.pid)!
    expect(identity).toMatch(new RegExp(`^${process.pid} \\w{3} \\w{3} +\\d+ \\d\\d:\\d\\d:\\d\\d \\d{4}$`))
    expect(
      Math.abs(Date.parse(`${identity.replace(/^\d+ /, '')} UTC`) - performance.timeOrigin),
    ).toBeLessThan(60_000)
    expect([isRunning(identity), isRunning(identity.replace(/\d{4}$/, '1999'))]).toEqual([true, false])
    expect(identityOf(2 ** 31 - 1)).toBeUndefined()
    const parent = spawn('sh', ['-c', 'sleep 60 & echo $!; exec sleep 60'])
    const [line] = (await once(parent.stdout, 'data')) as [Buffer]
    await expect.poll(() => readFileSync(`/proc/${parent.pid}/cmdline`, 'utf8')).toMatch(/^sleep/)
    process.kill(Number(line), 'SIGKILL')
    await expect.poll(() => identityOf(Number(line))).toBeUndefined()
    parent.kill('SIGKILL')
    await once(parent, 'exit')
  })

  test.skipIf(process.platform === 'win32')(
    'its start is said in one language and one time zone, whatever those of the command are',
    () => {
      as('darwin')
      const own = makeFolder('ps-')
      writeFileSync(join(own, 'ps'), '#!/bin/sh\ntest "$4" = 8 || echo "S+   in $LC_ALL of $TZ: $*"\n')
      chmodSync(join(own, 'ps'), 0o755)
      for (const [name, value] of Object.entries({ PATH: own, TZ: 'Asia/Tokyo', LC_ALL: 'de_DE' }))
        vi.stubEnv(name, value)
      expect(identityOf(7)).toBe('7 in C of UTC: -o stat=,lstart= -p 7')
      // `ps` may print nothing for a process that is gone.
      expect(identityOf(8)).toBeUndefined()
      removeFolder(own)
      // Without ps, nothing is known of any process.
      expect(identityOf(7)).toBeUndefined()
    },
  )

  test('a process of Windows is its pid, also where it may not be signalled', () => {
    as('win32')
    expect([identityOf(process.pid), identityOf(2 ** 31 - 1)]).toEqual([`${process.pid}`, undefined])
    const refused = Object.assign(new Error('refused'), { code: 'EPERM' })
    vi.spyOn(process, 'kill').mockImplementation(() => {
      throw refused
    })
    expect(identityOf(7)).toBe('7')
  })
})

describe('a lock', () => {
  test('lets one in at a time, returns its result, and is free afterwards, also after a failure', async () => {
    const path = join(folder, 'lock')
    let inside = 0
    const visit = async (result: number) => {
      inside += 1
      expect(inside).toBe(1)
      expect(readFileSync(path, 'utf8').split('\n')[0]).toBe(own)
      await new Promise(setImmediate)
      inside -= 1
      if (result === 2) throw new Error('of the second')
      return result
    }
    const visits = [1, 2, 3].map((each) => withLock(path, 60_000, () => visit(each)))
    expect(await Promise.allSettled(visits)).toEqual([
      { status: 'fulfilled', value: 1 },
      { status: 'rejected', reason: new Error('of the second') },
      { status: 'fulfilled', value: 3 },
    ])
    expect(readdirSync(folder).filter((name) => name.startsWith('lock'))).toEqual([])
  })

  test('of a process that ended is taken over; that of one that runs is waited for, and kept', async () => {
    const path = join(folder, 'other')
    writeFileSync(path, `${own.replace(/ \S+/, ' 1')}\nabc`)
    expect(await withLock(path, 60_000, async () => 'in')).toBe('in')
    expect(existsSync(path)).toBe(false)
    writeFileSync(path, `${own}\nanother`)
    for (const milliseconds of [-1, 60])
      await expect(withLock(path, milliseconds, async () => 'in')).rejects.toMatchObject({
        ...{ code: 'embedded_busy', verdict: 'retry' },
        message: `another process has been starting the embedded Postgres for too long (${path})`,
        hint: 'Check whether an intake-sync process hangs; the lock is released when that process ends.',
      })
    expect(readFileSync(path, 'utf8')).toBe(`${own}\nanother`)
  })

  test('that another process has by the end is left to it', async () => {
    const path = join(folder, 'next')
    await withLock(path, 60_000, async () => writeFileSync(path, 'of another'))
    expect(readFileSync(path, 'utf8')).toBe('of another')
    expect(readdirSync(folder).filter((name) => name.includes('released'))).toEqual([])
  })
})
