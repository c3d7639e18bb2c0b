/** The programs of Postgres are used where they are, or from a whole private copy. The package here is a small one. */
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, test, vi } from 'vitest'
import { copyPackage, makeLibraryLinks, prepareBinaries } from '../../src/embedded/binaries.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const ROOT = process.getuid?.() === 0
const base = makeFolder('binaries-')
chmodSync(base, 0o755)
afterAll(() => removeFolder(base))

let packages = 0
function newPackage(name = 'package', program = '#!/bin/sh\nexit 0\n') {
  const directory = join(base, `${name} ${++packages}`)
  const write = (path: string, text: string, mode = 0o644) => {
    mkdirSync(join(directory, 'native', path, '..'), { recursive: true })
    writeFileSync(join(directory, 'native', path), text)
    chmodSync(join(directory, 'native', path), mode)
  }
  write('bin/postgres', program, 0o755)
  write('lib/libpq.so.5.18', 'library')
  write('lib/libpq.a', 'for developers')
  write('lib/postgresql/plpgsql.so', 'module')
  write('share/postgresql/timezone/UTC', 'zone')
  symlinkSync('libpq.so.5.18', join(directory, 'native/lib/libpq.so'))
  const links = [
    { source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' },
    { source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so' },
    { source: 'native/lib/postgresql/plpgsql.so', target: 'native/share/plpgsql.so' },
  ]
  write('pg-symlinks.json', JSON.stringify(links))
  return { directory, version: '18.4.0', major: '18' }
}

function newHome(user?: { name: string; uid: number; gid: number }) {
  const directory = join(base, `home ${++packages}`)
  mkdirSync(directory)
  chmodSync(directory, 0o755)
  return { directory, cluster: join(directory, 'cluster'), user }
}

async function prepared(from: ReturnType<typeof newPackage>, home = newHome()) {
  const notices: string[] = []
  const binaries = await prepareBinaries(home, (line) => notices.push(line), from)
  return { ...binaries, notices, home }
}

test('they are used where they are, with the links that they need', async () => {
  const from = newPackage()
  const { home, ...found } = await prepared(from)
  expect(found).toEqual({ bin: join(from.directory, 'native/bin'), major: '18', notices: [] })
  expect(readdirSync(home.directory)).toEqual([])
  const linked = (path: string) => readlinkSync(join(from.directory, 'native', path))
  expect(linked('lib/libpq.so.5')).toBe('libpq.so.5.18')
  expect(linked('lib/libpq.so')).toBe('libpq.so.5.18')
  expect(linked('share/plpgsql.so')).toBe('../lib/postgresql/plpgsql.so')
})

describe('a private copy', () => {
  test('is made where Postgres would misread the path, without what only developers need, and is made once', async () => {
    const from = newPackage('a$b')
    const home = newHome()
    for (const old of ['binaries-17.0.0', 'binaries-.draft-1-x']) mkdirSync(join(home.directory, old))
    mkdirSync(join(home.directory, 'cluster'))
    const { bin, notices } = await prepared(from, home)
    const copy = join(home.directory, 'binaries-18.4.0')
    expect(bin).toBe(join(copy, 'native/bin'))
    expect(notices).toEqual([
      `the path of node_modules holds characters that Postgres misreads; a private copy of Postgres is in ${copy}`,
    ])
    expect(readdirSync(home.directory).sort()).toEqual(['binaries-18.4.0', 'cluster'])
    expect(readdirSync(join(copy, 'native/lib')).sort()).toEqual([
      ...['libpq.so', 'libpq.so.5', 'libpq.so.5.18', 'postgresql'],
    ])
    const modes = ['', 'native/bin', 'native/bin/postgres', 'native/lib/libpq.so.5.18'].map(
      (path) => lstatSync(join(copy, path)).mode & 0o777,
    )
    expect(modes).toEqual([0o755, 0o755, 0o755, 0o644])
    expect(readlinkSync(join(copy, 'native/lib/libpq.so'))).toBe('libpq.so.5.18')
    expect((await prepared(from, home)).notices).toEqual([])
  })

  test.each(['bin/postgres', 'lib/libpq.so.5.18'])('that lost the end of %s is made again', async (part) => {
    const [from, home] = [newPackage(), newHome()]
    expect(await copyPackage(from, home)).toMatchObject({ made: true })
    expect(await copyPackage(from, home)).toMatchObject({ made: false })
    const path = join(home.directory, 'binaries-18.4.0/native', part)
    writeFileSync(path, '')
    expect(await copyPackage(from, home)).toMatchObject({ made: true })
    expect(readFileSync(path).length).toBeGreaterThan(0)
  })

  test.runIf(ROOT)('is made where the user of the server cannot read the package', async () => {
    const nobody = { name: 'nobody', uid: 65_534, gid: 65_534 }
    for (const [path, mode] of [
      ['', 0o700],
      ['native/bin', 0o700],
      ['native/lib', 0o700],
      ['native/lib/postgresql', 0o700],
      ['native/share/postgresql/timezone', 0o700],
      ['native/bin/postgres', 0o750],
      ['native/bin/postgres', 0o751],
      ['native/bin/postgres', 0o754],
    ] as const) {
      const from = newPackage()
      chmodSync(join(from.directory, path), mode)
      const { notices, home, bin } = await prepared(from, newHome(nobody))
      expect([path, notices]).toEqual([path, [expect.stringContaining('cannot be read by the user nobody')]])
      expect(bin.startsWith(home.directory)).toBe(true)
    }
    expect((await prepared(newPackage(), newHome(nobody))).notices).toEqual([])
    // A package need not have each of these folders.
    const without = newPackage()
    rmSync(join(without.directory, 'native/share/postgresql'), { recursive: true })
    expect((await prepared(without, newHome(nobody))).notices).toEqual([])
  })

  test('can be read by everybody, however strict the umask is', async () => {
    const [from, home] = [newPackage(), newHome()]
    const usual = process.umask(0o077)
    try {
      await copyPackage(from, home)
    } finally {
      process.umask(usual)
    }
    const modes = [
      '',
      'native',
      'native/lib/postgresql',
      'native/bin/postgres',
      'native/lib/libpq.so.5.18',
    ].map((path) => lstatSync(join(home.directory, 'binaries-18.4.0', path)).mode & 0o777)
    expect(modes).toEqual([0o755, 0o755, 0o755, 0o755, 0o644])
  })

  test.runIf(ROOT)(
    'is not made of programs that belong to the user of the server, who tries them',
    async () => {
      const from = newPackage('package', '#!/bin/sh\ntest "$(id -u) $(id -g)" = "65534 65533"\n')
      const program = join(from.directory, 'native/bin/postgres')
      chmodSync(program, 0o700)
      chownSync(program, 65_534, 65_533)
      const { notices } = await prepared(from, newHome({ name: 'nobody', uid: 65_534, gid: 65_533 }))
      expect(notices).toEqual([])
    },
  )
})

test.each([
  ['that do not start', '#!/no/such/loader\n', 0o755, []],
  // Files of a place without execution, such as a mount, can be executed in another.
  ['that may not be executed where they are', '#!/bin/sh\nexit 0\n', 0o644, ['binaries-18.4.0']],
  ['that fail', '#!/bin/sh\nexit 1\n', 0o755, []],
])('programs %s end in an instruction, after a copy if that could help', async (_, program, mode, copies) => {
  const from = newPackage('package', program)
  chmodSync(join(from.directory, 'native/bin/postgres'), mode)
  const home = newHome()
  const preparing = prepared(from, home)
  await preparing.catch(() => {})
  expect(readdirSync(home.directory)).toEqual(copies)
  const place = copies.length === 0 ? from.directory : join(home.directory, copies[0]!)
  await expect(preparing).rejects.toMatchObject({
    ...{ code: 'embedded_unavailable', variable: 'DATABASE_URL', verdict: 'stop' },
    message: `the embedded Postgres does not run on this system (${place}/native/bin/postgres); it needs glibc on Linux`,
    hint: 'Set DATABASE_URL to a Postgres 15 to 18 that runs elsewhere.',
  })
})

test('the programs are tried without the environment of the command, in the root folder', async () => {
  const from = newPackage('package', '#!/bin/sh\n{ pwd; env; echo "$@"; } > "$(dirname "$0")/tried"\n')
  vi.stubEnv('INTAKE_API_SECRET', 'canary')
  await prepared(from)
  vi.unstubAllEnvs()
  const tried = readFileSync(join(from.directory, 'native/bin/tried'), 'utf8')
  expect(tried).toMatch(/^\/\n[\s\S]*\n--version\n$/)
  expect(tried).not.toContain('canary')
})

test('where a link cannot be made, a copy takes its place', async () => {
  const { directory } = newPackage()
  // So far apart that the way from one to the other is longer than a path may be.
  const source = join('native', ...Array.from({ length: 11 }, () => 'x'.repeat(200)), 'library')
  const target = join('native', ...Array.from({ length: 700 }, () => 'y'), 'link')
  for (const path of [source, target]) mkdirSync(join(directory, path, '..'), { recursive: true })
  writeFileSync(join(directory, source), 'library')
  writeFileSync(join(directory, 'native/pg-symlinks.json'), JSON.stringify([{ source, target }]))
  expect(await makeLibraryLinks(directory)).toBe(true)
  expect(lstatSync(join(directory, target)).isFile()).toBe(true)
  expect(readFileSync(join(directory, target), 'utf8')).toBe('library')
  expect(readdirSync(join(directory, target, '..'))).toEqual(['link'])
})

test('a link that cannot be made is reported, and a package without a list needs none', async () => {
  const { directory } = newPackage()
  const list = join(directory, 'native/pg-symlinks.json')
  writeFileSync(list, JSON.stringify([{ source: 'native/lib/none', target: 'native/none/link' }]))
  expect(await makeLibraryLinks(directory)).toBe(false)
  writeFileSync(list, '{')
  await expect(makeLibraryLinks(directory)).rejects.toThrow(SyntaxError)
  const { directory: other } = newPackage()
  writeFileSync(join(other, 'native/pg-symlinks.json'), '[]')
  expect(await makeLibraryLinks(other)).toBe(true)
  expect(existsSync(join(other, 'native/lib/libpq.so.5'))).toBe(false)
  expect(await makeLibraryLinks(newHome().directory)).toBe(true)
})
