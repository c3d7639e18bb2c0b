import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { makeFolder, removeFolder, removeForgotten } from './folders.ts'

let place: string

beforeEach(() => {
  place = mkdtempSync(join(tmpdir(), 'intake-sync-folders-'))
})

afterEach(() => rmSync(place, { recursive: true, force: true }))

/** The id of a process that has ended. */
function gone(): number {
  return spawnSync(process.execPath, ['-e', '0']).pid
}

/** A folder with a data directory whose server has its files in `home` and runs as the process `pid`. */
function withServer(folder: string, pid: number): string {
  const home = join(place, `home of ${pid}`)
  mkdirSync(join(home, 'cluster'), { recursive: true })
  writeFileSync(join(home, 'cluster', 'postmaster.pid'), `${pid}\n`)
  mkdirSync(join(folder, 'a path', 'data'), { recursive: true })
  writeFileSync(join(folder, 'a path', 'data', 'server-files-are-in'), `${home}\n`)
  return home
}

test('with a folder goes the server that was set up in it, wherever its files are', () => {
  const folder = makeFolder('own-', place)
  const home = withServer(folder, gone())
  removeFolder(folder)
  expect([existsSync(folder), existsSync(home)]).toEqual([false, false])
})

test('folders of processes that are gone are removed, and no other', () => {
  const dead = gone()
  const forgotten = join(place, `intake-sync-test-${dead}-x`)
  const served = join(place, `intake-sync-test-${dead}-y`)
  const others = ['somebody-elses', `intake-sync-test-${dead}`].map((name) => join(place, name))
  for (const folder of [forgotten, served, ...others]) mkdirSync(folder)
  const home = withServer(forgotten, dead)
  const running = withServer(served, process.pid)
  const own = makeFolder('', place)
  removeForgotten(place)
  expect(
    readdirSync(place)
      .map((name) => join(place, name))
      .toSorted(),
  ).toEqual([served, running, own, ...others].toSorted())
  expect(existsSync(home)).toBe(false)
})
