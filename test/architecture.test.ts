/** docs/architecture.md describes the folders of src as they are, and test/ mirrors src/. */
import { readdirSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
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

describe('its diagram', () => {
  const drawn = readFileSync(join(root, 'docs/architecture.md'), 'utf8')
    .split('only from rows above its own:\n\n```\n')[1]!
    .split('\n```')[0]!
    .split('\n')
    .map((line) => line.match(/[a-z]+/g) ?? [])

  test('has every folder once', () => {
    expect(drawn.flat().sort()).toEqual([...folders].sort())
  })

  test.each(drawn.flatMap((row, at) => row.map((folder) => [folder, drawn.slice(0, at).flat()] as const)))(
    'has all that src/%s imports in rows above it',
    (folder, above) => {
      expect(
        [...importsOf(folder)].filter((each) => folders.includes(each) && !above.includes(each)),
      ).toEqual([])
    },
  )
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

/** Files below a folder of the repository, by their paths in it. */
const filesIn = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.ts'),
  )

test('it has every law that code and tests refer to by number', () => {
  const text = readFileSync(join(root, 'docs/architecture.md'), 'utf8')
  const laws = [
    ...text
      .split('## Laws\n')[1]!
      .split('\n## ')[0]!
      .matchAll(/^(\d+)\. /gm),
  ].map(([, law]) => law)
  const files = ['src', 'test'].flatMap((folder) => filesIn(folder).map((file) => join(folder, file)))
  const unknown = files.flatMap((file) => {
    const named = readFileSync(join(root, file), 'utf8').matchAll(
      /\blaws?[\s*]+(\d+)(?:(?: and |, )(\d+))*/gi,
    )
    return [...named].flatMap(([found]) => found.match(/\d+/g)!).filter((law) => !laws.includes(law))
  })
  expect(laws).toEqual(Array.from({ length: 11 }, (_, index) => `${index + 1}`))
  expect(unknown).toEqual([])
})

/** The files that a file imports, as paths in the repository. */
function importedBy(file: string): readonly string[] {
  const text = readFileSync(join(root, file), 'utf8')
  return [...text.matchAll(/\bfrom '(\.[^']+)'/g)].map(([, from]) =>
    relative(root, resolve(root, dirname(file), from!)),
  )
}

describe.each([
  ['The way of a record', 15],
  ['The way of an event', 20],
])('%s', (title, most) => {
  const section = readFileSync(join(root, 'docs/architecture.md'), 'utf8')
    .split(`## ${title}\n`)[1]!
    .split('\n## ')[0]!
  const files = [...section.matchAll(/^\| `(src\/[\w./-]+\.ts)` \|/gm)].map(([, file]) => file!)

  test(`crosses at most ${most} files`, () => {
    expect(files.length).toBeGreaterThan(most - 5)
    expect(files.length).toBeLessThanOrEqual(most)
    expect(new Set(files).size).toBe(files.length)
  })

  test('goes from file to file along imports', () => {
    const imports = new Map(files.map((file) => [file, importedBy(file)]))
    const apart = files.slice(1).filter((file, at) => {
      // The drain takes events from the inbox, the table where both halves of the way meet.
      if (file === 'src/ingest/drain/drain.ts') return false
      const before = files.slice(0, at + 1)
      return !before.some((other) => imports.get(other)!.includes(file) || imports.get(file)!.includes(other))
    })
    expect(apart).toEqual([])
  })
})

describe('the size of src', () => {
  const lines = (file: string) => readFileSync(join(root, 'src', file), 'utf8').split('\n').length - 1

  test('is less than 400 files, of at most 250 lines', () => {
    const files = filesIn('src')
    expect(files.length).toBeLessThan(400)
    const long = files.filter((file) => lines(file) > 250)
    expect(long).toEqual([])
  })

  test('is 5 to 15 files in a folder; one with folders in it may have fewer of its own', () => {
    const counts = new Map<string, number>()
    for (const file of filesIn('src')) counts.set(dirname(file), (counts.get(dirname(file)) ?? 0) + 1)
    expect([...counts].filter(([, count]) => count > 15)).toEqual([])
    const isParent = (folder: string) =>
      folder === '.' || [...counts.keys()].some((other) => other.startsWith(`${folder}${sep}`))
    expect([...counts].filter(([folder, count]) => count < 5 && !isParent(folder))).toEqual([])
  })
})

describe('test/ mirrors src/', () => {
  const sources = new Set(filesIn('src'))
  const places = new Set([...sources].flatMap((file) => [dirname(file), dirname(dirname(file))]))
  /** Tests of more than one folder of src, each with a purpose of its own (docs/testing.md). */
  const apart = new Set(
    [
      'adding-a-resource',
      'bench',
      'canary',
      'compat',
      'conformance',
      'attack',
      'crash',
      'e2e',
      'fuzz',
      'hosts',
      'mutate',
      'mutations',
    ].concat(['probes', 'scripts', 'shipping', 'simulate', 'soak', 'support', 'upgrade']),
  )
  /** What the tests of a folder share stands with them. */
  const shared = /(^|\/)(support|fixtures)$/
  const mirrored = filesIn('test').filter((file) => !apart.has(file.split(sep)[0]!) && dirname(file) !== '.')

  test('has no folder without its counterpart', () => {
    const strange = mirrored.map(dirname).filter((folder) => !places.has(folder.replace(shared, '')))
    expect([...new Set(strange)]).toEqual([])
  })

  test('has the tests of a file at its path', () => {
    const misplaced = mirrored.filter((file) => {
      const name = basename(file).replace(/(\.long)?\.test\.ts$/, '.ts')
      if (name === basename(file) || sources.has(join(dirname(file), name))) return false
      return importedBy(join('test', file)).some(
        (each) => each.startsWith(`src/${file.split(sep)[0]}/`) && basename(each) === name,
      )
    })
    expect(misplaced).toEqual([])
  })
})
