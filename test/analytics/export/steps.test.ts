/** The steps of an export in their order: what is written before what, and what an interruption leaves behind. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { afterAll, beforeEach, expect, test, vi } from 'vitest'
import { type ExportOptions, exportRows, writeManifest } from '../../../src/analytics/export/export.ts'
import { exportFhir } from '../../../src/analytics/export/fhir.ts'
import type { Row } from '../../../src/analytics/export/query.ts'
import type { Session } from '../../../src/warehouse/connect.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const seen = vi.hoisted(() => ({ steps: [] as string[], portions: [] as (readonly Row[])[], failing: '' }))
const step = (name: string) => {
  seen.steps.push(name)
  if (name === seen.failing) throw new Error(`${name} fails`)
}

vi.mock('../../../src/analytics/export/query.ts', () => ({
  beginSnapshot: async () => step('begin'),
  openRows: async () => {
    step('rows')
    async function* portions() {
      for (const [at, portion] of seen.portions.entries()) {
        step(`portion ${at + 1}`)
        yield portion
      }
    }
    return { columns: [{ name: 'n', type: 'bigint', kind: 'int64' }], portions: portions() }
  },
}))

vi.mock('node:fs/promises', async (original) => {
  const real = await original<typeof import('node:fs/promises')>()
  return {
    ...real,
    open: async (...[path, flags, mode]: Parameters<typeof real.open>): Promise<FileHandle> => {
      step(`open ${basename(String(path))} ${flags} ${Number(mode).toString(8)}`)
      const file = await real.open(path, flags, mode)
      for (const name of ['writeFile', 'sync', 'close'] as const) {
        const own = file[name].bind(file) as (...given: unknown[]) => Promise<void>
        Object.assign(file, {
          [name]: async (...given: unknown[]) => {
            await own(...given)
            step(name)
          },
        })
      }
      return file
    },
    rename: async (from: string, to: string) => {
      step(`rename ${basename(from)} to ${basename(to)}`)
      await real.rename(from, to)
    },
  }
})

const folder = makeFolder('steps-')
afterAll(() => removeFolder(folder))

const query = async (text: string) => {
  step(text)
  if (text.includes('now()')) return { rows: [{ at: '2026-01-01T00:00:00+00:00' }] }
  return { rows: text.includes('teams') ? [{ id: 1, name: 'north' }] : [] }
}
const session = { client: { query } } as unknown as Session
const row = (n: number): Row => ({ values: [`${n}`], day: null, json: `{"n": ${n}}` })

beforeEach(() => {
  Object.assign(seen, { steps: [], portions: [[row(1), row(2)], [row(3)]], failing: '' })
})

const optionsOf = (name: string, signal = new AbortController().signal): ExportOptions => ({
  ...{ from: { text: '' }, format: 'csv', folder: join(folder, name), byDay: null, minCell: null },
  ...{ countColumns: undefined, about: { version: '1' }, signal },
})

const MANIFEST = [
  ...['open manifest.json.part wx 600', 'writeFile', 'sync', 'close'],
  'rename manifest.json.part to manifest.json',
]

test('the manifest is written once the snapshot has ended, and has its name once it is on the disk', async () => {
  await exportRows(session, optionsOf('whole'))
  expect(seen.steps).toEqual(['begin', 'rows', 'portion 1', 'portion 2', 'commit', ...MANIFEST])
  seen.steps = []
  const { folder: out, signal } = optionsOf('resources')
  const { files, rows } = await exportFhir(session, { folder: out, team: undefined, about: {}, signal })
  expect([rows, files.map((file) => file.rows)]).toEqual([9, [3, 3, 3]])
  const each = ['rows', 'portion 1', 'portion 2']
  expect(seen.steps.slice(1)).toEqual([
    ...['begin', expect.stringContaining('now()'), ...each, ...each, ...each],
    ...['commit', ...MANIFEST],
  ])
})

test.each(['csv', 'ndjson', 'parquet'] as const)(
  'an interrupted export reads no further portion, and leaves no manifest: %s',
  async (format) => {
    const controller = new AbortController()
    const portion = seen.portions[0]!
    seen.portions = [portion, portion, portion]
    // It comes while the first portion is written.
    Object.defineProperty(seen.portions, '1', {
      get: () => {
        controller.abort(new Error('interrupted'))
        return portion
      },
    })
    const options = { ...optionsOf(`interrupted-${format}`, controller.signal), format }
    await expect(exportRows(session, options)).rejects.toThrow('interrupted')
    expect(seen.steps.slice(2)).toEqual(['portion 1', 'portion 2'])
    expect(readdirSync(options.folder)).toEqual([`data.${format}`])
  },
)

test('an export whose snapshot cannot be ended is not complete', async () => {
  seen.failing = 'commit'
  const options = optionsOf('not-ended')
  await expect(exportRows(session, options)).rejects.toThrow('commit fails')
  expect(readdirSync(options.folder)).toEqual(['data.csv'])
  const { folder: out, signal } = optionsOf('not-ended-either')
  await expect(exportFhir(session, { folder: out, team: undefined, about: {}, signal })).rejects.toThrow(
    'commit fails',
  )
  expect(readdirSync(out).sort()).toEqual([
    ...['Patient.ndjson', 'Questionnaire.ndjson', 'QuestionnaireResponse.ndjson'],
  ])
})

test.each(['writeFile', 'sync'])(
  'a manifest for which %s fails is closed, and does not count as one',
  async (failing) => {
    const out = makeFolder('manifest-')
    try {
      seen.failing = failing
      await expect(writeManifest(out, { rows: 1 })).rejects.toThrow(`${failing} fails`)
      expect(seen.steps.at(-1)).toBe('close')
      expect(existsSync(join(out, 'manifest.json'))).toBe(false)
      // One that is there already is not written over.
      seen.failing = ''
      await expect(writeManifest(out, { rows: 2 })).rejects.toThrow('EEXIST')
    } finally {
      removeFolder(out)
    }
  },
)

test('files that are there already are not written over', async () => {
  const options = optionsOf('whole')
  await expect(exportRows(session, options)).rejects.toThrow('--out: the folder is not empty')
  expect(seen.steps).toEqual([])
  expect(readFileSync(join(options.folder, 'data.csv'), 'utf8')).toBe('n\r\n1\r\n2\r\n3\r\n')
})

test('a folder that cannot be made, or is not empty, is an error of --out with a code of its own', async () => {
  const file = join(folder, 'whole', 'data.csv')
  const refused = (out: string) => exportRows(session, { ...optionsOf('whole'), folder: out })
  await expect(refused(join(file, 'below'))).rejects.toMatchObject({
    message: '--out: the folder cannot be made (ENOTDIR)',
    ...{ code: 'file_unreadable', variable: '--out', hint: 'name another folder' },
  })
  await expect(refused(join(folder, 'whole'))).rejects.toMatchObject({
    ...{ code: 'folder_not_empty', variable: '--out', hint: 'name a new folder for each export' },
  })
  expect(seen.steps).toEqual([])
})
