/** docs/architecture.md describes the folders of src as they are. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { describe, expect, test } from 'vitest'

const root = resolve(import.meta.dirname, '..')

/** Each row of the table: the folder, and the folders that it may import. */
const rows = new Map(
  [
    ...readFileSync(join(root, 'docs/architecture.md'), 'utf8').matchAll(
      /^\| `src\/([a-z]+)`.*\| ([^|]+) \|$/gm,
    ),
  ].map(([, folder, allowed]) => [folder!, allowed!]),
)

const folders = readdirSync(join(root, 'src'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

/** Folders of src whose files the files of `folder` import. */
function importsOf(folder: string): ReadonlySet<string> {
  const found = new Set<string>()
  for (const name of readdirSync(join(root, 'src', folder), { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts')) continue
    const file = join(root, 'src', folder, name)
    for (const [, from] of readFileSync(file, 'utf8').matchAll(/\bfrom '(\.[^']+)'/g)) {
      const [other] = relative(join(root, 'src'), resolve(dirname(file), from!)).split(sep)
      if (other !== folder) found.add(other!)
    }
  }
  return found
}

test('it describes every folder, and none that does not exist', () => {
  expect([...rows.keys()].sort()).toEqual([...folders].sort())
})

describe.each(folders)('src/%s', (folder) => {
  test('imports only what the document says', () => {
    const allowed = rows.get(folder) ?? ''
    if (allowed === 'everything') return
    const names = allowed === 'nothing' ? [] : allowed.split(', ').map((each) => each.replace(/\/.*/, ''))
    expect([...importsOf(folder)].filter((each) => !names.includes(each))).toEqual([])
  })
})

test('it names only files and folders that exist', () => {
  const text = readFileSync(join(root, 'docs/architecture.md'), 'utf8')
  const named = [...text.matchAll(/`((?:src|sql|test|docs|scripts)\/[\w./-]+)`/g)].map(([, path]) => path!)
  expect(named.length).toBeGreaterThan(10)
  const missing = named.filter((path) => {
    try {
      readFileSync(join(root, path))
      return false
    } catch (error) {
      return (error as { code?: string }).code !== 'EISDIR'
    }
  })
  expect(missing).toEqual([])
})
