/** An entry with known bytes is not parsed again; whatever wrote to its record, a night ends as a fresh load would. */
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { openServiceClock } from '../../../src/api/service-clock.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { RawEntry } from '../../../src/core/raw-entries.ts'
import type { Instant } from '../../../src/core/time.ts'
import { readList } from '../../../src/extract/reading/read-list.ts'
import { READING } from '../../../src/extract/scan/known-entries.ts'
import { openKnownPages } from '../../../src/extract/scan/known-pages.ts'
import type { SliceOptions } from '../../../src/extract/slice-note.ts'
import type { Source } from '../../../src/extract/source.ts'
import { hashesOf, noteErased } from '../../../src/load/erasures.ts'
import { patients } from '../../../src/streams/patients.ts'
import { clientOf } from '../../api/support/service.ts'
import { loadEnvelopes, takeWhole } from '../../load/loading.ts'
import { recordEnvelope, tombstoneEnvelope } from '../../support/envelopes.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeAll(async () => {
  rig = await openRig()
})
afterAll(() => rig[Symbol.asyncDispose]())

/** Counts parsed entries. */
const parsed = vi.spyOn(RawEntry.prototype, 'parse')
let run = 0

beforeEach(() => empty())
afterEach(() => {
  rig.service.interfere = () => false
  rig.service.clockApartMs = 0
  rig.service.pageSize = 10
})

async function empty() {
  await rig.rows(`truncate intake_raw.records, intake_raw.known_pages, intake.patients, intake.patient_tags,
    intake_raw.record_history, intake_ops.dead_letters, intake_ops.erasures cascade`)
  rig.service.records.patients = []
}

const clock = {
  now: systemClock.now,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 2), signal),
}
const NIGHTLY = { lookbackDays: 2, sweepDays: 7, full: false, since: null }
const OPTIONS: SliceOptions = { allowMassDelete: true, dry: false, migrated: true, window: NIGHTLY }

const rigClock = openServiceClock()

/** What a night counts, and how many entries it parsed. */
async function night(over: Partial<SliceOptions> = {}, serviceClock = rigClock, more: Partial<Source> = {}) {
  run += 1
  parsed.mockClear()
  const source = await rig.source('patients', { clock, serviceClock, runId: String(run), ...more })
  const { text } = await readList(source, rig.session, { ...OPTIONS, ...over })
  const { changed, unchanged, deleted, erased, deadLetters } = source.tally
  return { text, changed, unchanged, deleted, erased, deadLetters, parsed: parsed.mock.calls.length }
}
const quiet = { text: null, changed: 0, deleted: 0, erased: 0, deadLetters: 0, parsed: 0 }

const person = (id: string, first_name = 'A', more: object = {}) => ({
  ...{ id, first_name, patient_tags: [{ name: first_name, color: '#000000' }] },
  ...more,
})
const people = (count: number) =>
  Array.from({ length: count }, (_, at) => person(`p${String(at).padStart(2, '0')}`))
const replace = (id: string, by: ReturnType<typeof person>) => {
  rig.service.records.patients = rig.service.records.patients.map((each) => (each.id === id ? by : each))
}
const pagesKnown = async () =>
  await rig.rows<{ page: number; ids: string; is_next: boolean }>(
    'select page, ids, is_next from intake_raw.known_pages order by is_next, page',
  )

test('an unchanged list is not parsed, and writes nothing of what is known about it', async () => {
  rig.service.records.patients = people(25)
  expect(await night()).toMatchObject({ changed: 25, parsed: 25 })
  const versions = () =>
    rig.rows('select page, xmin::text, ctid::text from intake_raw.known_pages order by page')
  const before = await versions()
  expect(before.length).toBe(3)
  expect(await night()).toEqual({ ...quiet, unchanged: 25 })
  expect(await versions()).toEqual(before)
})

test('of a changed list, only changed and new entries are parsed, wherever the others have moved', async () => {
  rig.service.records.patients = people(40)
  await night()
  replace('p17', person('p17', 'B'))
  expect(await night()).toEqual({ ...quiet, changed: 1, unchanged: 39, parsed: 1 })
  const [first, ...others] = rig.service.records.patients
  const added = Array.from({ length: 13 }, (_, at) => person(`n${at}`))
  rig.service.records.patients = [...added, first!, ...others]
  expect(await night()).toEqual({ ...quiet, changed: 13, unchanged: 40, parsed: 13 })
  expect(await night()).toEqual({ ...quiet, unchanged: 53 })
  rig.service.records.patients = others
  rig.service.unlisted.clear()
  expect(await night()).toMatchObject({ deleted: 14, unchanged: 39 })
  expect((await pagesKnown()).map(({ page, is_next }) => [page, is_next])).toEqual(
    [1, 2, 3, 4].map((n) => [n, false]),
  )
  expect(await night()).toEqual({ ...quiet, unchanged: 39 })
})

test('what is known of four pages is read by one query, each page once', async () => {
  rig.service.records.patients = people(120).map((each, at) => ({ ...each, id: `q${at}` }))
  await night()
  run += 1
  const source = await rig.source('patients', { clock, runId: String(run) })
  let works = 0
  const loaders = {
    ...source.loaders,
    run: <Result>(work: Parameters<typeof source.loaders.run<Result>>[0]) => {
      works += 1
      return source.loaders.run(work)
    },
  }
  await readList({ ...source, loaders }, rig.session, OPTIONS)
  expect(source.tally).toMatchObject({ unchanged: 120, changed: 0 })
  // Each of the twelve pages is compared with the stored records.
  expect(works).toBe(12 + 3)
})

test('a page with few unknown entries is stored again only when there are more of them', async () => {
  rig.service.pageSize = 64
  rig.service.records.patients = people(64)
  await night()
  const [before] = await rig.rows('select xmin::text, ctid::text from intake_raw.known_pages')
  for (const at of [0, 1]) {
    replace(`p0${at}`, person(`p0${at}`, 'B'))
    expect(await night()).toEqual({ ...quiet, changed: 1, unchanged: 63, parsed: at + 1 })
    expect(await rig.rows('select xmin::text, ctid::text from intake_raw.known_pages')).toEqual([before])
  }
  replace('p02', person('p02', 'B'))
  expect(await night()).toEqual({ ...quiet, changed: 1, unchanged: 63, parsed: 3 })
  expect(await night()).toEqual({ ...quiet, unchanged: 64 })
})

test('an entry that moved to the page before is not stored there again each night', async () => {
  rig.service.records.patients = people(25)
  await night()
  rig.service.records.patients = people(25).filter(({ id }) => id !== 'p03')
  await night()
  const versions = () =>
    rig.rows('select page, xmin::text, ctid::text from intake_raw.known_pages order by page')
  const before = await versions()
  expect(await night()).toEqual({ ...quiet, unchanged: 24 })
  expect(await versions()).toEqual(before)
})

test('a full run, and one of another program, parse everything; a run without writes knows nothing', async () => {
  rig.service.records.patients = people(3)
  await night({ dry: true })
  expect(await pagesKnown()).toEqual([])
  await empty()
  rig.service.records.patients = people(3)
  await night()
  expect(await night({ window: { ...NIGHTLY, full: true } })).toEqual({ ...quiet, unchanged: 3, parsed: 3 })
  await rig.rows(`update intake_raw.known_pages set reader = 'another'`)
  expect(await night()).toEqual({ ...quiet, unchanged: 3, parsed: 3 })
  expect(await night()).toEqual({ ...quiet, unchanged: 3 })
})

test('what a killed scan noted is used', async () => {
  rig.service.records.patients = people(12)
  await night()
  replace('p00', person('p00', 'B'))
  // It read the first page, stored what it noted and ended there.
  await night()
  await rig.rows(`update intake_raw.known_pages set is_next = true where page = 1`)
  await rig.rows(`insert into intake_raw.known_pages
    select team_id, stream, false, 1, reader, updated_to, 'x', '\\x00', '\\x00' from intake_raw.known_pages where page = 2`)
  expect(await night()).toEqual({ ...quiet, unchanged: 12 })
  expect((await pagesKnown()).map(({ page, is_next }) => [page, is_next])).toEqual(
    [1, 2].map((n) => [n, false]),
  )
})

test('a scan that ends early forgets nothing of the pages after its end', async () => {
  rig.service.records.patients = people(45)
  await night()
  const before = await pagesKnown()
  rig.service.interfere = ({ url }, response) => {
    if (!url.includes('page=2')) return false
    response.writeHead(404).end()
    return true
  }
  expect(await night()).toMatchObject({ text: expect.stringContaining('pages end after 10'), parsed: 0 })
  expect(await pagesKnown()).toEqual(before)
})

test('a worker that has lost its slice changes nothing of what is known, and cannot make the scan of another fail', async () => {
  const options = { reader: 'r', recall: true }
  const page = (at: number) => ({ page: at, ids: ['p'], bytes: 'ab', hashes: 'cd', updatedTo: null })
  const lost = await openKnownPages(await rig.source('patients', { runId: '1' }), rig.session, options)
  await lost.store([page(1)])
  const taken = await rig.source('patients', { runId: '2' })
  const known = await openKnownPages(taken, rig.session, options)
  await known.store([page(2)])
  for (const late of [() => lost.store([page(1)]), () => lost.settle(1)])
    await expect(late()).rejects.toMatchObject({ code: 'slice_lost' })
  await known.settle(null)
  expect(await pagesKnown()).toEqual([
    { page: 1, ids: 'p', is_next: false },
    { page: 2, ids: 'p', is_next: false },
  ])
})

test('an entry whose reading depends on more than its bytes is parsed each night', async () => {
  const inMinutes = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString()
  rig.service.records.patients = [
    person('ahead', 'A', { updated_at: inMinutes(60) }),
    person('nul', 'A', { city: 'a\u0000b' }),
    { first_name: 'no id' } as unknown as ReturnType<typeof person>,
    person('good', 'A', { updated_at: inMinutes(-60) }),
  ]
  await night()
  expect((await pagesKnown()).map(({ ids }) => ids)).toEqual(['good'])
  expect(await night()).toMatchObject({ unchanged: 3, deadLetters: 1, parsed: 3 })
  // The service's clock is set back: the stamp of the last one is now too far ahead, which is a problem of its own.
  rig.service.clockApartMs = -2 * 3_600_000
  await rig.rows('update intake_raw.records set observed_at = $1, version = $1', [ago(9_000)])
  expect(await night({}, openServiceClock())).toMatchObject({ changed: 1, parsed: 4 })
  expect(
    await rig.rows(`select _problems -> 0 ->> 'path' as path from intake.patients where id = 'good'`),
  ).toEqual([{ path: 'updated_at' }])
})

test('of a page whose stamps are in any order, each is read anew once it may be too far ahead', async () => {
  const inMinutes = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString()
  for (const order of [
    [-60, -300],
    [-300, -60],
  ]) {
    await empty()
    rig.service.clockApartMs = 0
    rig.service.records.patients = order.map((minutes) =>
      person(`p${minutes}`, 'A', { updated_at: inMinutes(minutes) }),
    )
    await night({}, openServiceClock())
    rig.service.clockApartMs = -2 * 3_600_000
    await rig.rows('update intake_raw.records set observed_at = $1, version = $1', [ago(20_000)])
    expect(await night({}, openServiceClock())).toMatchObject({ changed: 1, unchanged: 1, parsed: 2 })
  }
})

test('an entry whose id has a line end is parsed each night, and the others of its page are not', async () => {
  rig.service.records.patients = [person('a'), person('b\nc'), person('d')]
  await night()
  expect((await pagesKnown()).map(({ ids }) => ids)).toEqual(['a\nd'])
  expect(await night()).toEqual({ ...quiet, unchanged: 3, parsed: 1 })
})

test('where another version of the API is requested, everything is parsed: the same entry may be a part of its record then', async () => {
  rig.service.records.patients = people(2)
  await night()
  await using other = clientOf(rig.service.url, { apiVersion: '' })
  expect(await night({}, rigClock, { client: other.client })).toEqual({ ...quiet, unchanged: 2, parsed: 2 })
})

test('of a record that is found to be of an erased patient only while it is read no id is kept', async () => {
  rig.service.pageSize = 1
  const message = (id: string, patient: string) => ({ id, patient, content: 'x', message_type: 'm' })
  // So many pages are noted before their records are loaded.
  rig.service.records.messages = Array.from({ length: 24 }, (_, at) => message(`m${at}`, `p${at}`))
  const erasures = await hashesOf(rig.session.db, rig.teamId)
  await noteErased(rig.session.db, erasures, 'p3', [{ stream: 'patients', id: 'p3' }])
  const source = await rig.source('messages', { clock, serviceClock: rigClock, runId: '1000' })
  await readList(source, rig.session, OPTIONS)
  expect(source.tally).toMatchObject({ erased: 1, changed: 23 })
  const ids = (await pagesKnown()).map((page) => page.ids)
  expect(ids).toContain('m4')
  expect(ids).not.toContain('m3')
  rig.service.records.messages = []
})

test('of an erased patient no id and no hash is kept, though the list still contains it', async () => {
  rig.service.records.patients = people(12)
  await night()
  const erasures = await hashesOf(rig.session.db, rig.teamId)
  // On two pages, whose entries are noted together.
  const gone = ['p05', 'p11']
  for (const id of gone) {
    await noteErased(rig.session.db, erasures, id, [{ stream: 'patients', id }])
    await rig.rows('delete from intake_raw.records where id = $1', [id])
    await rig.rows('delete from intake.patients where id = $1', [id])
  }
  await rig.rows('delete from intake_raw.known_pages')
  expect(await night()).toMatchObject({ erased: 2, unchanged: 10, changed: 0 })
  const ids = async () => (await pagesKnown()).flatMap((page) => page.ids.split('\n'))
  const others = people(12).flatMap(({ id }) => (gone.includes(id) ? [] : id))
  expect(await ids()).toEqual(others)
  expect(await night()).toMatchObject({ erased: 2, unchanged: 10, changed: 0, parsed: 2 })
  expect(await ids()).toEqual(others)
})

test('of an erased patient no id is kept either if a scan was killed after it had noted the record, before it found the erasure', async () => {
  rig.service.records.patients = people(12)
  await night()
  await rig.rows(`delete from intake_raw.records where id = 'p05'`)
  await rig.rows(`delete from intake.patients where id = 'p05'`)
  await rig.rows('update intake_raw.known_pages set is_next = true')
  const erasures = await hashesOf(rig.session.db, rig.teamId)
  await noteErased(rig.session.db, erasures, 'p05', [{ stream: 'patients', id: 'p05' }])
  // Stored are others with its id.
  await rig.hold('patients', [person('p05')], ago(60), rig.otherId)
  await rig.hold('forms', [{ id: 'p05', questions: [] }], ago(60))
  expect(await night()).toMatchObject({ erased: 1, unchanged: 11, changed: 0 })
  expect((await pagesKnown()).flatMap((page) => page.ids.split('\n'))).not.toContain('p05')
})

test('what is known of another team or stream stays as it is', async () => {
  rig.service.records.patients = people(25)
  await night()
  await rig.rows(
    `insert into intake_raw.known_pages (team_id, stream, is_next, page, reader, updated_to, ids, bytes, hashes)
     select place.team_id, place.stream, place.is_next, page, reader, updated_to, 'x', bytes, hashes
     from intake_raw.known_pages cross join
       (values ($1::smallint, 'patients', true), ($1, 'patients', false), ($2, 'forms', true), ($2, 'forms', false))
         as place (team_id, stream, is_next)`,
    [rig.otherId, rig.teamId],
  )
  const erasures = await hashesOf(rig.session.db, rig.teamId)
  await noteErased(rig.session.db, erasures, 'z', [{ stream: 'patients', id: 'z' }])
  const others = () =>
    rig.rows(
      `select team_id, stream, is_next, page from intake_raw.known_pages where (team_id, stream) <> ($1, 'patients')
       order by 1, 2, 3, 4`,
      [rig.teamId],
    )
  const before = await others()
  expect(before).toHaveLength(12)
  rig.service.records.patients = people(12)
  expect(await night()).toMatchObject({ unchanged: 12 })
  expect(await others()).toEqual(before)
})

test('a list of more pages than a call can have arguments is read', async () => {
  rig.service.records.patients = people(12)
  await night()
  await rig.rows(`
    insert into intake_raw.known_pages (team_id, stream, is_next, page, reader, updated_to, ids, bytes, hashes)
    select team_id, stream, is_next, number, reader, updated_to, 'x', bytes, hashes
    from intake_raw.known_pages, generate_series(1000, 200000) as number where page = 1`)
  expect(await night()).toEqual({ ...quiet, unchanged: 12 })
})

test('an entry that is not JSON has its page requested again', async () => {
  rig.service.records.patients = people(2)
  let times = 0
  rig.service.interfere = (_, response) => {
    times += 1
    if (times > 1) return false
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end('{"count":2,"next":null,"results":[{"id":"p00"},{"id":"p01",}]}')
    return true
  }
  expect(await night()).toMatchObject({ changed: 2, text: null })
  expect(times).toBe(2)
})

test('while entries are read as they were, what is known stays valid', () => {
  const texts = [
    ...['{"id":"a","b":1.50,"a":"é\\u00e9"}', '{"uid":7,"updated_at":"2026-01-01T00:00:00Z"}'],
    '{"id":"a","answers":[{"image":"data:image/png;base64,AAAA","url":"https://x.example/f?Signature=1"}]}',
    '{"id":"a","secret":"s","target_url":"https://user:pass@x.example/?token=1","created_at":"2026-01-01"}',
  ]
  const streams = ['patients', 'documents', 'responses', 'webhook_configs'] as const
  const readings = streams.flatMap((name) =>
    texts.map((text) => {
      const made = { teamId: 1, stream: name, observedAt: '2026-02-01T00:00:00.000000Z' as Instant }
      const { id, content, updatedAt } = recordEnvelope(new RawEntry(Buffer.from(text)).parse(), made)
      return [name, id, updatedAt, content!.hash, content!.problems.length]
    }),
  )
  const digest = createHash('sha256').update(JSON.stringify(readings)).digest('hex').slice(0, 8)
  // Another digest: the same bytes are read otherwise. Raise READING, so that every entry is parsed once.
  expect([READING, digest]).toEqual([1, '689849d4'])
})

/** What somebody else does to a record between two nights, or the service to its list. */
const WRITERS = {
  async 'another state'(id: string) {
    await rig.hold('patients', [person(id, 'other')], ago(5))
    expect(await rig.rows('select first_name from intake.patients where id = $1', [id])).toEqual([
      { first_name: 'other' },
    ])
  },
  'another state, and back': async (id: string) => {
    await rig.hold('patients', [person(id, 'other')], ago(6))
    await rig.hold('patients', [person(id)], ago(5))
  },
  'an older state': (id: string) => rig.hold('patients', [person(id, 'older')], ago(1_000_000)),
  async tombstone(id: string) {
    const made = { teamId: rig.teamId, stream: 'patients', observedAt: ago(5), origin: 'event:x' } as const
    const taken = await takeWhole(rig.session, patients, rig.teamId)
    await loadEnvelopes(rig.session, patients, [tombstoneEnvelope(id, made)], { mode: 'merge', taken })
  },
  async removal(id: string) {
    for (const [table, column] of [
      ['intake_raw.records', 'id'],
      ['intake.patients', 'id'],
      ['intake.patient_tags', 'patient_id'],
    ])
      await rig.rows(`delete from ${table} where ${column} = $1`, [id])
  },
  'a hash by hand': (id: string) =>
    rig.rows(`update intake_raw.records set hash = '\\x00' where id = $1`, [id]),
  'a new state': async (id: string) => replace(id, person(id, `new ${run}`)),
  'a new place': async (id: string) => {
    const [found] = rig.service.records.patients.filter((each) => each.id === id)
    const others = rig.service.records.patients.filter((each) => each.id !== id)
    rig.service.records.patients = found === undefined ? others : [found, ...others]
  },
  'no place': async (id: string) => {
    rig.service.records.patients = rig.service.records.patients.filter((each) => each.id !== id)
  },
  'a place': async (id: string) => {
    const others = rig.service.records.patients.filter((each) => each.id !== id)
    rig.service.records.patients = [...others.slice(0, 3), person(id), ...others.slice(3)]
  },
  'rows of other pages': () =>
    rig.rows('update intake_raw.known_pages set is_next = page % 2 = 0, page = page + 1 where page > 1'),
} satisfies Record<string, (id: string) => Promise<unknown>>

test('whatever wrote to records between two nights, the tables end as a fresh load leaves them', async () => {
  const live = () =>
    rig.rows(
      `select row.id, first_name, encode(_hash, 'hex') as hash, encode(raw.hash, 'hex') as raw,
         (select string_agg(name, ',') from intake.patient_tags where team_id = $1 and patient_id = row.id) as tags
       from intake.patients row join intake_raw.records raw using (team_id, id)
       where team_id = $1 and stream = 'patients' and _deleted_at is null and not raw.deleted order by row.id`,
      [rig.teamId],
    )
  const expected = () =>
    rig.service.records.patients
      .map((each) => {
        const made = { teamId: rig.teamId, stream: 'patients', observedAt: ago(0) } as const
        const { hash } = recordEnvelope(each, made).content!
        return { id: each.id, first_name: each.first_name, hash, raw: hash, tags: each.first_name }
      })
      .sort((a, b) => (a.id < b.id ? -1 : 1))
  const writing = fc.tuple(
    fc.constantFrom(...(Object.keys(WRITERS) as (keyof typeof WRITERS)[])),
    fc.integer({ min: 0, max: 24 }),
  )
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(writing, { maxLength: 5 }), { minLength: 3, maxLength: 4 }),
      async (nights) => {
        await empty()
        rig.service.records.patients = people(24)
        await night()
        for (const writings of nights) {
          // What others write now is newer than what the night read.
          await rig.rows(`update intake_raw.records
          set version = version - interval '1 hour', observed_at = observed_at - interval '1 hour'`)
          for (const [writer, at] of writings) await WRITERS[writer](`p${String(at).padStart(2, '0')}`)
          await night()
          expect(await live()).toEqual(expected())
        }
      },
    ),
    { seed: 23, numRuns: 12, endOnFailure: true },
  )
})
