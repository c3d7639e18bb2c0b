/** Imports run one way; the rules are in biome.json, which `npm run check` applies to every file. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { beforeAll, expect, test } from 'vitest'

const biome = join(
  dirname(createRequire(import.meta.url).resolve('@biomejs/biome/package.json')),
  'bin/biome',
)

const FORBIDDEN: readonly (readonly [from: string, imported: string])[] = [
  ['src/core/planted.ts', '../api/client.ts'],
  ['src/core/planted.ts', '../streams/cell.ts'],
  ['src/api/planted.ts', '../streams/stream.ts'],
  ['src/api/paging/planted.ts', '../../load/load.ts'],
  ['src/warehouse/planted.ts', '../streams/stream.ts'],
  ['src/streams/planted.ts', '../normalize/map.ts'],
  ['src/streams/planted.ts', '../load/merge/write-batch.ts'],
  ['src/load/planted.ts', '../extract/scan.ts'],
  ['src/load/planted.ts', '../api/client.ts'],
  ['src/extract/planted.ts', '../operate/status.ts'],
  ['src/operate/planted.ts', '../commands/table.ts'],
  ['src/operate/planted.ts', '../console/server.ts'],
  ['src/console/planted.ts', '../commands/table.ts'],
  ['src/console/planted.ts', '../config/config.ts'],
  ['src/operate/planted.ts', '../config/config.ts'],
  ['src/normalize/planted.ts', '../load/load.ts'],
  ['src/load/planted.ts', '../extract/source.ts'],
  ['src/ingest/planted.ts', '../extract/source.ts'],
  ['src/analytics/planted.ts', '../load/load.ts'],
  ['src/extract/planted.ts', '../reconcile/verify/verify.ts'],
  ['src/emulator/planted.ts', '../core/errors.ts'],
  ['src/emulator/http/planted.ts', '../../api/client.ts'],
]

const ALLOWED: readonly (readonly [from: string, imported: string])[] = [
  ['src/api/planted.ts', '../core/json.ts'],
  ['src/streams/planted.ts', '../api/paths.ts'],
  ['src/load/planted.ts', '../streams/stream.ts'],
  ['src/extract/planted.ts', '../load/load.ts'],
  ['src/load/planted.ts', '../normalize/lines.ts'],
  ['src/operate/planted.ts', '../reconcile/verify/verify.ts'],
  ['src/console/planted.ts', '../reconcile/verify/verify.ts'],
  ['src/emulator/planted.ts', '../core/signature.ts'],
]

/** Each imports the next, and the last one the first; the second pair imports types only. */
const CIRCLES: readonly (readonly string[])[] = [
  ['src/core/circle_one.ts', 'src/core/circle_two.ts', 'src/core/circle_three.ts'],
  ['src/emulator/circle_one.ts', 'src/emulator/world/circle_two.ts'],
]

/** Files in which a rule was broken: each of the pairs above is a file, and each circle its files. */
let broken: readonly string[]
let inCircles: readonly string[]

beforeAll(() => {
  const folder = mkdtempSync(join(tmpdir(), 'intake-imports-'))
  try {
    const config = JSON.parse(readFileSync(new URL('../biome.json', import.meta.url), 'utf8'))
    writeFileSync(join(folder, 'biome.json'), JSON.stringify({ ...config, vcs: undefined }))
    for (const [from, imported] of [...FORBIDDEN, ...ALLOWED]) {
      const path = join(folder, plantedName(from, imported))
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, `import type { X } from '${imported}'\n\nexport type Y = X\n`)
    }
    for (const files of CIRCLES) {
      for (const [at, file] of files.entries()) {
        const next = relative(dirname(file), files[(at + 1) % files.length]!)
        const imported = next.startsWith('.') ? next : `./${next}`
        mkdirSync(join(folder, dirname(file)), { recursive: true })
        writeFileSync(
          join(folder, file),
          `import type { X as Y } from '${imported}'\n\nexport type X = Y | 1\n`,
        )
      }
    }
    const options = ['lint', '--reporter=github', '--max-diagnostics=none', '.']
    const { stdout } = spawnSync(process.execPath, [biome, ...options], { cwd: folder, encoding: 'utf8' })
    const lines = stdout.split('\n')
    broken = lines.filter((line) => line.includes('noRestrictedImports'))
    inCircles = lines.filter((line) => line.includes('noImportCycles'))
  } finally {
    rmSync(folder, { recursive: true })
  }
})

/** A unique file name for each pair. */
function plantedName(from: string, imported: string): string {
  return from.replace('planted', `planted_${imported.replace(/\W+/g, '_')}`)
}

function isBroken(from: string, imported: string): boolean {
  return broken.some((line) => line.includes(plantedName(from, imported)))
}

test.each(FORBIDDEN)('%s may not import %s, not even a type', (from, imported) => {
  expect(isBroken(from, imported)).toBe(true)
})

test.each(ALLOWED)('%s may import %s', (from, imported) => {
  expect(isBroken(from, imported)).toBe(false)
})

test.each(CIRCLES.flat())('%s may not be part of a circle, not even of types', (file) => {
  expect(inCircles.some((line) => line.includes(`file=${file},`) || line.includes(`/${file},`))).toBe(true)
})

test('files that form no circle are not reported as one', () => {
  expect(inCircles).toHaveLength(CIRCLES.flat().length)
})
