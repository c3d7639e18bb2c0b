/** A short form of `npm run soak`, and what its judge says about years that went wrong. */
import { describe, expect, it } from 'vitest'
import { judge } from './judge.ts'
import { type Night, type Soak, soak } from './soak.ts'

it('after twenty nights of edits, deletes, rewordings, erasures, outages and kills every table equals a fresh load, and nothing grew', async () => {
  const historyDays = 5
  const played = await soak({ nights: 20, patients: 60, changes: 20, inboxDays: 3, historyDays })
  expect(judge(played, historyDays)).toEqual([])
  expect(played.nights.map(({ night }) => night)).toEqual(Array.from({ length: 20 }, (_, at) => at + 1))
  for (const { events } of played.nights) expect(events).toBeGreaterThan(0)
  // The old days of the inbox went, and superseded payloads with them.
  expect(played.days.length).toBeLessThanOrEqual(3 + 1 + 3 + 3)
  expect(played.oldestHistoryDays).toBeLessThanOrEqual(historyDays + 1)
}, 900_000)

describe('the judge finds', () => {
  const MEBIBYTE = 1024 * 1024
  const night = (number: number, bytes: number): Night => ({
    ...{ night: number, databaseBytes: bytes, residentBytes: 200 * MEBIBYTE },
    ...{ seconds: 1, drainSeconds: 1, events: 1, exitCode: 0 },
  })
  const calm: Soak = {
    nights: Array.from({ length: 30 }, (_, at) => night(at + 1, 100 * MEBIBYTE)),
    ...{ differing: [], neglected: [], oldestAge: 1_000, sizes: [], days: [], oldestHistoryDays: 1 },
  }

  it.each<[string, Partial<Soak>, RegExp]>([
    ['a table that differs from a fresh load', { differing: ['patients'] }, /differs.*patients/],
    ['dead rows', { neglected: [{ table: 'intake.forms', dead: 900, live: 10 }] }, /900 dead rows/],
    ['rows that were never frozen', { oldestAge: 100_000_000 }, /transactions old/],
    [
      'a database that grows',
      { nights: calm.nights.map((each) => night(each.night, each.night * 20 * MEBIBYTE)) },
      /database grew/,
    ],
    [
      'a table that grows',
      { sizes: [{ table: 'intake_ops.drift', before: MEBIBYTE, after: 3 * MEBIBYTE }] },
      /drift grew/,
    ],
  ])('%s', (_, wrong, said) => {
    expect(judge(calm, 5)).toEqual([])
    expect(judge({ ...calm, ...wrong }, 5)).toEqual([expect.stringMatching(said)])
  })

  it('no fault in the growth of the list of removed records, whose rows stay for longer than a year', () => {
    const sizes = [{ table: 'intake_raw.removed_records', before: MEBIBYTE, after: 3 * MEBIBYTE }]
    expect(judge({ ...calm, sizes }, 5)).toEqual([])
  })
})
