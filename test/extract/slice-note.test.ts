/** The note of a slice: only findings that need action ask for attention. */
import { describe, expect, test } from 'vitest'
import type { ScanReport } from '../../src/extract/scan/scan.ts'
import {
  everythingNote,
  joinNotes,
  massDeleteNote,
  NO_NOTE,
  partlyReadNote,
  sinceNote,
  unstableNote,
} from '../../src/extract/slice-note.ts'

const scan = (over: Partial<ScanReport> = {}): ScanReport =>
  ({ count: 7, distinct: 5, listed: 4, complete: true, reason: 'count_mismatch', ...over }) as ScanReport

describe('a list that was read several times and was never stable', () => {
  test('in the same way each time needs attention: its count is wrong', () => {
    expect(unstableNote([scan(), scan(), scan()])).toEqual({
      text: 'the service counts 7 but lists 5 distinct records, each time the same; deletes are not looked for while its count is wrong',
      attention: true,
    })
  })

  test('that ends early each time is reported with the number of records up to there', () => {
    const early = scan({ complete: false, distinct: 9 })
    expect(unstableNote([early, scan({ complete: false, distinct: 6 })])).toEqual({
      text: 'the service counts 7 but its pages end after 4 records, each time the same; deletes are not looked for while its count is wrong',
      attention: true,
    })
  })

  test.each<[string, readonly ScanReport[]]>([
    ['found others each time', [scan({ distinct: 6 }), scan()]],
    ['was counted otherwise each time', [scan({ count: 8 }), scan()]],
    ['was unstable for another reason each time', [scan({ reason: 'short_page' }), scan()]],
    ['has no count', [scan({ count: null }), scan({ count: null })]],
    ['has the count that was found', [scan({ count: 5 }), scan({ count: 5 })]],
  ])('and %s is read again the next time, and needs no attention', (_, scans) => {
    expect(unstableNote(scans)).toEqual({
      text: 'the list kept changing while it was read (count_mismatch); deletes are looked for next time',
      attention: false,
    })
  })

  test('is reported as unstable if nothing else is known', () => {
    const changing = [scan({ reason: null, distinct: 1 }), scan({ reason: null })]
    expect(unstableNote(changing).text).toContain('(unstable)')
  })
})

test('a log that was read in part is reported, with the count if there is one', () => {
  expect(partlyReadNote(scan())).toEqual({
    text: 'not all entries of the log were listed, of 7 that the service counts (count_mismatch); it is read again next time',
    attention: false,
  })
  expect(partlyReadNote(scan({ count: null, reason: null })).text).toBe(
    'not all entries of the log were listed (unstable); it is read again next time',
  )
})

test('waiting deletes are reported with their number, the limit, and how to allow them', () => {
  expect(massDeleteNote('forms', 60, 50)).toEqual({
    text: '60 forms are missing from a complete list, more than the 50 that a run deletes by itself; nothing was deleted. If they are really gone, run again with --allow-mass-delete',
    attention: true,
  })
})

test('a full scan in place of a partial one is reported with the reason, and needs no attention', () => {
  expect(everythingNote('why')).toEqual({ text: 'why; everything was read', attention: false })
  expect(sinceNote('reason')).toEqual({
    text: 'reason; the records from --since on were read, and the next run reads everything',
    attention: false,
  })
})

test('joined notes contain all of each, and need attention if one does', () => {
  const [a, b] = [
    { text: 'a', attention: false },
    { text: 'b', attention: true },
  ]
  expect(joinNotes()).toEqual(NO_NOTE)
  expect(joinNotes(NO_NOTE, NO_NOTE)).toEqual({ text: null, attention: false })
  expect(joinNotes(NO_NOTE, a)).toEqual(a)
  expect(joinNotes(a, b)).toEqual({ text: 'a; b', attention: true })
  expect(joinNotes(b, a, NO_NOTE)).toEqual({ text: 'b; a', attention: true })
})
