/** Due requests that a run meets: it fetches those of its own team and stream, and ends even while others arrive. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import type { StreamName } from '../../../src/core/envelope.ts'
import { fetchDue } from '../../../src/extract/conflicts/round.ts'
import { requestRefetches } from '../../../src/load/refetches.ts'
import { json } from '../../api/support/service.ts'
import { openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
})
afterEach(() => rig[Symbol.asyncDispose]())

const person = (id: string) => ({ id, first_name: 'A' })
const ids = (count: number) => Array.from({ length: count }, (_, at) => `p${String(at).padStart(3, '0')}`)

async function ask(wanted: readonly string[], stream: StreamName = 'patients', teamId = rig.teamId) {
  await requestRefetches(
    rig.session.db,
    wanted.map((id) => ({ teamId, stream, id, reason: 'partial', origin: 'event:e', since: null })),
  )
}
const clock: Clock = {
  now: systemClock.now,
  sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 20), signal),
}
const fetchAll = async () => fetchDue(await rig.source('patients', { clock }))
const fetched = () => rig.service.received.map(({ url }) => url.split('/').at(-1)!).sort()
const left = async () =>
  (await rig.rows<{ id: string }>('select id from intake_ops.refetches order by team_id, stream, id')).map(
    ({ id }) => id,
  )
const loaded = async () =>
  (await rig.rows<{ id: string }>('select id from intake.patients order by id')).map(({ id }) => id)

test.each([0, 1, 50, 51, 101])(
  'each of %i due refetches is fetched once, loaded and settled',
  async (count) => {
    rig.service.records.patients = ids(count).map(person)
    await ask(ids(count))
    await fetchAll()
    expect(fetched()).toEqual(ids(count))
    expect(await loaded()).toEqual(ids(count))
    expect(await left()).toEqual([])
  },
)

test('refetches that are not due, or of another team or stream, stay', async () => {
  rig.service.records.patients = ['now', 'soon', 'other'].map(person)
  await ask(['now', 'soon'])
  await ask(['other'], 'patients', rig.otherId)
  await ask(['form'], 'forms')
  await rig.rows(`update intake_ops.refetches set due_at = now() + interval '1 minute' where id = 'soon'`)
  await fetchAll()
  expect(fetched()).toEqual(['now'])
  expect((await left()).sort()).toEqual(['form', 'other', 'soon'])
})

test('it ends although each request leads to another', async () => {
  rig.service.records.patients = ids(400).map(person)
  await ask(ids(60))
  let next = 60
  rig.service.interfere = (request, response) => {
    const record = person(request.url.split('/').at(-1)!)
    void ask([ids(400)[next++]!]).then(() => json(response, record))
    return true
  }
  await fetchAll()
  // Those that were due when it began, at most a round more.
  expect(fetched().length).toBeGreaterThanOrEqual(60)
  expect(fetched().length).toBeLessThanOrEqual(110)
  expect((await left()).length).toBe(60)
})

test('a service that fails every request is left after one round, whose requests are due again later', async () => {
  await ask(ids(60))
  const [{ begun }] = (await rig.rows<{ begun: string }>('select now()::text as begun')) as [
    { begun: string },
  ]
  rig.service.interfere = (_, response) => {
    json(response, {}, 503)
    return true
  }
  await fetchAll()
  expect(new Set(fetched()).size).toBeLessThanOrEqual(50)
  expect(await left()).toHaveLength(60)
  const rows = await rig.rows(
    `select failures, due_at > $1::timestamptz as later, count(*)::int from intake_ops.refetches
     group by 1, 2 order by 1`,
    [begun],
  )
  // Those of the round; the others were due before it, and are still.
  expect(rows).toEqual([
    { failures: 0, later: false, count: 10 },
    { failures: 1, later: true, count: 50 },
  ])
})

test('refused credentials are thrown, and each request stays due', async () => {
  await ask(['a', 'b'])
  rig.service.interfere = (_, response) => {
    json(response, {}, 403)
    return true
  }
  await expect(fetchAll()).rejects.toMatchObject({ verdict: 'stop', status: 403 })
  expect(await rig.rows('select id, due_at <= now() as due from intake_ops.refetches order by id')).toEqual([
    { id: 'a', due: true },
    { id: 'b', due: true },
  ])
})

test('fetching ends with the run, even if the service never answers, and each request is due again at once', async () => {
  await ask(['a', 'b'])
  const stop = new AbortController()
  const asked: string[] = []
  rig.service.interfere = ({ url }) => {
    asked.push(url)
    if (asked.length === 2) stop.abort(new Error('the run ends'))
    return true
  }
  await expect(fetchDue(await rig.source('patients', { clock, signal: stop.signal }))).rejects.toThrow(
    'the run ends',
  )
  expect(asked).toHaveLength(2)
  expect(
    await rig.rows('select due_at <= now() as due, attempts, failures from intake_ops.refetches'),
  ).toEqual(Array(2).fill({ due: true, attempts: 0, failures: 0 }))
}, 20_000)
