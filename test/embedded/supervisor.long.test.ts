/** The supervisor process of an embedded server, killed more than once, and abandoned by its user. */
import { readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
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
  until,
} from '../support/embedded-fixture.ts'

describe('the supervisor of an embedded server', () => {
  let made: string
  beforeAll(async () => {
    made = await makeOnce()
    return () => rmSync(made, { recursive: true, force: true })
  })
  afterEach(cleanUp)

  /** Kills it, and returns the one that took its place. */
  const replaced = async (directory: string) => {
    const supervisor = supervisorOf(directory)
    process.kill(supervisor, 'SIGKILL')
    const other = () => {
      try {
        return supervisorOf(directory)
      } catch {
        return supervisor
      }
    }
    await until('another supervisor', () => other() !== supervisor)
    return other()
  }

  it('killed, and killed again, is replaced each time: the server continues, and stops with its user', async () => {
    const directory = copyOf(made)
    const command = start(directory)
    const { url } = await command.opened
    const postmaster = postmasterOf(directory)
    const seen = new Set([supervisorOf(directory)])
    for (let time = 0; time < 3; time += 1) seen.add(await replaced(directory))
    expect(seen.size).toBe(4)
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(postmasterOf(directory)).toBe(postmaster)
    expect(await command.stop()).toEqual({ stopped: true })
    expect(isServed(directory)).toBe(false)
    expect(identityOf(postmaster)).toBeUndefined()
  })

  it('killed twice under two users, one of whom leaves in between, stops with the other', async () => {
    const directory = copyOf(made)
    const command = start(directory)
    await command.opened
    const server = await openEmbedded({ dataDir: directory, unsafe: true })
    await replaced(directory)
    await server.stop()
    expect(isServed(directory)).toBe(true)
    await replaced(directory)
    expect(await query((await command.opened).url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(await command.stop()).toEqual({ stopped: true })
    expect(isServed(directory)).toBe(false)
  })

  it('killed while its user leaves is replaced once more: no process is left', async () => {
    const directory = copyOf(made)
    const server = await openEmbedded({ dataDir: directory, unsafe: true })
    const postmaster = postmasterOf(directory)
    const supervisor = supervisorOf(directory)
    process.kill(supervisor, 'SIGSTOP')
    const stopped = server.stop()
    await sleep(50)
    process.kill(supervisor, 'SIGKILL')
    await stopped
    expect(isServed(directory)).toBe(false)
    expect(identityOf(postmaster)).toBeUndefined()
  })

  it('stays where it is when starts fail again and again, but never six in a row: the server comes back', async () => {
    const directory = copyOf(made)
    const command = start(directory)
    const { url } = await command.opened
    let supervisor = supervisorOf(directory)
    const needed = join(directory, 'cluster', 'global', 'pg_control')
    const failures = () =>
      readFileSync(join(directory, 'server.log'), 'utf8').split('could not find the database system').length -
      1
    const isBack = () =>
      query(url, 'select 1 as one').then(
        () => true,
        () => false,
      )
    for (let failed = 0; failed < 6; ) {
      const before = failures()
      renameSync(needed, `${needed}.away`)
      process.kill(postmasterOf(directory), 'SIGKILL')
      await until('starts that fail', () => failures() >= before + 2)
      renameSync(`${needed}.away`, needed)
      await vi.waitFor(async () => expect(await isBack()).toBe(true), { timeout: 60_000, interval: 50 })
      const inRow = failures() - before
      if (inRow < 6) {
        expect(supervisorOf(directory)).toBe(supervisor)
        failed += inRow
      } else {
        // On a machine that stood still meanwhile: it gave up, as it should, and was replaced.
        supervisor = supervisorOf(directory)
        failed = 0
      }
    }
    expect(await command.stop()).toEqual({ stopped: true })
  })

  it('abandoned during the start of the server by a user who was killed, stops it; the next user finds it intact', async () => {
    const directory = copyOf(made)
    for (const moment of [0, 150]) {
      const command = start(directory)
      const supervised = () => {
        try {
          return supervisorOf(directory) > 0
        } catch {
          return false
        }
      }
      await until('a supervisor', supervised)
      await sleep(moment)
      await command.kill()
      // Only a first user who never connected is waited for, for half a minute.
      const server = await openEmbedded({ dataDir: directory, unsafe: true })
      expect(await query(server.url, 'select 1 as one')).toEqual([{ one: 1 }])
      const pids = [postmasterOf(directory), supervisorOf(directory)]
      await server.stop()
      expect(isServed(directory)).toBe(false)
      await until('all are gone', () => pids.every((pid) => identityOf(pid) === undefined))
    }
  })
})
