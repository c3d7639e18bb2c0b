import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { identityOf } from '../../src/embedded/process-identity.ts'
import {
  cleanUp,
  copyOf,
  isServed,
  makeOnce,
  openEmbedded,
  postmasterOf,
  query,
  ROOT,
  start,
  supervisorOf,
  temporaryDirectory,
  until,
} from '../support/embedded-fixture.ts'

/** A process that has nothing to do with us, under the same user as the server: the one Postgres itself would fear. */
function startStranger(directory: string) {
  const owner = ROOT ? Number(execFileSync('stat', ['-c', '%u', join(directory, 'cluster')])) : undefined
  return spawn('sleep', ['60'], owner === undefined ? {} : { uid: owner })
}

describe('after a kill, the embedded server', () => {
  let made: string
  beforeAll(async () => {
    made = await makeOnce()
    return () => rmSync(made, { recursive: true, force: true })
  })
  afterEach(cleanUp)

  const reopen = async (directory: string) => {
    await using server = await openEmbedded({ dataDir: directory, unsafe: true })
    return await query(server.url, 'select * from kept')
  }
  const startWithRow = async (directory: string) => {
    const command = start(directory)
    const { url } = await command.opened
    // Tests' servers write the log late; here it must be out of the process before the kill.
    await query(url, 'set synchronous_commit = on; create table kept as select 42 as answer')
    return { command, url }
  }

  test('stops soon after its only user was killed, and keeps committed rows', async () => {
    const directory = copyOf(made)
    const { command } = await startWithRow(directory)
    const pids = [postmasterOf(directory), supervisorOf(directory)]
    await command.kill()
    await until('server and supervisor are gone', () => pids.every((pid) => identityOf(pid) === undefined))
    expect(await reopen(directory)).toEqual([{ answer: 42 }])
  })

  test('continues for the others when one of its users was killed', async () => {
    const directory = copyOf(made)
    const { command } = await startWithRow(directory)
    const server = await openEmbedded({ dataDir: directory, unsafe: true })
    const postmaster = postmasterOf(directory)
    await command.kill()
    // The connection of the killed user is closed by now: who comes and goes is answered after that was seen.
    const next = await openEmbedded({ dataDir: directory, unsafe: true })
    await next.stop()
    expect(postmasterOf(directory)).toBe(postmaster)
    expect(await query(server.url, 'select * from kept')).toEqual([{ answer: 42 }])
    await server.stop()
    expect(isServed(directory)).toBe(false)
  })

  test('restarts on its own, on the same port, when Postgres was killed', async () => {
    const directory = copyOf(made)
    const { command, url } = await startWithRow(directory)
    const before = postmasterOf(directory)
    process.kill(before, 'SIGKILL')
    const answer = () => query(url, 'select * from kept').catch(() => undefined)
    await expect.poll(answer).toEqual([{ answer: 42 }])
    expect(postmasterOf(directory)).not.toBe(before)
    expect(await command.stop()).toEqual({ stopped: true })
    expect(isServed(directory)).toBe(false)
  })

  test('recovers when everything was killed at once: user, supervisor, Postgres', async () => {
    const directory = copyOf(made)
    const { command } = await startWithRow(directory)
    const pids = [supervisorOf(directory), postmasterOf(directory)]
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    await command.kill()
    expect(existsSync(join(directory, 'cluster', 'postmaster.pid'))).toBe(true)
    expect(await reopen(directory)).toEqual([{ answer: 42 }])
  })

  test('recovers although a child of the killed Postgres is too busy to notice', async () => {
    const directory = copyOf(made)
    const { command, url } = await startWithRow(directory)
    const busy = query(url, 'select pg_sleep(600)').catch(() => undefined)
    const looking = `select pid from pg_stat_activity where query = 'select pg_sleep(600)'`
    let child: unknown
    for (; child === undefined; await sleep(20)) child = (await query(url, looking))[0]?.pid
    // Stopped, it notices no more than one that computes, and leaves the processor to others.
    process.kill(Number(child), 'SIGSTOP')
    const pids = [supervisorOf(directory), postmasterOf(directory)]
    for (const pid of pids) process.kill(pid, 'SIGKILL')
    await command.kill()
    expect(await reopen(directory)).toEqual([{ answer: 42 }])
    expect(identityOf(Number(child))).toBeUndefined()
    await busy
  })

  test('still running without user and supervisor, is taken over by the next command and stops with it', async () => {
    const directory = copyOf(made)
    const { command, url } = await startWithRow(directory)
    const postmaster = postmasterOf(directory)
    const supervisor = supervisorOf(directory)
    process.kill(supervisor, 'SIGSTOP')
    await command.kill()
    process.kill(supervisor, 'SIGKILL')
    await until('the supervisor is gone', () => identityOf(supervisor) === undefined)
    expect(isServed(directory)).toBe(true)
    const server = await openEmbedded({ dataDir: directory, unsafe: true })
    expect([postmasterOf(directory), server.url]).toEqual([postmaster, url])
    await server.stop()
    expect(identityOf(postmaster)).toBeUndefined()
  })

  test('keeps serving when its supervisor was killed, under a new one that stops it at the end', async () => {
    const directory = copyOf(made)
    const { command, url } = await startWithRow(directory)
    const [postmaster, supervisor] = [postmasterOf(directory), supervisorOf(directory)]
    process.kill(supervisor, 'SIGKILL')
    await until('another supervisor', () => supervisorOf(directory) !== supervisor)
    expect(await query(url, 'select * from kept')).toEqual([{ answer: 42 }])
    expect(postmasterOf(directory)).toBe(postmaster)
    expect(await command.stop()).toEqual({ stopped: true })
    expect(isServed(directory)).toBe(false)
  })

  test('starts although its stale pid file names a stranger, and leaves the stranger alone', async () => {
    const directory = copyOf(made)
    const { command } = await startWithRow(directory)
    const stale = readFileSync(join(directory, 'cluster', 'postmaster.pid'), 'utf8')
    await command.stop()
    const stranger = startStranger(directory)
    writeFileSync(join(directory, 'cluster', 'postmaster.pid'), stale.replace(/^\d+/, String(stranger.pid)))
    expect(await reopen(directory)).toEqual([{ answer: 42 }])
    expect(identityOf(stranger.pid!)).toBeDefined()
    stranger.kill('SIGKILL')
    await once(stranger, 'exit')
  })

  test('starts although a dead process holds its lock and another has the address of its supervisor', async () => {
    const directory = copyOf(made)
    const stranger = startStranger(directory)
    writeFileSync(join(directory, 'lock'), `${stranger.pid} 12345 before-the-reboot\nabc`)
    writeFileSync(
      join(directory, 'supervisor.json'),
      JSON.stringify({ identity: `${stranger.pid} 1 x`, port: 9, token: 'x' }),
    )
    const server = await openEmbedded({ dataDir: directory, unsafe: true })
    await server.stop()
    expect(existsSync(join(directory, 'lock'))).toBe(false)
    expect(existsSync(join(directory, 'supervisor.json'))).toBe(false)
    stranger.kill('SIGKILL')
    await once(stranger, 'exit')
  })

  test('is set up whole, whenever its first set-up was killed', async () => {
    const directory = join(temporaryDirectory(), 'data')
    // The moments lie between the first look at the directory and the server's first answer.
    for (const moment of [150, 250, 350, 450, 600, 800, 1000]) {
      const command = start(directory)
      await Promise.race([sleep(moment), command.opened])
      await command.kill()
    }
    const server = await openEmbedded({ dataDir: directory, unsafe: true })
    expect(await query(server.url, 'select current_database() as name')).toEqual([{ name: 'intake' }])
    await server.stop()
    // The next start clears away what the killed ones left.
    await openEmbedded({ dataDir: directory, unsafe: true }).then((again) => again.stop())
    expect(readdirSync(directory).filter((name) => /draft|released|lock/.test(name))).toEqual([])
  })

  test('uses no half of a private copy of its programs', async () => {
    const { copyPackage } = await import('../../src/embedded/binaries.ts')
    const { findPackage } = await import('../../src/embedded/package.ts')
    const directory = temporaryDirectory()
    const home = { directory, cluster: join(directory, 'cluster'), user: undefined }
    const from = findPackage()
    const name = `binaries-${from.version}`
    cpSync(join(from.directory, 'native', 'bin'), join(directory, name, 'native', 'bin'), { recursive: true })
    cpSync(join(from.directory, 'native', 'bin'), join(directory, 'binaries-.draft-1-x'), { recursive: true })
    const copy = await copyPackage(from, home)
    expect(copy).toEqual({ directory: join(directory, name), made: true })
    expect(readdirSync(directory)).toEqual([name])
    expect(
      execFileSync(join(copy.directory, 'native', 'bin', 'postgres'), ['--version'], { encoding: 'utf8' }),
    ).toMatch(/^postgres/)
    expect(await copyPackage(from, home)).toMatchObject({ made: false })
  })
})
