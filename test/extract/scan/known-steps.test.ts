/** Which entries of a list are known, and which are read anew, without a warehouse: the stored pages are as each test says. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { Page } from '../../../src/api/paging/pages.ts'
import { type KnownEntry, readPage } from '../../../src/extract/scan/known-entries.ts'
import { patients } from '../../../src/streams/patients.ts'
import { turnsDuring } from '../../support/turns.ts'
import { HASH, keyOf, NOW, open, person, raw, store } from '../support/known.ts'
import { asked, calls, forgetAll, noted } from '../support/stored-pages.ts'

vi.mock('../../../src/extract/scan/known-pages.ts', async (original) => ({
  ...(await original<typeof import('../../../src/extract/scan/known-pages.ts')>()),
  openKnownPages: (await import('../support/stored-pages.ts')).openKnownPages,
}))

beforeEach(forgetAll)

test('entries are known to one version of this program, of the API and of Node: another may read the same bytes differently', async () => {
  await open()
  await open(patients, { apiVersion: '' })
  const recall = true
  expect(asked).toEqual([
    { reader: `1 v2.1 node ${process.versions.node}`, recall },
    { reader: `1  node ${process.versions.node}`, recall },
  ])
})

describe('an entry is looked for', () => {
  const page = (at: number) => [person(`${at}a`), person(`${at}b`), person(`${at}c`)]

  test('in the row of its page, in the last one where the list has grown, and in those whose beginning or end came here', async () => {
    for (const at of [1, 2, 3]) store(at, page(at))
    const { scan } = await open()
    expect(await scan(1, page(1).map(raw))).toEqual(['1a', '1b', '1c'])
    expect(await scan(2, page(2).map(raw))).toEqual(['2a', '2b', '2c'])
    // Four entries were added: here are the end of the first page, and the beginning of the second.
    expect(await scan(3, [raw(person('1c')), ...page(2).slice(0, 2).map(raw)])).toEqual(['1c', '2a', '2b'])
    // The list has more pages than it had.
    expect(await scan(7, [page(3)[2]!, page(3)[1]!].map(raw))).toEqual(['3c', '3b'])
    // Three were removed.
    expect(await scan(1, page(2).map(raw))).toEqual(['2a', '2b', '2c'])
    expect(calls().filter((call) => String(call).startsWith('load'))).toEqual([
      ...['load 1', 'load 2', 'load 3,2,1', 'load 3', 'load 1,2'],
    ])
  })

  test('first in the row of its own page, whichever row comes first', async () => {
    store(1, [person('x'), person('a')])
    store(2, [person('b'), person('a')])
    const { known } = await open()
    const [own] = (await known.read(2, [person('a'), person('x')].map(raw))) as readonly KnownEntry[]
    expect([own!.page, own!.id, own!.hash, own!.bytesHash]).toEqual([2, 'a', HASH, keyOf(person('a'))])
  })

  test('and one that was parsed already is left as it is', async () => {
    const { known } = await open()
    const value = person('a')
    expect((await known.read(1, [value]))[0]).toBe(value)
  })
})

describe('a known entry is read', () => {
  test.each([
    ['not again, though its latest date is the time of this reading', NOW, [null]],
    ['anew where its date is later than that', '2026-03-01T00:00:00.000001Z', ['a']],
    ['not again if it has no date', null, [null]],
  ])('%s', async (_, updatedTo, expected) => {
    const value = person('a')
    store(1, [value], updatedTo)
    const { known, reading } = await open()
    const page = { number: 1, records: await known.read(1, [raw(value)]) } as unknown as Page
    const reads = await readPage(page, reading)
    expect(reads.map((read) => (read?.kind === 'record' ? read.envelope.id : read))).toEqual(expected)
    // It stays known by the same bytes.
    await known.note(page, reads)
    expect(noted()).toEqual([])
  })

  test('every twenty that are read others get a turn, and none for those that are not read', async () => {
    const all = Array.from({ length: 60 }, (_, at) => person(`p${at}`))
    store(1, all)
    const { known, reading } = await open()
    const turnsOf = (records: readonly unknown[]) =>
      turnsDuring(() => readPage({ number: 1, records } as unknown as Page, reading))
    expect(await turnsOf(await known.read(1, all.map(raw)))).toBe(0)
    expect(await turnsOf(all.slice(0, 19))).toBe(0)
    expect(await turnsOf(all)).toBe(3)
  })
})
