/**
 * Lists that are longer than a portion, wherever the warehouse is paged through: everything after the first portion is
 * processed too, exactly once, and a rejected item does not stop the rest.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { openRefetcher } from '../../src/extract/conflicts/refetcher.ts'
import { storeDeadLetters } from '../../src/load/dead-letters.ts'
import { removeSettledBodies } from '../../src/load/erased-dead-letters.ts'
import { replayInbox } from '../../src/reconcile/replay-inbox.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { json } from '../api/support/service.ts'
import {
  type LittleRecord,
  type LittleService,
  littlePatient,
  startLittleService,
} from '../e2e/support/little-service.ts'
import { documentOf, openWarehouse, query } from '../e2e/support/scene.ts'
import { noonPlus, openScene, patient, patientEvent, silent, unwatched } from '../ingest/drain/scene.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'

const idOf = (at: number) => `p${String(at).padStart(5, '0')}`
const every = (count: number, from: number, to: number) =>
  Array.from({ length: count }, (_, at) => idOf(from + Math.floor((at * (to - from)) / count)))

describe('a stream with more records than any portion:', () => {
  /** More than one portion of seen ids (10,000), one batch, and one portion of a rebuild (2,500). */
  const RECORDS = 10_400
  let service: LittleService
  let warehouse: TestDatabase

  const run = (...words: string[]) =>
    runCommand(words, { ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'error' })
  const backfill = async (...words: string[]) => {
    const ended = await run('backfill', '--streams', 'patients', '--full', '--json', ...words)
    return { code: ended.code, figures: documentOf(ended).streams.patients! }
  }
  const ids = async (condition: string) =>
    (
      await query<{ id: string }>(
        warehouse.url,
        `select id from intake.patients where ${condition} order by id`,
      )
    ).map(({ id }) => id)
  /** Ids that were fetched individually since the last call. */
  let looked = 0
  const askedFor = () => {
    const since = service.received.slice(looked)
    looked = service.received.length
    return since.flatMap(({ url }) => /\/patients\/(p\d+)$/.exec(url)?.[1] ?? []).sort()
  }

  beforeAll(async () => {
    warehouse = await openWarehouse()
    service = await startLittleService(
      Array.from({ length: RECORDS }, (_, at) => littlePatient(idOf(at), 'first')),
    )
    service.pageSize = 2_600
    expect(await backfill()).toMatchObject({ code: 0, figures: { fetched: RECORDS, changed: RECORDS } })
  })

  afterAll(async () => {
    await service[Symbol.asyncDispose]()
    await warehouse.drop()
  })

  it('all seen ids of a scan count: an unchanged second run fetches nothing by id and deletes nothing', async () => {
    askedFor()
    expect(await backfill()).toMatchObject({
      code: 0,
      figures: { unchanged: RECORDS, changed: 0, deleted: 0 },
    })
    expect(askedFor()).toEqual([])
  })

  it('replay repairs wrong rows in each portion, and removes rows without a record, at any position', async () => {
    const wrong = every(90, 0, RECORDS)
    const lost = every(9, 1, RECORDS)
    await query(warehouse.url, `update intake.patients set last_name = 'wrong' where id = any($1)`, [wrong])
    await query(warehouse.url, 'delete from intake.patients where id = any($1)', [lost])
    await query(
      warehouse.url,
      `insert into intake.patients select (jsonb_populate_record(p, jsonb_build_object('id', stray))).*
       from intake.patients p cross join unnest($1::text[]) as stray where p.id = $2`,
      [['a', 'p02600-', 'p07000-', 'z'], idOf(5)],
    )
    const ended = await run('replay', '--streams', 'patients', '--json')
    expect(ended.code, ended.output).toBe(0)
    expect(await ids(`last_name is distinct from 'first'`)).toEqual([])
    expect(await query(warehouse.url, 'select count(*)::int from intake.patients')).toEqual([
      { count: RECORDS },
    ])
  })

  it('verify --repair repairs more than a portion of differences, and reports records that cannot be fetched', async () => {
    const changed = every(450, 100, RECORDS)
    const refused = new Set([changed[3], changed[230], changed[449]])
    await query(warehouse.url, `update intake.patients set last_name = 'wrong' where id = any($1)`, [changed])
    service.interfere = ({ url }, response) => {
      const id = /\/patients\/(p\d+)$/.exec(url)?.[1]
      if (id === undefined || !refused.has(id)) return false
      json(response, { detail: 'No.' }, 400)
      return true
    }
    const ended = await run('verify', '--streams', 'patients', '--repair', '--json')
    service.interfere = () => false
    expect(ended.code, ended.output).toBe(4)
    const { different, repaired } = JSON.parse(ended.stdout).streams.patients
    expect(different).toHaveLength(450)
    expect(repaired).toBe(447)
    expect(await ids(`last_name = 'wrong'`)).toEqual([...refused].sort())
    expect((await run('verify', '--streams', 'patients', '--repair')).code).toBe(0)
    expect(await ids(`last_name = 'wrong'`)).toEqual([])
  })

  it('deletes are proved one by one beyond the first five hundred, with live and refused ids among them', async () => {
    askedFor()
    const missing = every(1_260, 50, RECORDS)
    // In the first portion, in the last, and at the border between them; some consecutive.
    const alive = new Set(missing.filter((_, at) => at % 7 === 0 || (at > 495 && at < 506)))
    const refused = new Set(missing.filter((_, at) => at % 50 === 3))
    const other = (set: ReadonlySet<string>) => (id: string) => !set.has(id)
    const gone = missing.filter((id) => !alive.has(id) && !refused.has(id))
    for (const id of missing) service.unlisted.add(id)
    const left = new Set(gone)
    service.records.patients = service.records.patients.filter(({ id }) => !left.has(id))
    service.interfere = ({ url }, response) => {
      const id = /\/patients\/(p\d+)$/.exec(url)?.[1]
      if (id === undefined || !refused.has(id)) return false
      json(response, { detail: 'No.' }, 400)
      return true
    }
    expect(await backfill()).toMatchObject({ code: 4, figures: { deleted: 0 } })
    expect(askedFor()).toEqual([])
    const { code, figures } = await backfill('--allow-mass-delete')
    expect(code).toBe(4)
    expect(askedFor()).toEqual([...missing].sort())
    expect(figures).toMatchObject({ deleted: gone.length, dead_letters: refused.size, changed: 0 })
    expect(await ids('_deleted_at is not null')).toEqual([...gone].sort())
    // Records that are not listed but exist are fetched each time; deleted ones are not.
    const again = await backfill('--allow-mass-delete')
    expect(askedFor()).toEqual(missing.filter(other(left)).sort())
    expect(again.figures).toMatchObject({ deleted: 0, changed: 0 })
    expect(await ids('_deleted_at is not null')).toEqual([...gone].sort())
    service.interfere = () => false
    service.unlisted.clear()
  })
})

it('erase finds a patient in more stored events than one portion, and leaves the others', async () => {
  await using scene = await openScene()
  await scene.store([patientEvent('erased', 1)])
  await scene.drain()
  const store = (id: string, data: object, from: number, to: number) =>
    scene.rows(
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status, settled_at)
       select $1, $2 || n, sha256(convert_to($2 || n, 'UTF8')), '2026-01-01', '2026-01-01', convert_to($3, 'UTF8'),
         'dead', now()
       from generate_series($4::int, $5::int) as n`,
      [scene.teamId, id, JSON.stringify({ source: 'response', event_type: 'updated', data }), from, to],
    )
  await store('theirs-', { patient: { id: 'erased' } }, 1, 700)
  // These contain the text too, so that they are examined.
  await store('others-', { patient: { id: 'another' }, note: 'erased' }, 1, 650)
  await store('theirs-', { patient: { id: 'erased' } }, 701, 1_300)
  const ended = await runCommand(['erase', 'patient', 'erased', '--yes', '--json'], {
    DATABASE_URL: scene.url,
  })
  expect(ended.code, ended.output).toBe(0)
  expect(JSON.parse(ended.stdout).erased.events).toBe(1_301)
  expect(await scene.rows(`select count(*)::int from intake_raw.inbox`)).toEqual([{ count: 650 }])
})

it('bodies of settled dead letters are removed beyond the first thousand, those of waiting ones never', async () => {
  await using scene = await openScene()
  await scene.rows(
    `with inserted as (
       insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason, status, settled_at)
       select $1, 'patients', n::text, 'event:x', 'planted', case when n % 10 = 0 then 'waiting' else 'discarded' end,
         case when n % 10 = 0 then null when n % 10 = 1 then now() else now() - interval '31 days' end
       from generate_series(1, 3000) as n returning id
     )
     insert into intake_raw.set_aside (dead_letter_id, body) select id, 'x' from inserted`,
    [scene.teamId],
  )
  expect(await removeSettledBodies(scene.session.db, { days: 30, now: new Date() })).toBe(2_400)
  expect(await scene.rows('select count(*)::int from intake_raw.set_aside')).toEqual([{ count: 600 }])
})

it('replay --inbox drains each portion, also the last and shortest, in the order of storing', async () => {
  await using scene = await openScene()
  const events = Array.from({ length: 23 }, (_, at) =>
    patientEvent(`p${at % 6}`, 1 + at, { city: `city ${at}`, updated_at: noonPlus(1 + at) }),
  )
  await scene.store(events)
  await scene.drain()
  const cities = () => scene.rows('select id, city from intake.patients order by id')
  const before = await cities()
  await scene.rows('delete from intake.patients')
  await scene.rows('delete from intake_raw.records')
  await scene.rows('delete from intake_ops.refetches')
  const progress: (readonly number[])[] = []
  const replayed = await replayInbox({
    ...{ url: scene.url, since: noonPlus(0), streams: null, versions: new Map(), portion: 5 },
    ...{ clock: systemClock, logger: silent, signal: new AbortController().signal },
    onProgress: (...each) => progress.push(each),
  })
  expect(replayed).toMatchObject({ status: 'succeeded', events: 23, done: 23, dead: 0, waiting: 0 })
  expect(progress).toEqual([5, 10, 15, 20, 23].map((done) => [done, 23]))
  expect(await cities()).toEqual(before)
  expect(await scene.asked()).toEqual([])
})

it('more refetches than one round takes are made once each, whatever happens to some of them', async () => {
  await using scene = await openScene()
  await using service = await startLittleService()
  const all = Array.from({ length: 170 }, (_, at) => `p${at}`)
  const kinds = { gone: (at: number) => at % 9 === 4, refused: (at: number) => at % 11 === 5 }
  const isGone = (_: string, at: number) => kinds.gone(at) && !kinds.refused(at)
  const isRefused = (_: string, at: number) => kinds.refused(at)
  const [gone, refused] = [all.filter(isGone), all.filter(isRefused)]
  const records: LittleRecord[] = all
    .filter((id) => !gone.includes(id))
    .map((id) => patient(id, { city: 'new' }))
  service.records.patients.push(...records)
  service.interfere = ({ url }, response) => {
    if (!refused.some((id) => url.endsWith(`/${id}`))) return false
    json(response, { detail: 'No.' }, 400)
    return true
  }
  await scene.store(all.map((id, at) => patientEvent(id, 1 + at, { city: 'old' })))
  await scene.drain()
  await scene.rows(
    `insert into intake_ops.refetches (team_id, stream, id, reason, origin)
     select $1, 'patients', id, 'contested', 'event:x' from unnest($2::text[]) as id`,
    [scene.teamId, all],
  )
  const team = { name: 'default', teamId: scene.teamId, baseUrl: service.url, apiKey: 'k', apiSecret: 's' }
  {
    await using refetcher = openRefetcher({
      ...{ url: scene.url, teams: [{ ...team, apiVersion: 'v2.1', concurrency: 4 }], clock: systemClock },
      ...{ random: Math.random, logger: silent, watch: unwatched, pollMs: 10 },
    })
    await refetcher.idle()
  }
  expect(await scene.asked()).toEqual([])
  const of = (condition: string) =>
    scene.rows<{ id: string }>(`select id from intake.patients where ${condition}`).then(sorted)
  expect(await of('_deleted_at is not null')).toEqual([...gone].sort())
  expect(await of(`city = 'old'`)).toEqual([...refused].sort())
  expect(
    sorted(
      await scene.rows<{ id: string }>(
        `select record_id as id from intake_ops.dead_letters where status = 'waiting'`,
      ),
    ),
  ).toEqual([...refused].sort())
  const times = new Map<string, number>()
  for (const { url } of service.received) times.set(url, (times.get(url) ?? 0) + 1)
  const once = [...times].filter(([url]) => !refused.some((id) => url.endsWith(`/${id}`)))
  expect(once.filter(([, count]) => count !== 1)).toEqual([])
})

const sorted = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => id).sort()

it('all dead letters are retried and discarded, however many there are', async () => {
  await using scene = await openScene()
  await using session = await openSession({ url: scene.url, purpose: 'test' })
  const deadLetters = Array.from({ length: 120 }, (_, at) => {
    const body = JSON.stringify(patient(`p${at}`))
    // Some that cannot be retried are among those that can.
    return {
      recordId: null,
      origin: 'run:1 page:1',
      reason: 'planted',
      body: at % 40 === 7 ? `{${at}` : body,
    }
  })
  await storeDeadLetters(session.db, { teamId: scene.teamId, stream: 'patients', runId: '1' }, deadLetters)
  const env = { DATABASE_URL: scene.url }
  const retried = await runCommand(['dead-letters', 'retry', '--all', '--json'], env)
  expect(retried.code, retried.output).toBe(4)
  expect(await scene.rows('select count(*)::int from intake.patients')).toEqual([{ count: 117 }])
  const waiting = await scene.rows<{ id: number }>(
    `select id::int from intake_ops.dead_letters where status = 'waiting' order by id`,
  )
  expect(waiting).toHaveLength(3)
  await runCommand(['dead-letters', 'discard', ...waiting.map(({ id }) => String(id))], env)
  expect(await scene.rows(`select from intake_ops.dead_letters where status = 'waiting'`)).toEqual([])
})
