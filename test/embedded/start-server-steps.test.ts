/** The steps of starting Postgres, or of taking one over, with neighbours that note what they are asked. */
import { EventEmitter } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, test, vi } from 'vitest'
import { freePort, startServer } from '../../src/embedded/start-server.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const steps = vi.hoisted<unknown[]>(() => [])
const played = vi.hoisted(() => ({
  /** The servers found at each look; the last one goes on. */
  found: [] as unknown[],
  /** How many looks later the server is gone. */
  looks: 0,
  child: undefined as unknown,
}))
vi.mock('../../src/embedded/postmaster.ts', () => ({
  findPostmaster: () => (played.found.length > 1 ? played.found.shift() : played.found[0]),
  removeStalePidFile: async ({ directory }: { directory: string }) => {
    // Longer than the next step takes.
    for (let turns = 0; turns < 5; turns += 1) await new Promise(setImmediate)
    steps.push(`stale file of ${directory} removed`)
  },
  endOrphans: async ({ directory }: { directory: string }, milliseconds: number) => {
    await new Promise(setImmediate)
    steps.push(`orphans of ${directory} ended, after ${milliseconds}`)
  },
  serves: (pid: number, { directory }: { directory: string }) => {
    steps.push(`does ${pid} serve ${directory}`)
    return played.looks-- > 0
  },
}))
vi.mock('node:child_process', async (original) => ({
  ...(await original<object>()),
  spawn: (program: string, words: string[], options: object) => {
    steps.push([program, words.slice(0, 2), options])
    return played.child
  },
}))
vi.mock('node:timers/promises', async (original) => ({
  ...(await original<object>()),
  setTimeout: async (milliseconds: number) => {
    steps.push(`pause ${milliseconds}`)
    await new Promise(setImmediate)
  },
}))

const base = makeFolder('start-server-')
afterAll(() => removeFolder(base))
let homes = 0
let home: { directory: string; cluster: string; user: undefined }
let child: EventEmitter & { pid?: number }

beforeEach(() => {
  const directory = join(base, String(++homes))
  mkdirSync(directory)
  home = { directory, cluster: join(directory, 'cluster'), user: undefined }
  steps.length = 0
  child = Object.assign(new EventEmitter(), { pid: 7 })
  Object.assign(played, { found: [undefined], looks: 0, child })
})

const start = (more: object = {}) =>
  startServer({ home: { ...home, ...more }, bin: '/programs', unsafe: false })

test('a server starts once the traces of the last one are gone, as its user, at the port of the last one', async () => {
  const port = await freePort(undefined)
  writeFileSync(join(home.directory, 'port'), `${port}\n`)
  const server = await start({ user: { name: 'nobody', uid: 8, gid: 9 } })
  expect([server.pid, server.port]).toEqual([7, port])
  const log = expect.any(Number)
  expect(steps.slice(0, 3)).toEqual([
    `stale file of ${home.directory} removed`,
    `orphans of ${home.directory} ended, after 3000`,
    [
      ...['/programs/postgres', ['-D', home.cluster]],
      {
        ...{ cwd: home.cluster, env: expect.objectContaining({ LC_ALL: 'C' }), stdio: ['ignore', log, log] },
        ...{ windowsHide: true, uid: 8, gid: 9 },
      },
    ],
  ])
  expect(readFileSync(join(home.directory, 'port'), 'utf8')).toBe(`${port}\n`)
  child.emit('exit')
  expect(await server.ready).toBe(false)
})

test('it is ready when its own process reports it, not when another one does', async () => {
  const others = [
    { pid: 8, port: 1, ready: true },
    { pid: 7, port: 1, ready: false },
  ]
  // The first look is for one to take over.
  played.found = [undefined, undefined, ...others, { pid: 7, port: 1, ready: true }]
  const server = await start()
  expect(await server.ready).toBe(true)
  expect(steps.filter((step) => step === 'pause 25')).toHaveLength(3)
  expect(steps[2]).not.toHaveProperty('2.uid')
  child.emit('exit')
  await server.ended
})

test.each(['exit', 'error'])('it is not ready any more once it has ended (%s)', async (event) => {
  const server = await start()
  await vi.waitFor(() => expect(steps).toContain('pause 25'))
  child.emit(event, new Error('of the system'))
  await server.ended
  expect(await server.ready).toBe(false)
})

test('a running server is taken over as it is, and has ended once its process no longer serves the directory', async () => {
  played.found = [
    { pid: 5, port: 5433, ready: false },
    { pid: 5, port: 5433, ready: true },
  ]
  played.looks = 2
  const server = await start()
  expect([server.pid, server.port]).toEqual([5, 5433])
  await server.ended
  const look = `does 5 serve ${home.directory}`
  expect(steps.filter((step) => step !== 'pause 25')).toEqual([look, 'pause 250', look, 'pause 250', look])
})
