/** Windows with conflicts, withheld deletes, or a filter or checkpoint that is not trusted: what is counted and reported. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { type Instant, instantOf, microsOf } from '../../../src/core/time.ts'
import { readList } from '../../../src/extract/reading/read-list.ts'
import { readWindows } from '../../../src/extract/reading/read-windows.ts'
import { EVERYTHING, type WindowOptions } from '../../../src/extract/reading/window.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { compareBatch, loadBatch } from '../../../src/load/merge/load.ts'
import { cursorOf, settleSlice } from '../../../src/load/slice.ts'
import { json } from '../../api/support/service.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
})
afterEach(() => rig[Symbol.asyncDispose]())

const FILTER = { parameter: 'submitted_after', field: 'submitted_at' }
const USUAL: WindowOptions = { lookbackDays: 2, sweepDays: 7, full: false, since: null }
const DAY = 86_400
const response = (id: string, days: number, more: object = {}) => ({
  ...{ id, answers: [], is_submitted: true, submitted_at: ago(days * DAY) },
  ...more,
})
/** Answers requests with the filter with these; the count may be wrong. */
function listing(results: readonly object[], count = results.length): void {
  rig.service.interfere = ({ url }, reply) => {
    if (!url.includes('submitted_after')) return false
    json(reply, { count, next: null, previous: null, results })
    return true
  }
}
async function settled(cursor: { readonly newest: Instant | null; readonly swept_at: Instant | null }) {
  await settleSlice(rig.session.db, (await rig.source('responses', { runId: '0' })).taken, cursor)
}
const checkpoint = () =>
  cursorOf(rig.session.db, { teamId: rig.teamId, stream: 'responses', slice: '' }) as Promise<object>

const clock = {
  now: systemClock.now,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 2), signal),
}
async function read(window: Partial<WindowOptions> = {}, dry = false) {
  const source = await rig.source('responses', { clock, load: dry ? compareBatch : loadBatch })
  const options = { allowMassDelete: false, dry, migrated: true, window: { ...USUAL, ...window } }
  const note = await readWindows(source, rig.session, options, FILTER)
  return { note, tally: source.tally }
}

test('a record of the window that loses to its stored state is fetched by its id, and the answer decides', async () => {
  const known = response('known', 3)
  await rig.hold('responses', [{ ...known, is_submitted: false }], ago(-2 * 3_600))
  rig.service.records.responses = [known]
  await settled({ newest: known.submitted_at, swept_at: ago(DAY) })
  listing([known])
  expect(await read()).toMatchObject({ note: { text: null }, tally: { fetched: 1, changed: 1 } })
  const rows = await rig.rows(
    'select id, is_submitted, origin from intake.responses join intake_raw.records using (team_id, id)',
  )
  expect(rows).toEqual([{ id: 'known', is_submitted: true, origin: 'run:1 refetch' }])
})

test.each([false, true])(
  'records of a window that is not trusted are counted once (dry run: %s)',
  async (dry) => {
    const [known, added, nameless] = [response('known', 3), response('new', 4), response(null as never, 4)]
    rig.service.records.responses = [known, added, nameless]
    await settled({ newest: known.submitted_at, swept_at: ago(DAY) })
    listing([added, nameless])
    const { note, tally } = await read({}, dry)
    expect(note.text).toMatch(/^the newest record known is not among .*; everything was read$/)
    expect(tally).toEqual({
      ...{ fetched: 3, changed: 2, unchanged: dry ? 0 : 1, deleted: 0 },
      ...{ erased: 0, deadLetters: 1, problems: 0 },
    })
  },
)

test('where deletes are withheld, the next run reads everything, though it was read the day before', async () => {
  const gone = Array.from({ length: 51 }, (_, at) => response(`gone-${at}`, 30))
  await rig.hold('responses', gone, ago(60))
  const known = response('known', 3)
  rig.service.records.responses = [known]
  await settled({ newest: known.submitted_at, swept_at: ago(DAY) })
  expect((await read({ full: true })).note.attention).toBe(true)
  expect(await checkpoint()).toMatchObject({ newest: known.submitted_at, swept_at: null, steady: true })
})

test('of an invalid checkpoint and a list that keeps changing, the checkpoint is reported first', async () => {
  const known = response('known', 3)
  rig.service.records.responses = [known]
  await settled({ newest: instantOf(microsOf(ago(0)) + 3 * DAY * 1_000_000), swept_at: null })
  listing([known], 9)
  const { note } = await read({ since: ago(5 * DAY) })
  expect(note).toEqual({
    text: 'the stored checkpoint is in the future; the records from --since on were read, and the next run reads everything; the service counts 9 but lists 1 distinct records, each time the same; deletes are not looked for while its count is wrong',
    attention: true,
  })
})

test('the dead letter of a record that cannot be fetched waits, though the list was read to its end', async () => {
  const summary = (id: string) => ({ id, submitted_at: ago(DAY) })
  rig.service.interfere = ({ url }, reply) => {
    if (url.endsWith('/failing')) json(reply, {}, 500)
    else if (url.endsWith('/well')) return false
    else json(reply, { count: 2, next: null, previous: null, results: ['well', 'failing'].map(summary) })
    return true
  }
  rig.service.records.responses = [response('well', 1)]
  const place = { teamId: rig.teamId, stream: 'responses', runId: '0' } as const
  const deadLetter = (recordId: string) => ({
    recordId,
    origin: 'run:0 page:1',
    reason: 'x',
    body: `"${recordId}"`,
  })
  await storeDeadLetters(rig.session.db, place, ['well', 'failing'].map(deadLetter))
  const source = await rig.source('responses', { clock })
  await readList(source, rig.session, {
    allowMassDelete: false,
    dry: false,
    migrated: true,
    window: EVERYTHING,
  })
  const rows = await rig.rows('select record_id as id, status from intake_ops.dead_letters order by id')
  expect(rows).toEqual([
    { id: 'failing', status: 'waiting' },
    { id: 'well', status: 'resolved' },
  ])
})
