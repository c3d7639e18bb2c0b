/** One round of a team: which records are fetched, which refetches are settled, and which are due again, however it ends. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { openServiceClock } from '../../../src/api/service-clock.ts'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import type { StreamName } from '../../../src/core/envelope.ts'
import type { Instant } from '../../../src/core/time.ts'
import { RENEW_MS } from '../../../src/extract/conflicts/due-rows.ts'
import { type RoundClient, refetchRound } from '../../../src/extract/conflicts/round.ts'
import { type RefetchReason, requestRefetches } from '../../../src/load/refetches.ts'
import { json } from '../../api/support/service.ts'
import { ago, openRig, type Rig } from '../support/reading.ts'

let rig: Rig
let asked: RoundClient
beforeEach(async () => {
  rig = await openRig()
  asked = {
    client: rig.client,
    serviceClock: openServiceClock(),
    meter: { requests: 0, throttled: 0 },
    failedFetches: new Map(),
  }
})
afterEach(() => rig[Symbol.asyncDispose]())

async function ask(
  ids: readonly string[],
  stream: StreamName = 'patients',
  reason: RefetchReason = 'partial',
) {
  const rest = { teamId: rig.teamId, stream, reason, origin: 'event:e', since: null }
  await requestRefetches(
    rig.session.db,
    ids.map((id) => ({ ...rest, id })),
  )
  await rig.rows('update intake_ops.refetches set due_at = now()')
}
const reportDefect = async () => {}
const round = (streams: readonly StreamName[] = ['patients', 'forms']) =>
  refetchRound({ teamId: rig.teamId, loaders: rig.loaders, clock: systemClock, reportDefect }, asked, streams)
const left = () =>
  rig.rows(
    `select stream, id, attempts, failures, due_at <= now() as due
     from intake_ops.refetches order by stream, id`,
  )
const person = (id: string, more: object = {}) => ({ id, first_name: 'A', ...more })
const state = () =>
  rig.rows('select id, first_name, _deleted_at is not null as gone from intake.patients order by id')
const answer = (ending: string, status: number) => {
  rig.service.interfere = ({ url }, response) => {
    if (!url.includes(ending)) return false
    json(response, {}, status)
    return true
  }
}

test('fetches fifty at a time, and settles each that was answered', async () => {
  const ids = Array.from({ length: 53 }, (_, at) => `p${at}`)
  rig.service.records.patients = ids.map((id) => person(id))
  await ask(ids)
  expect(await round()).toEqual({ records: 50, gone: 0, failure: null, stopped: new Map() })
  expect(await left()).toHaveLength(3)
  expect(await round()).toMatchObject({ records: 3 })
  expect(await left()).toEqual([])
  expect(await state()).toHaveLength(53)
  expect(asked.meter.requests).toBe(53)
  expect(await round()).toEqual({ records: 0, gone: 0, failure: null, stopped: new Map() })
})

describe('a record that is not found', () => {
  test('gets a tombstone at once if its state conflicts', async () => {
    await rig.hold('patients', [person('stored')], ago(60))
    await ask(['stored', 'unseen'], 'patients', 'contested')
    await ask(['f'], 'forms', 'contested')
    expect(await round()).toMatchObject({ records: 3, gone: 3, failure: null })
    expect(await state()).toEqual([
      { id: 'stored', first_name: null, gone: true },
      { id: 'unseen', first_name: null, gone: true },
    ])
    expect(await left()).toEqual([])
    const origins = await rig.rows('select distinct origin from intake_raw.records')
    expect(origins).toEqual([{ origin: 'event:e refetch' }])
  })

  test('that is stored as deleted does not change', async () => {
    await ask(['p'], 'patients', 'contested')
    await round()
    const [before] = await rig.rows('select xmin::text, version::text from intake_raw.records')
    await ask(['p'], 'patients', 'contested')
    await round()
    expect(await rig.rows('select xmin::text, version::text from intake_raw.records')).toEqual([before])
    expect(await left()).toEqual([])
  })

  test('is fetched four times after a partial event, and then left to a scan', async () => {
    await rig.hold('patients', [person('stored')], ago(60))
    await ask(['stored', 'unseen', 'unseen too'])
    for (let times = 1; times <= 3; times++) {
      await rig.rows('update intake_ops.refetches set due_at = now()')
      expect(await round()).toMatchObject({ gone: 3, failure: null })
      expect(await left()).toMatchObject([
        { id: 'stored', attempts: times },
        { id: 'unseen', attempts: times },
        { id: 'unseen too', attempts: times },
      ])
    }
    await rig.rows('update intake_ops.refetches set due_at = now()')
    await round()
    expect(await left()).toEqual([])
    expect(await state()).toEqual([{ id: 'stored', first_name: 'A', gone: false }])
    // One leaves a row; the others are counted.
    expect(await rig.rows('select stream, path, reason, count::int from intake_ops.problems')).toEqual([
      { stream: 'patients', path: 'id', reason: 'of an event; the service has no such record', count: 2 },
    ])
  })
})

describe('an answer that loses', () => {
  test('to a state dated ahead is requested again twice, and then overrules it', async () => {
    await rig.hold('patients', [person('p', { first_name: 'ahead' })], ago(-3_600))
    rig.service.records.patients = [person('p', { first_name: 'true' })]
    await ask(['p'], 'patients', 'contested')
    for (let times = 1; times <= 2; times++) {
      await rig.rows('update intake_ops.refetches set due_at = now()')
      await round()
      expect(await left()).toMatchObject([{ attempts: times }])
      expect(await state()).toMatchObject([{ first_name: 'ahead' }])
    }
    await rig.rows('update intake_ops.refetches set due_at = now()')
    await round()
    expect(await left()).toEqual([])
    expect(await state()).toEqual([{ id: 'p', first_name: 'true', gone: false }])
  })

  test('to a state that was loaded meanwhile overrules nothing, however often it has lost', async () => {
    await ask(['p'], 'patients', 'contested')
    await rig.rows('update intake_ops.refetches set attempts = 5')
    rig.service.interfere = (_, response) => {
      const since = asked.serviceClock.observedAt(systemClock.now()) as Instant
      const meanwhile = rig.hold('patients', [person('p', { first_name: 'meanwhile' })], since)
      void meanwhile.then(() => json(response, person('p', { first_name: 'answer' })))
      return true
    }
    await round(['patients'])
    expect(await state()).toMatchObject([{ first_name: 'meanwhile' }])
    expect(await left()).toMatchObject([{ attempts: 6 }])
  })

  test('for a record that is not found, and is stored under a fast clock, finally deletes it', async () => {
    await rig.hold('patients', [person('p')], ago(-3_600))
    await ask(['p'], 'patients', 'contested')
    for (let times = 0; times < 3; times++) {
      await rig.rows('update intake_ops.refetches set due_at = now()')
      await round()
    }
    expect(await state()).toMatchObject([{ gone: true }])
    expect(await left()).toEqual([])
  })
})

test('a record that the service refuses becomes a dead letter and is settled; one that Postgres rejects does not stop the others', async () => {
  rig.service.records.patients = [person('good'), person('bad', { first_name: 'refuse me' }), person('fine')]
  await rig.rows(`alter table intake.patients add constraint refusal check (first_name <> 'refuse me')`)
  answer('/no', 422)
  await ask(['good', 'bad', 'no', 'fine'])
  expect(await round()).toMatchObject({ records: 4, failure: null })
  expect(await left()).toEqual([])
  expect((await state()).map(({ id }) => id)).toEqual(['fine', 'good'])
  const deadLetters = await rig.rows(
    `select record_id, origin, reason, last_run_id, convert_from(body, 'UTF8') as body
     from intake_ops.dead_letters join intake_raw.set_aside on dead_letter_id = id order by 1`,
  )
  expect(deadLetters).toMatchObject([
    {
      record_id: 'bad',
      origin: 'event:e refetch',
      reason: 'the warehouse refused the record (SQLSTATE 23514)',
    },
    { record_id: 'no', reason: 'the service does not give the record by its id (422)', last_run_id: null },
  ])
  expect(JSON.parse(deadLetters[0]!.body as string)).toMatchObject({ id: 'bad' })
})

describe('a failing service', () => {
  test('leaves the failed refetches due later, and the round does not fail', async () => {
    rig.service.records.patients = [person('good')]
    answer('/bad', 503)
    await ask(['good', 'bad'])
    expect(await round()).toMatchObject({ records: 2, failure: null, gone: 0 })
    expect(await left()).toMatchObject([{ id: 'bad', attempts: 0, failures: 1 }])
  })

  test('for all refetches is the error of the round', async () => {
    answer('/', 503)
    await ask(['a', 'b'])
    await ask(['f'], 'forms')
    const { failure, stopped } = await round()
    expect(failure).toContain('503')
    expect(stopped.size).toBe(0)
    expect(await left()).toMatchObject([
      { attempts: 0, failures: 1 },
      { attempts: 0, failures: 1 },
      { attempts: 0, failures: 1 },
    ])
  })

  test('with invalid credentials stops that stream, counts no attempt, and ends no other', async () => {
    rig.service.records.forms = [{ id: 'f', questions: [] }]
    answer('/patients/', 403)
    await ask(['p'])
    await ask(['f'], 'forms')
    const { stopped, failure } = await round()
    expect([...stopped.keys()]).toEqual(['patients'])
    expect(stopped.get('patients')).toMatchObject({ verdict: 'stop', status: 403 })
    expect(failure).toBeNull()
    expect(await left()).toMatchObject([{ stream: 'patients', id: 'p', attempts: 0, failures: 0, due: true }])
    expect(await rig.rows('select id from intake.forms')).toEqual([{ id: 'f' }])
  })

  test('ten times in a row over several rounds counts as down: no further request of the stream is sent', async () => {
    answer('/', 500)
    await ask(Array.from({ length: 11 }, (_, at) => `p${at}`))
    const { failure, records } = await round()
    expect(records).toBe(11)
    expect(failure).not.toBeNull()
    expect(await left()).toHaveLength(11)
    for (const row of await left()) expect(row).toMatchObject({ attempts: 0, failures: 1 })
    // Ids are kept in the warehouse alone: in memory they would grow with every record that is never fetched.
    expect(asked.failedFetches.get('patients')).toEqual({ inRow: 10 })
  })
})

/** Loaders whose calls, counted from 1, fail with the error that `failure` returns. */
function loadersThat(failure: (call: number) => Error | null) {
  let calls = 0
  const run = ((work) => {
    calls += 1
    const error = failure(calls)
    return error === null ? rig.loaders.run(work) : Promise.reject(error)
  }) as typeof rig.loaders.run
  return { ...rig.loaders, run }
}

test('a round that ends early makes every unsettled row due again at once', async () => {
  rig.service.records.patients = [person('p')]
  await ask(['p'])
  await ask(['f'], 'forms')
  const broken = new Error('the warehouse is away')
  const loaders = loadersThat((call) => (call === 2 ? broken : null))
  await expect(
    refetchRound({ teamId: rig.teamId, loaders, clock: systemClock, reportDefect }, asked, [
      'patients',
      'forms',
    ]),
  ).rejects.toBe(broken)
  expect(await left()).toMatchObject([
    { id: 'f', attempts: 0, failures: 0, due: true },
    { id: 'p', attempts: 0, failures: 0, due: true },
  ])
})

test('a round that ends early leaves the pauses of those it has settled', async () => {
  answer('/', 503)
  await ask(['p', 'q'])
  await ask(['f'], 'forms')
  await rig.rows(
    `update intake_ops.refetches set due_at = now() - interval '1 minute' where id in ('p', 'q')`,
  )
  const broken = new Error('the warehouse is away')
  const loaders = loadersThat((call) => (call === 3 ? broken : null))
  await expect(
    refetchRound({ teamId: rig.teamId, loaders, clock: systemClock, reportDefect }, asked, [
      'patients',
      'forms',
    ]),
  ).rejects.toBe(broken)
  expect(await left()).toMatchObject([
    { id: 'f', failures: 0, due: true },
    { id: 'p', failures: 1, due: false },
    { id: 'q', failures: 1, due: false },
  ])
})

test('a round whose warehouse is away fails with the first error, and its rows are due when their lease ends', async () => {
  rig.service.records.patients = [person('p')]
  await ask(['p'])
  const broken = new Error('the warehouse is away')
  const loaders = loadersThat((call) => (call === 1 ? null : call === 2 ? broken : new Error('still')))
  await expect(
    refetchRound({ teamId: rig.teamId, loaders, clock: systemClock, reportDefect }, asked, ['patients']),
  ).rejects.toBe(broken)
  expect(await left()).toMatchObject([{ id: 'p', attempts: 0, failures: 0 }])
})

test('a warehouse whose disk is full makes no dead letter of a record, whose request is due again', async () => {
  rig.service.records.patients = [person('p')]
  await ask(['p'])
  await rig.rows(`create function full_disk() returns trigger language plpgsql as $$
    begin raise exception 'no' using errcode = '53100'; end $$`)
  await rig.rows(
    'create trigger full_disk before insert on intake.patients for each row execute function full_disk()',
  )
  await expect(round()).rejects.toMatchObject({ code: 'disk_full' })
  expect(await left()).toEqual([{ stream: 'patients', id: 'p', attempts: 0, failures: 0, due: true }])
  expect(await rig.rows('select from intake_ops.dead_letters')).toEqual([])
})

test('a round keeps its claims while the service is slow', async () => {
  rig.service.records.patients = [person('p')]
  await ask(['p'])
  let answers = () => {}
  rig.service.interfere = (request, response) => {
    if (!request.url.endsWith('/p')) return false
    answers = () => json(response, person('p'))
    return true
  }
  let renew = () => {}
  const clock: Clock = {
    ...systemClock,
    sleep: (milliseconds, signal) =>
      milliseconds === RENEW_MS
        ? new Promise((resolve) => {
            renew = resolve
            signal?.addEventListener('abort', () => resolve())
          })
        : systemClock.sleep(milliseconds, signal),
  }
  const running = refetchRound({ teamId: rig.teamId, loaders: rig.loaders, clock, reportDefect }, asked, [
    'patients',
  ])
  await expect.poll(() => rig.service.received.length).toBe(1)
  // The lease is about to end, but this test takes less than an hour.
  await rig.rows(`update intake_ops.refetches set due_at = now() + interval '1 hour'`)
  renew()
  const isRenewed = () =>
    rig.rows(`select due_at < now() + interval '30 minutes' as renewed from intake_ops.refetches`)
  await expect.poll(isRenewed).toEqual([{ renewed: true }])
  answers()
  expect(await running).toMatchObject({ records: 1, failure: null })
  expect(await left()).toEqual([])
})
