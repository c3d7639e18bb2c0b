/** docs/adding-a-resource.md, followed word for word in a copy of the project, adds a resource to everything. */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import { join, relative } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { applyTo, filesOfPage, pathsOfPage, ROOT } from './page.ts'

/** Where the test of the new resource stands in the copy; it is no part of adding it. */
const DRIVE = 'test/adding-a-resource/drive.test.ts'

let copy: string

beforeAll(() => {
  copy = makeFolder('walk-through-')
  for (const name of readdirSync(ROOT)) {
    if (['node_modules', 'dist', '.git', '.intake-sync', 'reports'].includes(name)) continue
    cpSync(join(ROOT, name), join(copy, name), { recursive: true })
  }
  // Caches below node_modules are keyed by the source, and must not outlive the copy.
  mkdirSync(join(copy, 'node_modules'))
  for (const name of readdirSync(join(ROOT, 'node_modules'))) {
    if (!['.cache', '.vite', '.vite-temp', '.vitest'].includes(name))
      symlinkSync(join(ROOT, 'node_modules', name), join(copy, 'node_modules', name))
  }
  for (const file of filesOfPage()) applyTo(copy, file)
})

afterAll(() => removeFolder(copy))

function run(program: string, ...args: string[]): string {
  const { UPDATE_DOCS: _, ...env } = process.env
  const extra = program === 'update-docs' ? { UPDATE_DOCS: '1' } : {}
  const script = join(ROOT, 'node_modules', program === 'update-docs' ? 'vitest/vitest.mjs' : program)
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], {
    cwd: copy,
    env: { ...env, ...extra },
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  const output = stripVTControlCharacters(`${stdout}${stderr}`)
  expect(status, output.slice(-8_000)).toBe(0)
  return output
}

function changedFiles(): readonly string[] {
  const files = readdirSync(copy, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(copy, join(entry.parentPath, entry.name)))
    .filter((path) => !path.startsWith('node_modules') && path !== DRIVE)
  const isOld = (path: string) =>
    existsSync(join(ROOT, path)) &&
    statSync(join(ROOT, path)).size === statSync(join(copy, path)).size &&
    readFileSync(join(ROOT, path)).equals(readFileSync(join(copy, path)))
  return files.filter((path) => !isOld(path)).sort()
}

test('the page touches at most eight files, those of its table', () => {
  run('update-docs', 'run', 'test/analytics/dictionary.test.ts', 'test/streams/diagram.test.ts')
  const changed = changedFiles()
  expect(changed).toEqual([...pathsOfPage()].sort())
  expect(changed.length).toBeLessThanOrEqual(8)
})

test('the copy passes the checks', () => {
  run('typescript/bin/tsc', '-p', 'tsconfig.json', '--noEmit')
  const written = filesOfPage().flatMap(({ path }) => (path.endsWith('.ts') ? [path] : []))
  run('@biomejs/biome/bin/biome', 'check', '--vcs-enabled=false', ...written)
})

test('the new stream passes the contract, and is loaded, received, verified, explained, replayed and erased', () => {
  cpSync(join(import.meta.dirname, 'drive.ts'), join(copy, DRIVE))
  const suites = ['test/streams', 'test/emulator/http/openapi.test.ts', 'test/analytics/dictionary.test.ts']
  const output = run('vitest/vitest.mjs', 'run', '--reporter=verbose', ...suites, DRIVE)
  expect(output).toMatch(/contract\.test\.ts > 'appointments' > /)
  expect(output).toMatch(/drive\.test\.ts > erasing a patient/)
})
