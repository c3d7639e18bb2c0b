/** Where a drain searches: not again among what it took, and often enough from the beginning. */
import { describe, expect, test } from 'vitest'
import type { InboxRow } from '../../../src/ingest/drain/inbox-rows.ts'
import { openSearchStart, type StartOf } from '../../../src/ingest/drain/search-start.ts'

/** A clock that moves only when `pass` is called, in milliseconds. */
function openClock() {
  let micros = 1_000_000_000
  return {
    pass: (milliseconds: number) => {
      micros += milliseconds * 1_000
    },
    clock: { now: () => micros, sleep: () => Promise.resolve() } as never,
  }
}

/** A team's events in an inbox; `cost` is how long a search from the beginning lasts, in milliseconds. */
function openInbox(cost: number) {
  const { clock, pass } = openClock()
  const start = openSearchStart(clock)
  const pending = new Set<number>()
  const starts: number[] = []
  return {
    pass,
    start,
    pending,
    starts,
    /** Takes the first events that are due, `most` of them, and settles them unless they are rolled back. */
    async take(most: number, settled = true): Promise<readonly number[]> {
      const rows = await start.search((startOf: StartOf) => {
        const after = Number(startOf(1))
        starts.push(after)
        pass(after === 0 ? cost : 1)
        const found = [...pending].filter((seq) => seq > after).sort((a, b) => a - b)
        return Promise.resolve(
          found.slice(0, most).map((seq) => ({ teamId: 1, seq: String(seq) }) as InboxRow),
        )
      })
      const seqs = rows.map(({ seq }) => Number(seq))
      if (settled) for (const seq of seqs) pending.delete(seq)
      return seqs
    },
    store(from: number, to: number) {
      for (let seq = from; seq <= to; seq += 1) pending.add(seq)
    },
  }
}

describe('while a search from the beginning is slow', () => {
  test('it takes a twentieth of the time, and every event is taken once', async () => {
    const inbox = openInbox(400)
    let stored = 0
    const all: number[] = []
    for (let round = 0; round < 1_000; round += 1) {
      inbox.store(stored + 1, stored + 10)
      stored += 10
      all.push(...(await inbox.take(100)))
      inbox.pass(100)
    }
    for (let round = 0; round < 100; round += 1) {
      all.push(...(await inbox.take(100)))
      inbox.pass(100)
    }
    expect(all.sort((a, b) => a - b)).toEqual(Array.from({ length: stored }, (_, at) => at + 1))
    const whole = inbox.starts.slice(100).filter((after) => after === 0).length
    expect(whole).toBeGreaterThan(5)
    expect(whole * 400).toBeLessThan(1_000 * 101 * 0.06)
    // The others begin two to four seconds back, not at the first event.
    expect(inbox.starts[999]! === 0 || inbox.starts[999]! > 9_500).toBe(true)
  })

  test('an event that was stored up to two seconds late is taken at once', async () => {
    const inbox = openInbox(10_000)
    inbox.store(1, 20)
    for (let round = 0; round < 3; round += 1) {
      await inbox.take(100)
      inbox.pass(2_100)
    }
    inbox.store(30, 30)
    expect(await inbox.take(100)).toEqual([30])
    inbox.pass(1_500)
    inbox.store(29, 29)
    expect(await inbox.take(100)).toEqual([29])
    expect(inbox.starts.slice(-2)).toEqual([20, 20])
  })

  test('many events before the start, of a replay for example, are taken one batch after another', async () => {
    const inbox = openInbox(300)
    inbox.store(10_001, 10_010)
    await inbox.take(100)
    for (let round = 0; round < 3; round += 1) {
      inbox.pass(2_100)
      await inbox.take(100)
    }
    inbox.store(1, 1_000)
    const taken: number[] = []
    for (let round = 0; taken.length === 0 && round < 100; round += 1) {
      inbox.pass(200)
      taken.push(...(await inbox.take(100)))
    }
    const before = inbox.starts.length
    while (inbox.pending.size > 0) {
      inbox.pass(400)
      taken.push(...(await inbox.take(100)))
    }
    expect(taken).toEqual(Array.from({ length: 1_000 }, (_, at) => at + 1))
    expect(inbox.starts.length - before).toBe(9)
  })
})

test('after a failure the next search is from the beginning', async () => {
  const inbox = openInbox(10_000)
  inbox.store(1, 10)
  await inbox.take(100, false)
  inbox.pass(5_000)
  await inbox.take(100)
  inbox.pass(5_000)
  inbox.store(1, 1)
  await inbox.take(100)
  expect(await inbox.take(100)).toEqual([])
  inbox.start.reset()
  inbox.store(1, 1)
  expect(await inbox.take(100)).toEqual([1])
})

test('events of several batches that are pending again after a failure are all taken, one batch after another', async () => {
  const inbox = openInbox(10_000)
  inbox.store(1, 300)
  for (let batch = 0; batch < 3; batch += 1) await inbox.take(100)
  inbox.pass(2_100)
  await inbox.take(100)
  inbox.store(101, 300)
  inbox.start.reset()
  const taken: (number | undefined)[] = []
  for (let batch = 0; batch < 4; batch += 1) {
    taken.push((await inbox.take(50))[0])
    inbox.pass(2_100)
  }
  expect(taken).toEqual([101, 151, 201, 251])
})

test('an event that is found before the start has those after it taken next, however many digits they have', async () => {
  const inbox = openInbox(10_000)
  inbox.store(1_000, 1_000)
  for (let round = 0; round < 3; round += 1) {
    await inbox.take(1)
    inbox.pass(2_100)
  }
  inbox.pass(200_000)
  inbox.store(99, 101)
  expect([await inbox.take(1), await inbox.take(1), await inbox.take(1)]).toEqual([[99], [100], [101]])
  expect(inbox.starts.slice(-3)).toEqual([0, 98, 98])
})

test('each team has a start of its own', async () => {
  const { clock, pass } = openClock()
  const start = openSearchStart(clock)
  const row = (teamId: number, seq: number) => ({ teamId, seq: String(seq) }) as InboxRow
  const search = (rows: readonly InboxRow[]) => {
    let starts: readonly number[] = []
    return start
      .search((startOf) => {
        starts = [1, 2, 3].map((teamId) => Number(startOf(teamId)))
        if (starts.every((after) => after === 0)) pass(10_000)
        return Promise.resolve(rows)
      })
      .then(() => starts)
  }
  expect(await search([row(1, 50), row(2, 900)])).toEqual([0, 0, 0])
  pass(2_000)
  await search([])
  pass(2_000)
  expect(await search([])).toEqual([50, 900, 0])
})

test('a search leaves out what was taken two seconds ago, not sooner, also in a process that has run for days', async () => {
  let now = 500_000 * 1_000_000
  const start = openSearchStart({ now: () => now, sleep: () => Promise.resolve() })
  /** Searches so many seconds later, in no time unless it is the first; returns where it began. */
  const search = (seconds: number, seq?: string) => {
    now += seconds * 1_000_000
    let began = ''
    return start
      .search(async (startOf) => {
        began = startOf(1)
        if (seq !== undefined) now += 1_000_000
        return seq === undefined ? [] : [{ teamId: 1, seq }]
      })
      .then(() => began)
  }
  expect(await search(0, '5')).toBe('0')
  expect([await search(2), await search(0.1), await search(1.8)]).toEqual(['0', '0', '0'])
  expect(await search(0.1)).toBe('5')
})
