/** README.md from a fresh clone, in a path with spaces: on a terminal of 80 columns, then by an ordinary user through a pipe. */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { blocksOf, done, playTenMinutes, type Reader, textOf } from '../e2e/support/play-readme.ts'
import { cleanUp, NOBODY, ROOT, temporaryDirectory } from '../support/embedded-fixture.ts'

const root = resolve(import.meta.dirname, '../..')
const isThere = (program: string) => spawnSync(program, ['--version']).status === 0
const why = !existsSync(join(root, '.git')) || !isThere('git') ? 'this is no checkout of git' : null
if (why !== null) process.stdout.write(`fresh clone: skipped, ${why}\n`)
const hasTerminal = isThere('script')
if (!hasTerminal) process.stdout.write('fresh clone: script is not installed: no terminal, a pipe instead\n')

let place: string
beforeAll(() => {
  place = temporaryDirectory()
  chmodSync(place, 0o755)
})
afterAll(() => cleanUp())

/** A clone of what is committed. Packages of npm are fetched once for both. */
function readerOf(name: string, columns: number | null, uid?: number): Reader {
  const home = join(place, name)
  const [folder, cache] = [join(home, 'a fresh clone'), join(place, 'npm cache')]
  mkdirSync(home)
  execFileSync('git', ['clone', '--quiet', '--no-hardlinks', root, folder])
  mkdirSync(cache, { recursive: true })
  if (uid !== undefined) execFileSync('chown', ['-R', `${uid}:${uid}`, home, cache])
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    LOG_LEVEL: 'warn',
    npm_config_cache: cache,
    npm_config_prefer_offline: 'true',
  }
  return { folder, env, columns, command: null, ...(uid === undefined ? {} : { uid }) }
}

describe.skipIf(why !== null)('a fresh clone', { timeout: 900_000 }, () => {
  const readers: readonly [string, number | null, number?][] = [
    [ROOT ? 'root' : 'this user', hasTerminal ? 80 : null],
    ...(ROOT ? [['an ordinary user', null, NOBODY] as [string, null, number]] : []),
  ]
  it.each(readers)('%s tries it and has the first ten minutes', async (name, columns, uid) => {
    const reader = readerOf(name, columns, uid)
    const [tryIt] = blocksOf('Try it')
    expect(tryIt).toBe('npm ci\nnpm run demo\n')
    await done({ ...reader, columns: null }, 'npm ci')
    const begun = performance.now()
    const said = await done(reader, 'npm run demo')
    // "About fifteen seconds", on a machine that does nothing else.
    expect((performance.now() - begun) / 1000).toBeLessThan(120)
    const promised = textOf('Try it')
    expect(promised).toContain('about fifteen seconds')
    expect(promised).toContain('3,000 invented patients')
    expect(said).toMatch(/patients +3000 +3000 +0 +0/)
    expect(existsSync(join(reader.folder, '.intake-sync-demo'))).toBe(true)
    expect(promised).toContain('writes only those changes')
    expect(said).toMatch(/patients +3001 +6 +2995 +2/)
    expect(promised).toContain('once more and writes nothing')
    expect(said).toMatch(/\b0 row\s+versions\s+written/)
    expect(promised).toContain('how long each change took to become a row')
    expect(said).toMatch(/a patient was created +row visible after \d\.\d{3} s/)
    expect(promised).toContain('ten queries')
    expect(new Set(said.match(/^-- .+\?/gm)).size).toBe(10)
    expect(said).toContain('As an analyst: the role intake_analyst')
    rmSync(join(reader.folder, '.intake-sync-demo'), { recursive: true })
    await playTenMinutes(reader)
    expect(readdirSync(reader.folder)).toContain('intake-sync.env')
    rmSync(join(place, name), { recursive: true })
  })
})
