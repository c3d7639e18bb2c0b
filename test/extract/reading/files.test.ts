/** Files from other sources, read as exports: cell by cell as an independent reader finds them, or malformed. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { MalformedFile } from '../../../src/load/exports/file-problems.ts'
import { realData, realDataMissing, reasonWhenMissing } from '../../emulator/real-data.ts'
import { independently, readBytes } from './reading.ts'

function filesIn(folder: string): readonly string[] {
  if (realDataMissing) return []
  return readdirSync(realData(folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.[ct]sv$/.test(name))
    .sort()
    .map((name) => join(folder, name))
}

const surveys = filesIn('surveys')
const torture = filesIn('csv')

describe.skipIf(realDataMissing)(`public files${reasonWhenMissing}`, () => {
  test('the files exist', () => {
    expect(surveys.length).toBeGreaterThan(80)
    expect(torture.length).toBeGreaterThan(150)
  })

  test.each([...surveys, ...torture])('%s', (name) => {
    const bytes = readFileSync(realData(name))
    const bom = bytes.subarray(0, 3).toString('hex') === 'efbbbf' ? 3 : 0
    const expected = independently(bytes.subarray(bom))
    const found = readBytes(bytes, 'text/csv', [4_096, 1, 777])
    if (found instanceof MalformedFile) expect(expected).toBeNull()
    else expect(found).toEqual(expected)
  })

  test('only those with a quote inside a bare cell are malformed', () => {
    const malformed = torture.filter(
      (name) => readBytes(readFileSync(realData(name))) instanceof MalformedFile,
    )
    expect(malformed.map((name) => name.split('/').at(-1))).toEqual([
      'location_coordinates.csv',
      'escaping.csv',
      'issue-1109.csv',
      'issue-1138.csv',
      'issue-833.csv',
      'malformed.tsv',
    ])
  })
})
