import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { UsageError } from '../../src/core/errors.ts'
import { findPackage } from '../../src/embedded/package.ts'
import { identityOf } from '../../src/embedded/process-identity.ts'
import {
  cleanUp,
  copyOf,
  isServed,
  makeOnce,
  openEmbedded,
  postmasterOf,
  query,
  start,
  supervisorOf,
  temporaryDirectory,
} from '../support/embedded-fixture.ts'

describe('the embedded server', () => {
  let made: string
  beforeAll(async () => {
    made = await makeOnce()
    return () => rmSync(made, { recursive: true, force: true })
  })
  afterEach(cleanUp)

  test('a first run sets it up: loopback, a password, UTF-8, UTC, and full durability', async () => {
    const directory = join(temporaryDirectory(), 'made by us')
    const server = await openEmbedded({ dataDir: directory })
    const [settings] = await query(
      server.url,
      `select current_database() as database, current_user as role, current_setting('listen_addresses') as listen,
         current_setting('TimeZone') as zone, current_setting('server_encoding') as encoding,
         current_setting('fsync') || current_setting('synchronous_commit') || current_setting('full_page_writes') as safe,
         current_setting('data_checksums') as checksums, lower('É') as lower`,
    )
    expect(settings).toEqual({
      database: 'intake',
      role: 'intake',
      listen: '127.0.0.1',
      zone: 'UTC',
      encoding: 'UTF8',
      safe: 'ononon',
      checksums: 'on',
      lower: 'é',
    })
    const wrong = new URL(server.url)
    wrong.password = 'guess'
    await expect(query(wrong.href, 'select 1')).rejects.toMatchObject({ code: '28P01' })
    await server.stop()
    expect(isServed(directory)).toBe(false)
  })

  test('its password is in no argument list, no log, and no file that others can read', async () => {
    const directory = copyOf(made)
    const server = await openEmbedded({ dataDir: directory, unsafe: true })
    const { password } = new URL(server.url)
    await query(server.url, `create table seen (day date)`)
    await expect(query(server.url, `insert into seen values ('Ada Lovelace')`)).rejects.toThrow()
    expect(password).toHaveLength(32)
    expect(execFileSync('ps', ['-eww', '-o', 'args'], { encoding: 'utf8' })).not.toContain(password)
    for (const name of ['server.log', 'supervisor.log']) {
      expect(readFileSync(join(directory, name), 'utf8')).not.toMatch(new RegExp(`${password}|Lovelace`))
    }
    for (const name of readdirSync(directory)) {
      const mode = statSync(join(directory, name)).mode & 0o777
      expect([name, mode & 0o077]).toEqual([name, 0])
    }
    await server.stop()
  })

  test('it listens on no other address of this machine', async () => {
    const server = await openEmbedded({ dataDir: copyOf(made), unsafe: true })
    for (const address of Object.values(networkInterfaces()).flat()) {
      if (address === undefined || address.internal || address.family !== 'IPv4') continue
      const url = new URL(server.url)
      url.hostname = address.address
      await expect(query(url.href, 'select 1')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
    }
    await server.stop()
  })

  test('rows and port persist from run to run', async () => {
    const directory = copyOf(made)
    const first = await openEmbedded({ dataDir: directory, unsafe: true })
    await query(first.url, 'create table kept as select 42 as answer')
    await first.stop()
    const second = await openEmbedded({ dataDir: directory, unsafe: true })
    expect(second.url).toBe(first.url)
    expect(await query(second.url, 'select * from kept')).toEqual([{ answer: 42 }])
    await second.stop()
  })

  test('a port that another program took is left to that program', async () => {
    const directory = copyOf(made)
    const port = Number(readFileSync(join(directory, 'port'), 'utf8'))
    const stranger = createServer((socket) => socket.end('hello')).listen(port, '127.0.0.1')
    await once(stranger, 'listening')
    const server = await openEmbedded({ dataDir: directory, unsafe: true })
    expect(new URL(server.url).port).not.toBe(String(port))
    expect(await query(server.url, 'select 1 as one')).toEqual([{ one: 1 }])
    await server.stop()
    await new Promise((resolve) => stranger.close(resolve))
  })

  test('a path with spaces, quotes and characters of all kinds, longer than a socket path, works', async () => {
    const directory = join(temporaryDirectory(), "Anna's données", 'x'.repeat(100), 'y'.repeat(100))
    const server = await openEmbedded({ dataDir: directory, unsafe: true })
    expect(await query(server.url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(server.directory).toBe(directory)
    await server.stop()
  })

  test('a path that the tools of Postgres would misread is rejected with a hint', async () => {
    const dataDir = join(temporaryDirectory(), 'a $HOME `b`')
    await expect(openEmbedded({ dataDir })).rejects.toMatchObject({ variable: 'INTAKE_DATA_DIR' })
    expect(readdirSync(dataDir)).toEqual([])
  })

  test('a second process joins the running server, which stops with the last of them', async () => {
    const directory = copyOf(made)
    const first = start(directory)
    const { url } = await first.opened
    const postmaster = postmasterOf(directory)
    const second = await openEmbedded({ dataDir: directory, unsafe: true })
    expect(second.url).toBe(url)
    expect(await first.stop()).toEqual({ stopped: true })
    expect(await query(second.url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(postmasterOf(directory)).toBe(postmaster)
    const supervisor = supervisorOf(directory)
    await second.stop()
    await second.stop()
    expect([identityOf(postmaster), identityOf(supervisor)]).toEqual([undefined, undefined])
    expect(readdirSync(directory).sort()).toEqual([
      'cluster',
      'password',
      'port',
      'server.log',
      'supervisor.log',
    ])
    expect(existsSync(join(directory, 'cluster', 'postmaster.pid'))).toBe(false)
  })

  test('processes that begin at the same time, on a directory that does not exist yet, share one server', async () => {
    const directory = join(temporaryDirectory(), 'data')
    const commands = [start(directory), start(directory), start(directory)]
    const urls = await Promise.all(commands.map(async (command) => (await command.opened).url))
    expect(new Set(urls).size).toBe(1)
    await Promise.all(commands.map((command) => command.stop()))
    expect(isServed(directory)).toBe(false)
  })

  test('processes that start and end at random never lose the server under them', async () => {
    const directory = copyOf(made)
    const visit = async (visits: number) => {
      for (let left = visits; left > 0; left -= 1) {
        const server = await openEmbedded({ dataDir: directory, unsafe: true })
        expect(await query(server.url, 'select 1 as one')).toEqual([{ one: 1 }])
        await server.stop()
      }
    }
    await Promise.all([visit(6), visit(6), visit(6)])
    expect(isServed(directory)).toBe(false)
  })

  test('Ctrl-C reaches the command but not the server under it', async () => {
    const directory = copyOf(made)
    const command = start(directory)
    await command.opened
    expect(await command.interrupt()).toEqual({ answer: 1 })
    expect(isServed(directory)).toBe(false)
  })

  test('where no binary exists for the platform, the error says to set DATABASE_URL', () => {
    expect(() => findPackage('sunos', 'mips')).toThrow(UsageError)
    try {
      findPackage('sunos', 'mips')
    } catch (error) {
      expect((error as UsageError).hint).toMatch(/DATABASE_URL.*Postgres 15 to 18/)
    }
  })

  test('data of another major version are not changed, and the error says so', async () => {
    const directory = copyOf(made)
    execFileSync('sh', ['-c', 'echo 17 > "$1/cluster/PG_VERSION"', 'sh', directory])
    await expect(openEmbedded({ dataDir: directory })).rejects.toThrow(/written by Postgres 17/)
  })
})
