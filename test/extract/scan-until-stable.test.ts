/** A list that changes during a scan is scanned again, and the records of each scan are loaded and counted once. */
import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { scanUntilStable } from '../../src/extract/reading/read-list.ts'
import { EVERYTHING } from '../../src/extract/reading/window.ts'
import type { ScanRequest } from '../../src/extract/scan/scan.ts'
import { hashesOf, noteErased } from '../../src/load/erasures.ts'
import { json } from '../api/support/service.ts'
import { ago, notingLoad, openRig, type Rig } from './support/reading.ts'

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
})
afterEach(() => rig[Symbol.asyncDispose]())

const person = (id: string, first_name = 'A') => ({ id, first_name })
const OPTIONS = { allowMassDelete: false, dry: false, migrated: true, window: { ...EVERYTHING, full: false } }

/** Answers the list with one scan after another, each a page with its count. */
function readings(...all: readonly { readonly count: number; readonly results: readonly unknown[] }[]): void {
  const left = [...all]
  rig.service.interfere = (_, response) => {
    json(response, { next: null, previous: null, ...left.shift()! })
    return true
  }
}

async function read(request: ScanRequest = {}, options: Partial<typeof OPTIONS> = {}) {
  const noting = notingLoad()
  const said: object[] = []
  const logger = pino({ base: null, timestamp: false }, { write: (line) => void said.push(JSON.parse(line)) })
  const source = await rig.source('patients', { load: noting.load, logger })
  const scans = await scanUntilStable(source, rig.session, { ...OPTIONS, ...options }, request)
  return { ...scans, tally: source.tally, said, modes: noting.batches.map(({ mode }) => mode) }
}

test('a stable list is read once, straight if nothing of it is stored', async () => {
  readings({ count: 2, results: [person('a'), person('b')] })
  const { last, all, conflicting, tally, modes } = await read()
  expect(last).toMatchObject({ stable: true, distinct: 2 })
  expect([all, [...conflicting], modes]).toEqual([[last], [], ['straight']])
  expect(tally).toMatchObject({ fetched: 2, changed: 2 })
  expect(rig.service.received).toHaveLength(1)
})

test('a stream with stored records is compared with them, though another team has none', async () => {
  await rig.hold('patients', [person('a'), { id: 'b', first_name: 'former' }], ago(60))
  readings({ count: 2, results: [person('a'), person('b')] })
  const { tally, modes } = await read()
  expect(modes).toEqual(['merge'])
  expect(tally).toMatchObject({ fetched: 2, changed: 1, unchanged: 1 })
})

test('records of another team or stream do not count as stored', async () => {
  await rig.hold('patients', [person('a')], ago(60), rig.otherId)
  await rig.hold('forms', [{ id: 'f', questions: [] }], ago(60))
  readings({ count: 1, results: [person('a')] })
  expect((await read()).modes).toEqual(['straight'])
})

test('a list that is stable the second time is read twice; what was fetched, unchanged and erased counts for the last scan', async () => {
  await rig.hold('patients', [person('a')], ago(60))
  const erasures = await hashesOf(rig.session.db, rig.teamId)
  await noteErased(rig.session.db, erasures, 'e', [{ stream: 'patients', id: 'e' }])
  readings(
    { count: 3, results: [person('a'), person('b'), 7] },
    { count: 3, results: [person('a'), person('b'), person('c')] },
  )
  const { last, all, tally } = await read()
  expect([last.stable, all.length]).toEqual([true, 1])
  expect(tally).toMatchObject({ fetched: 3, changed: 1, unchanged: 1, deadLetters: 1 })

  readings(
    { count: 9, results: [person('a'), person('d'), person('e'), 8] },
    { count: 4, results: [person('a'), person('b'), person('d'), person('e')] },
  )
  const again = await read()
  expect([again.last.stable, again.all.length]).toEqual([true, 2])
  // Records that the first scan loaded are changed; its dead letters were not seen by the second. Erased ones count once.
  expect(again.tally).toMatchObject({ fetched: 4, changed: 1, unchanged: 3, erased: 1, deadLetters: 0 })
})

test('only the first scan is loaded straight', async () => {
  readings({ count: 9, results: [person('a')] }, { count: 1, results: [person('a', 'B')] })
  const { modes } = await read()
  expect(modes).toEqual(['straight', 'merge'])
})

test('a list that is never stable is read three times; conflicts of any scan are refetched', async () => {
  const twice = (id: string, count: number) => ({ count, results: [person(id), person(id, 'B')] })
  readings(twice('a', 2), twice('b', 2), twice('c', 2), twice('d', 2))
  const { last, all, conflicting, said } = await read()
  expect([all.length, last === all.at(-1), last.stable, last.reason]).toEqual([
    3,
    true,
    false,
    'rows_repeated',
  ])
  expect([...conflicting].sort()).toEqual(['a', 'b', 'c'])
  expect(rig.service.received).toHaveLength(3)
  const again = {
    ...{ level: 30, team: 'north', stream: 'patients', reason: 'rows_repeated' },
    msg: 'the list changed while it was read; reading it again',
  }
  expect(said).toEqual([
    { ...again, scan: 1 },
    { ...again, scan: 2 },
  ])
})

test('a list whose filter is not trusted is not read again', async () => {
  readings({ count: 1, results: [person('a')] })
  const { last, all } = await read({ satisfies: () => false })
  expect([last.stopped, all.length]).toEqual([true, 1])
})
