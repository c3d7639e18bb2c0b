/** A scan that ended early is continued where it was, and leaves the tables and deletes that one whole scan leaves. */
import fc from 'fast-check'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { readList } from '../../../src/extract/reading/read-list.ts'
import type { ScanRequest } from '../../../src/extract/scan/scan.ts'
import type { SliceOptions } from '../../../src/extract/slice-note.ts'
import type { Source } from '../../../src/extract/source.ts'
import { hashesOf, noteErased } from '../../../src/load/erasures.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { clientOf, json } from '../../api/support/service.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeAll(async () => {
  rig = await openRig()
})
afterAll(() => rig[Symbol.asyncDispose]())

beforeEach(empty)
afterEach(() => {
  rig.service.interfere = () => false
})

async function empty() {
  await rig.rows(`truncate intake_raw.records, intake_raw.known_pages, intake.patients, intake.patient_tags, intake_ops.scans,
    intake_raw.record_history, intake_ops.dead_letters, intake_ops.erasures, intake_raw.list_entries,
    intake.responses cascade`)
  rig.service.records.patients = []
  rig.service.records.responses = []
}

type Person = Rig['service']['records']['patients'][number]
const person = (id: string, first_name = 'A'): Person => ({ id, first_name })
const people = (count: number) =>
  Array.from({ length: count }, (_, at) => person(`p${String(at).padStart(3, '0')}`))

/** A clock that moves only by steps. */
function steppedClock() {
  let now = systemClock.now() - 900_000_000
  const step = () => {
    now += 3_000_000
  }
  return { clock: { ...systemClock, now: () => now, sleep: async () => step() }, step }
}

const NIGHTLY = { lookbackDays: 2, sweepDays: 7, full: false, since: null }
const OPTIONS: SliceOptions = { allowMassDelete: true, dry: false, migrated: true, window: NIGHTLY }
let run = 0

interface Night {
  /** Numbers of the pages that the service was asked for, in order. */
  readonly asked: number[]
  readonly fetchedById: readonly string[]
  readonly tally: Source['tally']
  readonly text: string | null
  /** The latest date of a scan that ended. */
  readonly newest: string | null
  /** As those see it who watch the run. */
  readonly pages: number
  /** After each page, the pages that remained. */
  readonly left: readonly (number | null)[]
  readonly said: readonly object[]
  readonly ended: boolean
}

/** Reads the list; ends early once so many pages were read. */
async function night({
  pages = Number.POSITIVE_INFINITY,
  stream = 'patients',
  over = {},
  options = {},
  request = {},
}: {
  pages?: number
  stream?: 'patients' | 'responses'
  over?: Partial<Source>
  options?: Partial<SliceOptions>
  request?: ScanRequest
} = {}): Promise<Night> {
  run += 1
  const controller = new AbortController()
  let count = 0
  const before = rig.service.received.length
  const { clock, step } = steppedClock()
  const said: object[] = []
  const left: (number | null)[] = []
  const source = await rig.source(stream, {
    clock,
    logger: pino({ base: null, timestamp: false }, { write: (line) => void said.push(JSON.parse(line)) }),
    runId: String(run),
    signal: controller.signal,
    // Called before a page is loaded: the one after the last is not.
    // Progress is due with every page.
    onProgress: () => {
      step()
      left.push(source.step.pagesLeft)
      count += 1
      if (count > pages) controller.abort(new Error('ended early'))
    },
    ...over,
  })
  let text: string | null = null
  let newest: string | null = null
  let ended = true
  try {
    const note = await readList(source, rig.session, { ...OPTIONS, ...options }, request, (scan) => {
      newest = scan.newest
      return {}
    })
    text = note.text
  } catch (error) {
    if (!controller.signal.aborted) throw error
    ended = false
  }
  const requests = rig.service.received.slice(before).map(({ url }) => new URL(url, rig.service.url))
  const lists = requests.filter(({ pathname }) => pathname.endsWith(stream))
  return {
    asked: lists.map(({ searchParams }) => Number(searchParams.get('page') ?? 1)),
    fetchedById: requests
      .filter((url) => !lists.includes(url))
      .map(({ pathname }) => pathname.split('/').at(-1)!),
    tally: source.tally,
    text,
    newest,
    pages: source.step.pages,
    left,
    said,
    ended,
  }
}

const keptPages = async () =>
  (await rig.rows<{ page: number }>('select page from intake_ops.scan_pages order by page')).map(
    ({ page }) => page,
  )
const stored = () => rig.rows('select id, deleted, payload from intake_raw.records order by stream, id')
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => from + at)

/** Ends a scan after some pages; they are kept. */
async function beginScan(pages: number, over: Parameters<typeof night>[0] = {}) {
  const begun = await night({ pages, ...over })
  expect(begun.ended).toBe(false)
  return begun
}

test('a scan that ended early goes on where it was, and the next one begins at the first page', async () => {
  rig.service.records.patients = people(200)
  await beginScan(8)
  const kept = await keptPages()
  expect(kept.length).toBeGreaterThanOrEqual(7)
  // Only records that were written before it began may be gone.
  const began =
    'select began_at < (select min(_loaded_at) from intake.patients) as first from intake_ops.scans'
  expect(await rig.rows(began)).toEqual([{ first: true }])
  const last = Math.max(...kept)
  const rest = await night()
  expect(rest.asked).toEqual([
    1,
    last,
    ...range(2, 20).filter((page) => page !== last && !kept.includes(page)),
  ])
  expect(rest).toMatchObject({ text: null, ended: true, fetchedById: [] })
  // Those who watch see the pages that it reads itself, and that all others are on kept pages.
  expect(rest.pages).toBe(rest.asked.length)
  const pages = kept.length - 2
  expect(rest.asked).toHaveLength(20 - pages)
  // The first page is read before it is known that the scan is continued.
  expect(rest.left).toEqual([19, ...range(0, rest.pages - 2).reverse()])
  const msg = `continuing a scan that ended early: ${pages} pages are not read again`
  expect(rest.said).toEqual([{ level: 30, team: 'north', stream: 'patients', pages, msg }])
  expect(await stored()).toHaveLength(200)
  expect(await keptPages()).toEqual([])
  expect((await night()).asked).toHaveLength(20)
})

test('one that ends early again and again reads no page twice but the first and the last', async () => {
  rig.service.records.patients = people(200)
  let asked = 0
  for (let times = 0; times < 3; times += 1) {
    asked += (await beginScan(3)).asked.length
    // It may be continued for an hour after it was last kept.
    const isFresh = `select kept_at > now() - interval '20 minutes' as fresh from intake_ops.scans`
    expect(await rig.rows(isFresh)).toEqual([{ fresh: true }])
    await rig.rows(`update intake_ops.scans set kept_at = kept_at - interval '40 minutes'`)
  }
  const last = await night()
  expect(last.ended).toBe(true)
  expect(asked + last.asked.length).toBeLessThanOrEqual(20 + 3 * (2 + rig.client.concurrency))
  expect(await stored()).toHaveLength(200)
})

test('records that are gone are deleted after a continued scan, though they were on no page that was read again', async () => {
  rig.service.records.patients = people(200)
  await rig.hold('patients', [person('gone'), ...people(5)], ago(7_200))
  await beginScan(8)
  // Scans of another team and of another stream, which have seen it.
  for (const [team, stream] of [
    [rig.otherId, 'patients'],
    [rig.teamId, 'forms'],
  ] as const) {
    await rig.rows(
      `insert into intake_ops.scans (team_id, stream, request, started_at, began_at, newest, first_page, pages)
       select $1, $2, request, started_at, began_at, newest, first_page, pages from intake_ops.scans
       where (team_id, stream) = ($3, 'patients')`,
      [team, stream, rig.teamId],
    )
    await rig.rows(
      `insert into intake_ops.scan_pages (team_id, stream, page, facts, ids)
       select $1, $2, page, facts, array['gone'] from intake_ops.scan_pages where (team_id, stream) = ($3, 'patients')`,
      [team, stream, rig.teamId],
    )
  }
  const rest = await night()
  expect(rest.fetchedById).toEqual(['gone'])
  expect(rest.tally.deleted).toBe(1)
  expect((await stored()).filter(({ deleted }) => deleted)).toMatchObject([{ id: 'gone' }])
  expect(await rig.rows('select team_id as team, stream from intake_ops.scans order by 1, 2')).toEqual([
    { team: rig.teamId, stream: 'forms' },
    { team: rig.otherId, stream: 'patients' },
  ])
})

test('the latest date of a continued scan is that of all its pages, whenever they were read', async () => {
  const dateOf = (at: number) => `2026-01-${at === 35 ? '09' : '01'}T00:00:00.000000Z`
  rig.service.records.patients = people(200).map((each, at) => ({ ...each, created_at: dateOf(at) }))
  const request = { dated: 'created_at' }
  await beginScan(8, { request })
  const rest = await night({ request })
  // The page with that date is not read again.
  expect(rest.asked).not.toContain(4)
  expect(rest.newest).toBe(dateOf(35))
})

test('a scan that ends early before it is known whether it continues another changes nothing of what that one had found', async () => {
  rig.service.records.patients = people(200)
  await beginScan(8)
  const scan = () => rig.rows('select started_at, began_at, newest, pages from intake_ops.scans')
  const found = await scan()
  await beginScan(0)
  expect(await scan()).toEqual(found)
})

test('a scan that stores its progress and an erasure that removes it lock rows in the same order', async () => {
  rig.service.records.patients = people(200)
  await beginScan(8)
  await using eraser = await openSession({ url: rig.url, purpose: 'test' })
  await eraser.client.query(`set deadlock_timeout = '10ms'; begin; select from intake_ops.scans for update`)
  const going = night()
  going.catch(() => {})
  await vi.waitFor(
    async () => {
      const waiting = await rig.rows(
        `select from pg_stat_activity where wait_event_type = 'Lock' and query like '%intake_ops.scan%'`,
      )
      expect(waiting).toHaveLength(1)
    },
    { timeout: 20_000 },
  )
  await eraser.client.query('delete from intake_ops.scans; commit')
  expect(await going).toMatchObject({ ended: true, text: null })
  expect(await stored()).toHaveLength(200)
}, 60_000)

describe('it begins again', () => {
  const cases: readonly [string, () => Promise<unknown> | unknown, Partial<SliceOptions>?][] = [
    ['where the list changed', () => rig.service.records.patients.splice(3, 1)],
    [
      'after an hour',
      () => rig.rows(`update intake_ops.scans set kept_at = kept_at - interval '61 minutes'`),
    ],
    [
      'where a page of what was kept is missing',
      () => rig.rows('delete from intake_ops.scan_pages where page = 3'),
    ],
    ['for another request', () => {}, { window: { ...NIGHTLY, full: true } }],
    [
      'where the records of what was kept are no longer stored',
      () => rig.rows('truncate intake_raw.records, intake.patients, intake.patient_tags'),
    ],
  ]
  test.each(cases)('%s', async (_, change, options = {}) => {
    rig.service.records.patients = people(200)
    await beginScan(8)
    await change()
    const again = await night({ options })
    expect([...again.asked].sort((a, b) => a - b)).toEqual(range(1, 20))
    expect(again.text).toBeNull()
    const live = (await stored()).filter(({ deleted }) => deleted === false)
    expect(live.map(({ id }) => id)).toEqual(rig.service.records.patients.map(({ id }) => id))
    expect(await keptPages()).toEqual([])
  })

  test.each(cases.slice(0, 4))(
    '%s, and is continued with its own pages where it ends early too',
    async (_, change, options = {}) => {
      rig.service.records.patients = people(200)
      await beginScan(8)
      await change()
      const again = await beginScan(3, { options })
      const kept = await keptPages()
      expect(kept.length).toBeGreaterThanOrEqual(2)
      expect(again.asked).toEqual(expect.arrayContaining(kept))
      const last = await night({ options })
      expect(last.asked.length).toBeLessThanOrEqual(20 - kept.length + 2)
      expect(last).toMatchObject({ text: null, ended: true })
      expect(await stored()).toHaveLength(200)
    },
  )

  test('for another date, and for another version of the API', async () => {
    rig.service.records.patients = people(200)
    await using other = clientOf(rig.service.url, { apiVersion: '' })
    const others = [{ request: { query: { after: '2026-01-01' } } }, { over: { client: other.client } }]
    for (const another of others) {
      await beginScan(8)
      expect((await night(another)).asked.sort((a, b) => a - b)).toEqual(range(1, 20))
    }
  })

  test('where the records moved while it was read, and the list is read once more', async () => {
    rig.service.records.patients = people(200)
    await beginScan(8)
    rig.service.records.patients = [...people(200).toSpliced(30, 1), person('new')]
    const again = await night()
    expect(again.asked.length).toBeGreaterThanOrEqual(20)
    expect(again).toMatchObject({ text: null, fetchedById: ['p030'], tally: { deleted: 1 } })
  })

  test('for a list that is read a second time because it changed', async () => {
    rig.service.records.patients = people(200)
    await beginScan(8)
    let times = 0
    rig.service.interfere = ({ url }) => {
      times += 1
      // After the scan has gone on.
      if (times === 4 && new URL(url, rig.service.url).searchParams.has('page'))
        rig.service.records.patients.push(person('q1'))
      return false
    }
    const again = await night()
    expect(again.asked.filter((page) => page === 1)).toHaveLength(2)
    expect(again.asked.filter((page) => page === 3)).toHaveLength(1)
    expect(await stored()).toHaveLength(201)
  })

  test('for a list that is read a second time because a page repeated a record of another', async () => {
    rig.service.records.patients = people(60)
    let times = 0
    rig.service.interfere = ({ url }, response) => {
      const at = new URL(url, rig.service.url)
      if (at.searchParams.get('page') !== '2') return false
      times += 1
      if (times > 1) return false
      const results = [...people(20).slice(10, 19), person('p000')]
      at.searchParams.set('page', '3')
      json(response, { count: 60, next: at.href, previous: null, results })
      return true
    }
    await rig.hold('patients', [person('p000')], ago(60))
    const again = await night()
    expect(again).toMatchObject({ text: null, fetchedById: ['p000'], tally: { fetched: 60 } })
    expect(again.asked.toSorted((a, b) => a - b)).toEqual(range(1, 6).flatMap((page) => [page, page]))
    expect(await stored()).toHaveLength(60)
  })
})

describe('a page is read again', () => {
  test('with a record that became a dead letter, which stays open', async () => {
    rig.service.records.patients = people(200).with(25, { ...person('p025'), id: { not: 'text' } } as never)
    await beginScan(8)
    expect(await keptPages()).not.toContain(3)
    expect(await keptPages()).toContain(2)
    const rest = await night()
    expect(rest.asked).toContain(3)
    expect(rest.asked).not.toContain(2)
    expect(await rig.rows('select status from intake_ops.dead_letters')).toEqual([{ status: 'waiting' }])
  })

  test('with a record that Postgres refused', async () => {
    rig.service.records.patients = people(200).with(25, { ...person('p025'), first_name: 'refused' })
    await rig.rows(`alter table intake.patients add constraint refuses check (first_name <> 'refused')`)
    try {
      await beginScan(8)
      expect(await keptPages()).not.toContain(3)
      expect((await night()).asked).toContain(3)
      expect(await rig.rows('select status, record_id from intake_ops.dead_letters')).toEqual([
        { status: 'waiting', record_id: 'p025' },
      ])
    } finally {
      await rig.rows('alter table intake.patients drop constraint refuses')
    }
  })

  test('with a record whose stored state won, which the service then decides', async () => {
    rig.service.records.patients = people(200)
    await rig.hold('patients', [person('p025', 'from a clock ahead')], ago(-3_600))
    await beginScan(8)
    expect(await keptPages()).not.toContain(3)
    const rest = await night()
    expect(rest.asked).toContain(3)
    expect(rest.fetchedById).toContain('p025')
    expect(await rig.rows(`select first_name from intake.patients where id = 'p025'`)).toEqual([
      { first_name: 'A' },
    ])
  })

  test('with every other, where ten thousand records became dead letters', async () => {
    rig.service.records.patients = people(200)
    await rig.rows(
      `insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason, last_run_id, seen)
       select $1, 'patients', 'x' || nth, 'f' || nth, 'run:1 page:1', 'r', $2, 1 from generate_series(1, 10000) as nth`,
      [rig.teamId, run + 1],
    )
    await beginScan(4)
    expect(await keptPages()).toEqual([])
    await rig.rows(`delete from intake_ops.dead_letters where record_id = 'x1'`)
    await rig.rows('update intake_ops.dead_letters set last_run_id = $1', [run + 1])
    await beginScan(4)
    expect(await keptPages()).not.toEqual([])
  })

  test('of an erased patient, whose id is not kept', async () => {
    const erasures = await hashesOf(rig.session.db, rig.teamId)
    await noteErased(rig.session.db, erasures, 'p025', [{ stream: 'patients', id: 'p025' }])
    rig.service.records.patients = people(200)
    await beginScan(8)
    expect(await keptPages()).not.toContain(3)
    expect(await rig.rows(`select from intake_ops.scan_pages where 'p025' = any(ids)`)).toEqual([])
    expect(await night()).toMatchObject({ text: null, tally: { deleted: 0, erased: 1 } })
  })
})

test('summaries whose records were fetched before it ended early are not fetched again, and one that could not be is', async () => {
  const summaries = people(60).map(({ id }) => ({ id, updated_at: '2026-01-01T00:00:00Z' }))
  rig.service.records.responses = summaries.map((each) => ({ ...each, answers: [], patient: 'p' })) as never
  let isFailing = true
  rig.service.interfere = ({ url }, response) => {
    const at = new URL(url, rig.service.url)
    if (at.pathname.endsWith('/p005') && isFailing) {
      json(response, { detail: 'no' }, 500)
      return true
    }
    if (!at.pathname.endsWith('responses')) return false
    const page = Number(at.searchParams.get('page') ?? 1)
    at.searchParams.set('page', String(page + 1))
    const results = summaries.slice((page - 1) * 10, page * 10)
    json(response, { count: 60, next: page < 6 ? at.href : null, previous: null, results })
    return true
  }
  await beginScan(4, { stream: 'responses' })
  const kept = await keptPages()
  expect(kept).not.toContain(1)
  expect(kept).toContain(2)
  isFailing = false
  const rest = await night({ stream: 'responses' })
  expect(rest.fetchedById).toContain('p005')
  // Fetched before: known by their list entries, on whichever page they are.
  const before = kept.flatMap((page) => summaries.slice((page - 1) * 10, page * 10)).map(({ id }) => id)
  expect(rest.fetchedById.filter((id) => before.includes(id))).toEqual([])
  expect(await stored()).toHaveLength(60)
  const later = await night({ stream: 'responses' })
  expect(later.fetchedById).toEqual([])
})

test('nothing is kept by a run that only compares, nor by one whose slice another has taken', async () => {
  rig.service.records.patients = people(200)
  await night({ pages: 8, options: { dry: true } })
  expect(await rig.rows('select from intake_ops.scans')).toEqual([])
  let pages = 0
  const takes = {
    onProgress: () => {
      pages += 1
      if (pages === 3) void rig.source('patients', { runId: '999' })
    },
  }
  await expect(night({ over: takes })).rejects.toMatchObject({ code: 'slice_lost' })
  expect(Math.max(0, ...(await keptPages()))).toBeLessThanOrEqual(pages)
})

test('however a list changes between scans that end early, nothing that the service has is deleted, and the next whole night equals a fresh load', async () => {
  const ids = fc.integer({ min: 0, max: 79 })
  const change = fc.oneof(
    fc.record({ kind: fc.constant('remove' as const), at: ids }),
    fc.record({ kind: fc.constant('add' as const), at: ids }),
    fc.record({ kind: fc.constant('edit' as const), at: ids }),
    fc.record({ kind: fc.constant('move' as const), at: ids }),
  )
  const part = fc.record({
    pages: fc.integer({ min: 1, max: 7 }),
    changes: fc.array(change, { maxLength: 3 }),
  })
  let continued = 0
  await fc.assert(
    fc.asyncProperty(fc.array(part, { minLength: 1, maxLength: 4 }), async (parts) => {
      await empty()
      let made = 0
      rig.service.records.patients = people(80)
      await rig.hold('patients', [...people(80).filter((_, at) => at % 3 === 0), person('gone')], ago(7_200))
      const liveIds = async () =>
        (
          await rig.rows<{ id: string }>('select id from intake_raw.records where not deleted order by id')
        ).map(({ id }) => id)
      const deletedIds = async () =>
        (await rig.rows<{ id: string }>('select id from intake_raw.records where deleted')).map(
          ({ id }) => id,
        )
      const listed = () => rig.service.records.patients.map(({ id }) => id)
      for (const { pages, changes } of parts) {
        await night({ pages })
        expect((await deletedIds()).filter((id) => listed().includes(id))).toEqual([])
        for (const { kind, at } of changes) {
          const list = rig.service.records.patients
          const index = at % list.length
          made += 1
          if (kind === 'remove') list.splice(index, 1)
          if (kind === 'add') list.splice(index, 0, person(`new${made}`))
          if (kind === 'edit') list.splice(index, 1, { ...list[index]!, first_name: `edited ${made}` })
          if (kind === 'move') list.push(...list.splice(index, 1))
        }
      }
      const before = (await keptPages()).length
      const rest = await night()
      if (before > 3 && rest.asked.length < 8) continued += 1
      expect((await deletedIds()).filter((id) => listed().includes(id))).toEqual([])
      await night()
      expect(await liveIds()).toEqual(listed().sort())
      const names = await rig.rows<{ id: string; first_name: string }>(
        'select id, first_name from intake.patients where _deleted_at is null order by id',
      )
      expect(names).toEqual(
        [...rig.service.records.patients]
          .sort((a, b) => (a.id < b.id ? -1 : 1))
          .map(({ id, first_name }) => ({ id, first_name })),
      )
    }),
    { numRuns: 10, seed: 7 },
  )
  // Some lists were as they had been, or nothing was tested.
  expect(continued).toBeGreaterThan(2)
}, 120_000)
