/** What a scan notes of the entries that it has read, and when that is stored, without a warehouse. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { documents } from '../../../src/streams/documents.ts'
import { patients } from '../../../src/streams/patients.ts'
import { HASH, keyOf, open, person, raw, store } from '../support/known.ts'
import { asked, calls, forgetAll, noted, storing } from '../support/stored-pages.ts'

vi.mock('../../../src/extract/scan/known-pages.ts', async (original) => ({
  ...(await original<typeof import('../../../src/extract/scan/known-pages.ts')>()),
  openKnownPages: (await import('../support/stored-pages.ts')).openKnownPages,
}))

beforeEach(forgetAll)

describe('a page is stored again', () => {
  const all = Array.from({ length: 64 }, (_, at) => person(`p${String(at).padStart(2, '0')}`))
  const changed = (count: number) => all.map((each, at) => (at < count ? { ...each, first_name: 'B' } : each))

  test.each([
    [0, false],
    [2, false],
    [3, true],
  ])('of 64 entries that were stored, with %i unknown ones: %s', async (count, isStored) => {
    store(1, all)
    const { known, scan } = await open()
    await scan(1, changed(count).map(raw))
    await known.keep(1)
    expect(calls().includes('store 1')).toBe(isStored)
  })

  test.each([
    [2, false],
    [3, true],
  ])(
    'if enough of its 64 entries were known elsewhere, here %i, whatever another page has too: %s',
    async (count, isStored) => {
      const moved = ['q0', 'q1', 'q2'].map((id) => person(id))
      store(1, all)
      store(2, [...moved, ...all.slice(0, 3)])
      const { known, scan } = await open()
      await scan(1, [...all.slice(0, 64 - count), ...moved.slice(0, count)].map(raw))
      await known.keep(2)
      expect(calls().includes('store 1')).toBe(isStored)
    },
  )

  test('that was not stored, with its first known entry, and never without one', async () => {
    const { known, scan } = await open()
    await scan(1, [raw(person('a'))])
    await scan(2, [raw({ first_name: 'no id' })])
    await scan(3, [])
    await known.keep(3)
    expect(calls()).toEqual(['load ', 'load ', 'load ', 'store 1', 'stored', 'settle 3'])
  })

  test('as its entries were read: those are left out whose reading depends on more than their bytes', async () => {
    const kept = person('a', { updated_at: '2026-02-01T00:00:00Z' })
    const later = person('z', { updated_at: '2026-02-03T00:00:00Z' })
    const earlier = person('y', { updated_at: '2026-01-03T00:00:00Z' })
    const { known, scan } = await open()
    const numeric = { id: 7, first_name: 'A' }
    const entries = [
      ...[kept, person('problem', { city: 'a\u0000b' }), { first_name: 'no id' }, person('li\nne')],
      ...[numeric, { uid: 'of uid', first_name: 'A' }, later, earlier],
      ...[person('ahead', { updated_at: '2026-04-01T00:00:00Z' }), { id: 'alone' }],
    ]
    await scan(4, entries.map(raw))
    await known.keep(null)
    const [page, ...others] = noted()
    expect(others).toEqual([])
    expect(page).toMatchObject({
      ...{ page: 4, ids: ['a', '7', 'of uid', 'z', 'y'], updatedTo: '2026-02-03T00:00:00.000000Z' },
      bytes: [kept, numeric, { uid: 'of uid', first_name: 'A' }, later, earlier].map(keyOf).join(''),
    })
    expect(page!.hashes).toMatch(/^[\da-f]{160}$/)
    expect(calls().at(-1)).toBe('settle null')
  })

  test('without entries that are only a part of their record, and with the same ones where they are the whole', async () => {
    const entry = { id: 'd', name: 'D' }
    for (const [apiVersion, ids] of [
      ['v2.1', undefined],
      ['', ['d']],
    ] as const) {
      asked.length = 0
      const { known, scan } = await open(documents, { apiVersion })
      await scan(1, [raw(entry)])
      await known.keep(1)
      expect(noted()[0]?.ids).toEqual(ids)
    }
  })

  test('with those of another page that were read anew, by the bytes that they have', async () => {
    store(1, [person('a'), person('b')], '2026-04-01T00:00:00.000000Z')
    const { known, scan } = await open()
    expect(await scan(2, [raw(person('a'))])).toEqual(['a'])
    // On their own page they are nothing new.
    await scan(1, [raw(person('a')), raw(person('b'))])
    await known.keep(2)
    expect(noted()).toMatchObject([{ page: 2, ids: ['a'], bytes: keyOf(person('a')) }])
    expect(noted()[0]!.hashes).not.toBe(HASH)
  })

  test('with the bytes, the id and the hash of those that were known, the latest date of all, and new ones after them', async () => {
    store(1, [person('a'), person('b')], '2026-02-01T00:00:00.000000Z')
    const { known, scan } = await open()
    expect(await scan(1, [raw(person('a')), raw(person('new')), raw(person('b'))])).toEqual(['a', 'b'])
    await known.keep(1)
    const [page] = noted()
    expect(page).toMatchObject({ ids: ['a', 'new', 'b'], updatedTo: '2026-02-01T00:00:00.000000Z' })
    expect(page!.bytes).toBe([person('a'), person('new'), person('b')].map(keyOf).join(''))
    expect([page!.hashes.slice(0, 32), page!.hashes.slice(64)]).toEqual([HASH, HASH])
  })
})

describe('pages are stored', () => {
  const note = async (scan: Awaited<ReturnType<typeof open>>['scan'], from: number, to: number) => {
    for (let page = from; page <= to; page++) await scan(page, [raw(person(`p${page}`))])
  }
  const stores = () => calls().filter((call) => !String(call).startsWith('load'))
  const list = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, at) => from + at).join()

  test('twenty together, once those before are, and the rest at the end', async () => {
    const ends: (() => void)[] = []
    storing.wait = () => new Promise((resolve) => ends.push(resolve))
    const { known, scan } = await open()
    await note(scan, 1, 19)
    expect(stores()).toEqual([])
    await note(scan, 20, 39)
    expect(stores()).toEqual([`store ${list(1, 20)}`])
    const fortieth = note(scan, 40, 40)
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    expect(stores()).toHaveLength(1)
    ends.shift()!()
    await fortieth
    await note(scan, 41, 41)
    const kept = known.keep(41)
    await expect.poll(() => ends.length).toBe(1)
    ends.shift()!()
    await expect.poll(() => ends.length).toBe(1)
    expect(stores()).not.toContain('settle 41')
    ends.shift()!()
    await kept
    expect(stores()).toEqual([
      ...[`store ${list(1, 20)}`, 'stored', `store ${list(21, 40)}`, 'stored', 'store 41', 'stored'],
      'settle 41',
    ])
  })

  test('and a failure to store them is reported by the next pages and at the end, and never lost', async () => {
    storing.wait = () => Promise.reject(new Error('no'))
    const { known, scan } = await open()
    await note(scan, 1, 20)
    for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate)
    await expect(note(scan, 21, 40)).rejects.toThrow('no')
    await expect(known.keep(40)).rejects.toThrow('no')
    expect(stores()).not.toContain('settle 40')
  })

  test('and where records of erased patients were among them, those of such records are forgotten before the end', async () => {
    for (const erased of [0, 1]) {
      asked.length = 0
      const { known, scan } = await open(patients, { erased })
      await note(scan, 1, 1)
      await known.keep(1)
      expect(stores()).toEqual(['store 1', 'stored', ...(erased > 0 ? ['forget'] : []), 'settle 1'])
    }
  })
})
