/**
 * Answers that were long on their way: a state is as old as its request, whatever reads it.
 *
 * Invariant: each request takes an hour of our clock, while that of the service stands still. So the request was sent an
 * hour before the time that the service then shows.
 */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openServiceClock } from '../../../src/api/service-clock.ts'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { type Instant, microsOf } from '../../../src/core/time.ts'
import { fetchForRun } from '../../../src/extract/conflicts/fetch-by-id.ts'
import { download } from '../../../src/extract/reading/read-export-file.ts'
import { relist } from '../../../src/extract/reading/read-exports.ts'
import { scanStream } from '../../../src/extract/scan/scan.ts'
import { spool } from '../../../src/load/exports/spool.ts'
import { clientOf, type Heard } from '../../api/support/service.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

const HOUR = 3_600_000_000

let rig: Rig
let heard: Heard
let passed = 0
const clock: Clock = { ...systemClock, now: () => systemClock.now() + passed }

beforeAll(async () => {
  rig = await openRig()
  heard = clientOf(rig.service.url, { clock })
  rig.service.records.patients = [{ id: 'p', first_name: 'A' }]
  rig.service.records.exports = [{ id: 'e', name: 'E' }]
})
afterAll(async () => {
  await heard[Symbol.asyncDispose]()
  await rig[Symbol.asyncDispose]()
})
beforeEach(() => {
  passed = 0
  rig.service.interfere = ({ method }, response) => {
    passed += HOUR
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/csv' }).end('Client ID\n1\n')
    return method === 'POST'
  }
})

async function sourceOf(name: 'patients' | 'exports') {
  return await rig.source(name, { client: heard.client, clock, serviceClock: openServiceClock() })
}

const READS: Readonly<Record<string, () => Promise<Instant | null>>> = {
  async 'a page'() {
    await scanStream(await sourceOf('patients'), rig.session, 'merge')
    const at = `to_char(observed_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
    return (await rig.rows<{ at: Instant }>(`select ${at} as at from intake_raw.records`))[0]!.at
  },
  async 'the beginning of a scan'() {
    return (await scanStream(await sourceOf('patients'), rig.session, 'merge')).startedAt
  },
  async 'a list that is read once more'() {
    return (await relist(await sourceOf('exports'), ['e'], 'refetch'))[0]!.observedAt
  },
  async 'a record fetched by id'() {
    const [found] = await fetchForRun(await sourceOf('patients'), ['p'], 'refetch')
    return found!.kind === 'record' ? found!.envelope.observedAt : null
  },
  async 'a record that is gone'() {
    const [found] = await fetchForRun(await sourceOf('patients'), ['none'], 'refetch')
    return found!.kind === 'gone' ? found!.observedAt : null
  },
  async 'a file'() {
    const take = (pieces: AsyncIterable<Buffer>) => spool(null, pieces)
    return (await download(await sourceOf('exports'), 'e', null, take)).observedAt
  },
}

test.each(Object.keys(READS))('the time of %s is that of its request', async (what) => {
  const before = microsOf(ago(3_600))
  const at = await READS[what]!()
  const after = microsOf(ago(3_600))
  expect(passed).toBe(HOUR)
  // A lower bound: `Date` has whole seconds, and was read when the answer came.
  expect(microsOf(at!)).toBeGreaterThanOrEqual(before - 1_000_000 - (after - before))
  expect(microsOf(at!)).toBeLessThanOrEqual(after)
})

test('a date of a record may be as late as the arrival of its page, and five minutes more', async () => {
  const dates = [-1_800, -240, -360].map((seconds) => ago(seconds))
  rig.service.records.patients = dates.map((date, at) => ({ id: `p${at}`, date }))
  const { newest } = await scanStream(await sourceOf('patients'), rig.session, 'merge', { dated: 'date' })
  expect(newest).toBe(dates[1])
})
