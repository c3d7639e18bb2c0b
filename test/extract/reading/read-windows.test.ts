/** Windows from the checkpoint on: when the filter is trusted, when everything is read instead, and what moves on. */
import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type Instant, instantOf, microsOf } from '../../../src/core/time.ts'
import { readWindows } from '../../../src/extract/reading/read-windows.ts'
import type { WindowOptions } from '../../../src/extract/reading/window.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { hashesOf, noteErased } from '../../../src/load/erasures.ts'
import { cursorOf, settleSlice } from '../../../src/load/slice.ts'
import { json } from '../../api/support/service.ts'
import { ago, openRig, type Rig, refuseCursors } from '../support/reading.ts'

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
  filtered()
})
afterEach(() => rig[Symbol.asyncDispose]())

const FILTER = { parameter: 'submitted_after', field: 'submitted_at' }
const USUAL: WindowOptions = { lookbackDays: 2, sweepDays: 7, full: false, since: null }
const DAY = 86_400
const daysBefore = (at: Instant, days: number) =>
  instantOf(microsOf(at) - days * DAY * 1_000_000).slice(0, 10)
/** A response that was submitted so many days ago. */
const response = (id: string, days: number, more: object = {}) => ({
  ...{ id, answers: [], is_submitted: true, submitted_at: ago(days * DAY) },
  ...more,
})

/** The service applies the filter; `lie` changes what it lists for it. */
function filtered(lie: (listed: object[]) => object[] = (listed) => listed): void {
  rig.service.interfere = ({ url }, reply) => {
    const after = new URL(url, rig.service.url).searchParams.get('submitted_after')
    if (after === null) return false
    const listed = rig.service.records.responses.filter(({ submitted_at }) => String(submitted_at) >= after)
    const results = lie(listed)
    json(reply, { count: results.length, next: null, previous: null, results })
    return true
  }
}

async function settled(cursor: { readonly newest: Instant | null; readonly swept_at: Instant | null }) {
  const { taken } = await rig.source('responses', { runId: '0' })
  await settleSlice(rig.session.db, taken, cursor)
}
const checkpoint = async () =>
  (await cursorOf(rig.session.db, { teamId: rig.teamId, stream: 'responses', slice: '' })) as object

async function read(window: Partial<WindowOptions> = {}, dry = false) {
  ;(rig.service.received as unknown[]).length = 0
  const said: object[] = []
  const logger = pino({ base: null }, { write: (line: string) => void said.push(JSON.parse(line)) })
  const source = await rig.source('responses', { logger })
  const options = { allowMassDelete: false, dry, migrated: true, window: { ...USUAL, ...window } }
  const note = await readWindows(source, rig.session, options, FILTER)
  const queries = rig.service.received
    .map(({ url }) => new URL(url, rig.service.url))
    .filter(({ pathname }) => pathname === '/v2/responses')
    .map(({ searchParams }) => searchParams.get('submitted_after'))
  return { note, queries, said, tally: source.tally }
}
const stored = async () =>
  (
    await rig.rows<{ id: string }>('select id from intake.responses where _deleted_at is null order by id')
  ).map(({ id }) => id)

const NOTHING = { text: null, attention: false }
const SWEPT = ago(DAY)
const NEWEST = ago(3 * DAY)

test('without a checkpoint everything is read, and the newest date and the time of reading are kept', async () => {
  rig.service.records.responses = [
    response('a', 30),
    response('b', 3),
    response('open', 0, { submitted_at: null }),
  ]
  const before = ago(2)
  const { note, queries } = await read()
  expect([note, queries]).toEqual([NOTHING, [null]])
  expect(await stored()).toEqual(['a', 'b', 'open'])
  const { newest, swept_at } = (await checkpoint()) as { newest: string; swept_at: string }
  expect(newest).toBe(rig.service.records.responses[1]!.submitted_at)
  expect(swept_at >= before && swept_at <= ago(0)).toBe(true)
})

test('the lookback before the checkpoint and two more days are read, and the newest date advances', async () => {
  const known = response('known', 3)
  rig.service.records.responses = [response('old', 8), known, response('new', 1)]
  await settled({ newest: known.submitted_at, swept_at: SWEPT })
  expect(await read()).toMatchObject({
    note: NOTHING,
    queries: [daysBefore(known.submitted_at, 4)],
    tally: { fetched: 2, changed: 2 },
  })
  expect(await stored()).toEqual(['known', 'new'])
  expect(await checkpoint()).toMatchObject({
    newest: rig.service.records.responses[2]!.submitted_at,
    swept_at: SWEPT,
    steady: true,
  })
  // The second time the new one is known, and nothing changes.
  expect(await read()).toMatchObject({
    note: NOTHING,
    queries: [daysBefore(rig.service.records.responses[2]!.submitted_at as Instant, 4)],
    tally: { changed: 0, unchanged: 2 },
  })
})

describe('everything is read instead', () => {
  test.each<[string, (listed: object[]) => object[], string, number]>([
    ['nothing is listed', () => [], 'the service lists nothing for the date filter', 1],
    [
      'the newest record known is not listed',
      (listed) => listed.filter((each) => (each as { id: string }).id !== 'known'),
      'the newest record known is not among what the service lists for the date filter',
      2,
    ],
    [
      'a record before the window is listed',
      (listed) => [...listed, response('old', 30)],
      'the service does not keep to the date filter',
      3,
    ],
    [
      'a record without a date is listed',
      (listed) => [response('undated', 0, { submitted_at: null }), ...listed],
      'the service does not keep to the date filter',
      3,
    ],
  ])('where %s; each record is counted once', async (_, lie, why, unchanged) => {
    const known = response('known', 3)
    const same = response('same', 4)
    rig.service.records.responses = [
      response('old', 30),
      response('new', 4),
      same,
      response('erased', 4),
      known,
    ]
    await rig.hold('responses', [same], ago(60))
    const erasures = await hashesOf(rig.session.db, rig.teamId)
    await noteErased(rig.session.db, erasures, 'p', [{ stream: 'responses', id: 'erased' }])
    await settled({ newest: known.submitted_at, swept_at: SWEPT })
    filtered(lie)
    const { note, queries, said, tally } = await read()
    expect(note).toEqual({ text: `${why}; everything was read`, attention: false })
    const place = { team: 'north', stream: 'responses' }
    expect(said).toMatchObject([{ ...place, msg: `${why}; reading everything` }])
    expect(queries).toEqual([daysBefore(known.submitted_at, 4), null])
    // What the window loaded is unchanged by then.
    expect(tally).toMatchObject({ fetched: 5, erased: 1, unchanged })
    expect(await stored()).toEqual(['known', 'new', 'old', 'same'])
    expect((await checkpoint()) as { swept_at: string }).not.toMatchObject({ swept_at: SWEPT })
  })

  test('a week after the last time', async () => {
    rig.service.records.responses = [response('a', 3, { submitted_at: NEWEST })]
    await settled({ newest: NEWEST, swept_at: ago(7 * DAY - 60) })
    expect((await read()).queries).toEqual([daysBefore(NEWEST, 4)])
    await settled({ newest: NEWEST, swept_at: ago(7 * DAY) })
    expect((await read()).queries).toEqual([null])
  })
})

test('a dead letter of a window that is not trusted is counted once', async () => {
  const known = response('known', 3)
  const nameless = response(null as unknown as string, 2)
  rig.service.records.responses = [nameless, known]
  await settled({ newest: known.submitted_at, swept_at: SWEPT })
  filtered((listed) => listed.filter((each) => (each as { id?: string }).id !== 'known'))
  const { queries, tally } = await read()
  expect(queries).toEqual([daysBefore(known.submitted_at, 4), null])
  expect(tally).toMatchObject({ fetched: 2, deadLetters: 1 })
})

test('a list that keeps changing does not move the newest date on', async () => {
  const known = response('known', 3)
  rig.service.records.responses = [known, response('new', 1)]
  await settled({ newest: known.submitted_at, swept_at: SWEPT })
  rig.service.interfere = (_, reply) => {
    const results = rig.service.records.responses
    json(reply, { count: 9, next: null, previous: null, results })
    return true
  }
  const { note, queries } = await read()
  expect(queries.length).toBeGreaterThan(1)
  expect(queries).not.toContain(null)
  expect(note.text).toContain('the service counts 9 but lists 2')
  expect(await checkpoint()).toMatchObject({ newest: known.submitted_at, steady: false })
  expect(await stored()).toEqual(['known', 'new'])
})

test('the newest date stays when --since is later than the checkpoint: records between were not read', async () => {
  const known = response('known', 20)
  rig.service.records.responses = [known, response('between', 10), response('new', 1)]
  await settled({ newest: known.submitted_at, swept_at: SWEPT })
  const since = ago(4 * DAY)
  expect(await read({ since })).toMatchObject({ note: NOTHING, queries: [daysBefore(since, 2)] })
  expect(await stored()).toEqual(['new'])
  expect(await checkpoint()).toMatchObject({ newest: known.submitted_at })
})

test('a list that ends early, before the newest record, does not make the filter untrusted', async () => {
  const known = response('known', 3)
  rig.service.records.responses = [response('new', 4), known]
  await settled({ newest: known.submitted_at, swept_at: SWEPT })
  rig.service.interfere = ({ url }, reply) => {
    const at = new URL(url, rig.service.url)
    const page = Number(at.searchParams.get('page') ?? 1)
    at.searchParams.set('page', String(page + 1))
    // The first page, and then empty ones without end.
    const results = page === 1 ? rig.service.records.responses.slice(0, 1) : []
    json(reply, { count: 2, next: at.href, previous: null, results })
    return true
  }
  const { note, queries } = await read()
  expect(queries).not.toContain(null)
  expect(note.text).not.toContain('everything was read')
  expect(await checkpoint()).toMatchObject({ newest: known.submitted_at, swept_at: SWEPT, steady: false })
})

test('a reading of everything whose deletes are withheld is repeated by the next run', async () => {
  const gone = Array.from({ length: 51 }, (_, at) => response(`gone-${at}`, 30))
  await rig.hold('responses', gone, ago(60))
  rig.service.records.responses = [response('known', 3)]
  const { note } = await read()
  expect(note).toMatchObject({ text: expect.stringContaining('--allow-mass-delete'), attention: true })
  expect(await checkpoint()).toMatchObject({ swept_at: null, steady: true })
  expect((await read()).queries).toEqual([null])
})

test('a dry run reads the window, and settles nothing', async () => {
  const known = response('known', 3)
  rig.service.records.responses = [known]
  await settled({ newest: known.submitted_at, swept_at: SWEPT })
  expect((await read({}, true)).queries).toEqual([daysBefore(known.submitted_at, 4)])
  expect(await checkpoint()).toEqual({ newest: known.submitted_at, swept_at: SWEPT })
})

test('a hundred of the records that an earlier run dead-lettered are fetched; those that load are resolved', async () => {
  const known = response('known', 3)
  rig.service.records.responses = [
    known,
    ...Array.from({ length: 150 }, (_, at) => response(`dead-${at}`, 60)),
  ]
  await settled({ newest: known.submitted_at, swept_at: SWEPT })
  const deadLetter = (recordId: string) => ({
    recordId,
    origin: 'run:0 page:1',
    reason: 'has no key',
    body: '{}',
  })
  const place = { teamId: rig.teamId, stream: 'responses', runId: '0' } as const
  await storeDeadLetters(
    rig.session.db,
    place,
    Array.from({ length: 101 }, (_, at) => deadLetter(`dead-${at}`)),
  )
  await storeDeadLetters(rig.session.db, { ...place, teamId: rig.otherId }, [deadLetter('dead-0')])
  const waiting = () =>
    rig.rows(
      `select team_id as team, count(*)::int from intake_ops.dead_letters where status = 'waiting' group by 1 order by 1`,
    )
  await read()
  expect(rig.service.received.filter(({ url }) => url.includes('/dead-'))).toHaveLength(100)
  expect(await stored()).toHaveLength(101)
  expect(await waiting()).toEqual([
    { team: rig.teamId, count: 1 },
    { team: rig.otherId, count: 1 },
  ])
  await read()
  expect(await stored()).toHaveLength(102)
  expect(await waiting()).toEqual([{ team: rig.otherId, count: 1 }])
})

test('a record that fails again stays a dead letter', async () => {
  const known = response('known', 3)
  rig.service.records.responses = [known, response('well', 60)]
  await settled({ newest: known.submitted_at, swept_at: SWEPT })
  const deadLetters = ['well', 'refused'].map((recordId) => ({
    recordId,
    origin: 'run:0 page:1',
    reason: 'x',
    body: '{}',
  }))
  const place = { teamId: rig.teamId, stream: 'responses', runId: '0' } as const
  await storeDeadLetters(rig.session.db, place, deadLetters)
  const listed = rig.service.interfere
  rig.service.interfere = (request, reply) => {
    if (!request.url.endsWith('/refused')) return listed(request, reply)
    json(reply, { detail: 'no' }, 422)
    return true
  }
  await read()
  const rows = await rig.rows(
    'select distinct record_id as id, status from intake_ops.dead_letters order by 1, 2',
  )
  expect(rows).toEqual(
    expect.arrayContaining([
      { id: 'well', status: 'resolved' },
      { id: 'refused', status: 'waiting' },
    ]),
  )
})

test('summaries of the window are fetched once; one that cannot be fetched is requested later, and its dead letter waits', async () => {
  const stamped = (id: string, days: number) => response(id, days, { updated_at: ago(20 * DAY) })
  const known = stamped('known', 3)
  rig.service.records.responses = [known, stamped('new', 2), stamped('failing', 1)]
  await settled({ newest: known.submitted_at, swept_at: SWEPT })
  const place = { teamId: rig.teamId, stream: 'responses', runId: '0' } as const
  const deadLetter = { recordId: 'failing', origin: 'run:0 page:1', reason: 'x', body: '{}' }
  await storeDeadLetters(rig.session.db, place, [deadLetter])
  filtered((listed) => listed.map((each) => ({ ...each, answers: undefined, is_submitted: undefined })))
  const listed = rig.service.interfere
  rig.service.interfere = (request, reply) => {
    if (!request.url.endsWith('/failing')) return listed(request, reply)
    json(reply, { detail: 'no' }, 500)
    return true
  }
  const fetched = () => [
    ...new Set(rig.service.received.map(({ url }) => /responses\/(\w+)$/.exec(url)?.[1] ?? '')),
  ]
  await read()
  expect(fetched().sort()).toEqual(['', 'failing', 'known', 'new'])
  expect(await stored()).toEqual(['known', 'new'])
  expect(await rig.rows('select id, origin from intake_ops.refetches')).toEqual([
    { id: 'failing', origin: 'run:1' },
  ])
  expect(await rig.rows('select status from intake_ops.dead_letters')).toEqual([{ status: 'waiting' }])
  rig.service.interfere = listed
  await read()
  expect(fetched().sort()).toEqual(['', 'failing'])
})

test('a record that cannot be fetched is requested before the checkpoint moves past it', async () => {
  const known = response('known', 3)
  rig.service.records.responses = [known, response('failing', 1)]
  await settled({ newest: known.submitted_at, swept_at: SWEPT })
  filtered((listed) => listed.map((each) => ({ ...each, answers: undefined, is_submitted: undefined })))
  const listed = rig.service.interfere
  rig.service.interfere = (request, reply) => {
    if (!request.url.endsWith('/failing')) return listed(request, reply)
    json(reply, { detail: 'no' }, 500)
    return true
  }
  await refuseCursors(rig)
  await expect(read()).rejects.toThrow('no')
  expect(await rig.rows('select id from intake_ops.refetches')).toEqual([{ id: 'failing' }])
  expect(await checkpoint()).toEqual({ newest: known.submitted_at, swept_at: SWEPT })
})

test('a reading of everything that is never stable leaves the checkpoint as it was', async () => {
  rig.service.records.responses = [response('a', 3, { submitted_at: NEWEST }), response('new', 1)]
  const swept_at = ago(8 * DAY)
  await settled({ newest: NEWEST, swept_at })
  rig.service.interfere = (_, reply) => {
    json(reply, { count: 9, next: null, previous: null, results: rig.service.records.responses })
    return true
  }
  expect((await read()).queries).toEqual([null, null, null])
  expect(await checkpoint()).toMatchObject({ newest: NEWEST, swept_at, steady: false })
})

describe('an invalid checkpoint is reported', () => {
  const invalid = 'the stored checkpoint is in the future'
  beforeEach(async () => {
    rig.service.records.responses = [response('a', 3)]
    await settled({ newest: instantOf(microsOf(ago(0)) + 3 * DAY * 1_000_000), swept_at: SWEPT })
  })

  test('and everything is read', async () => {
    const { note, queries } = await read()
    expect([note.text, queries]).toEqual([`${invalid}; everything was read`, [null]])
  })

  test('and with --since replaced by none, so that the next run reads everything', async () => {
    const since = ago(4 * DAY)
    expect(await read({ since })).toMatchObject({
      note: {
        text: `${invalid}; the records from --since on were read, and the next run reads everything`,
        attention: false,
      },
      queries: [daysBefore(since, 2)],
    })
    expect(await checkpoint()).toMatchObject({ newest: null, swept_at: null })
  })

  test('together with a filter that is not trusted', async () => {
    filtered(() => [])
    const why = 'the service lists nothing for the date filter'
    expect((await read({ since: ago(4 * DAY) })).note.text).toBe(`${invalid}; ${why}; everything was read`)
  })
})
