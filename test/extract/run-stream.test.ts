/** One stream of a run, whatever happens: a report, never an exception, and a reason that a person can act on. */
import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { IntakeError } from '../../src/core/errors.ts'
import { type BackfillOptions, type OpenTeam, openTeam } from '../../src/extract/backfill-options.ts'
import { EVERYTHING } from '../../src/extract/reading/window.ts'
import { runStream } from '../../src/extract/run-stream.ts'
import type { Progress } from '../../src/extract/source.ts'
import { hashesOf, noteErased } from '../../src/load/erasures.ts'
import { requestRefetches } from '../../src/load/refetches.ts'
import { type Figures, unwatched } from '../../src/load/run-progress.ts'
import { cursorOf, takeSlice } from '../../src/load/slice.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { json } from '../api/support/service.ts'
import { silent } from '../ingest/drain/scene.ts'
import { openRig, type Rig } from './support/reading.ts'

let rig: Rig
let team: OpenTeam
let stop: AbortController
let progress: [string, string, Progress][]
beforeEach(async () => {
  rig = await openRig()
  stop = new AbortController()
  progress = []
  team = openTeam(
    {
      ...{ name: 'default', teamId: rig.teamId, baseUrl: rig.service.url },
      ...{ apiKey: 'key', apiSecret: 'secret', apiVersion: 'v2.1', concurrency: 4 },
    },
    { clock: quick, random: () => 0.001, logger: silent, signal: stop.signal },
  )
})
afterEach(async () => {
  await team[Symbol.asyncDispose]()
  await rig[Symbol.asyncDispose]()
})

const quick = {
  now: systemClock.now,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 5), signal),
}
const person = (id: string) => ({ id, first_name: 'A' })
const KEY = { stream: 'patients', slice: '' } as const

function options(over: Partial<BackfillOptions> = {}): BackfillOptions {
  return {
    ...{ url: rig.url, teams: [], streams: [], allowMassDelete: false, window: EVERYTHING },
    ...{ dry: false, migrated: true, clock: quick, random: () => 0.001, logger: silent, signal: stop.signal },
    onProgress: (name, stream, each) => void progress.push([name, stream, each]),
    ...over,
  }
}
let notes: string[]
let figures: () => Figures
let logged: string[]
const run = (over: Partial<BackfillOptions> = {}, runId: string | null = '7') => {
  notes = []
  logged = []
  const logger = pino({ base: null }, { write: (line: string) => void logged.push(line) })
  return runStream({
    ...{
      options: options({ logger, ...over }),
      team,
      stream: streamNamed('patients')!,
      loaders: rig.loaders,
      runId,
    },
    progress: {
      ...unwatched(silent),
      note: (_, message) => void notes.push(message),
      watch(teamId, stream, counted) {
        if (teamId === rig.teamId && stream === 'patients') figures = counted
      },
    },
  })
}
const stored = () => rig.rows('select id from intake.patients order by id')
const answerAll = (status: number, headers: Record<string, string> = {}) => {
  rig.service.interfere = (_, response) => {
    json(response, { detail: 'no' }, status, headers)
    return true
  }
}

test('reports read and loaded records, and the progress under the names of team and stream', async () => {
  rig.service.records.patients = ['a', 'b', 'c'].map(person)
  rig.service.pageSize = 2
  const begun = systemClock.now()
  const report = await run()
  expect(report.seconds).toBeLessThan((systemClock.now() - begun) / 1_000_000 + 0.001)
  expect(notes).toEqual(['began', 'succeeded: 3 fetched, 3 changed, 0 deleted'])
  expect(figures()).toEqual({
    ...{ phase: 'ended', pages: 2, requests: 2, throttled: 0, fetched: 3, expected: 3, permitted_rate: null },
    pages_left: 0,
    counts: {
      ...{ requests: 2, throttled: 0, fetched: 3, changed: 3, unchanged: 0 },
      ...{ deleted: 0, erased: 0, deadLetters: 0, problems: 0 },
    },
  })
  expect(logged).toEqual([])
  expect(report).toMatchObject({ status: 'succeeded', note: null, requests: 2, throttled: 0 })
  expect(report).toMatchObject({
    fetched: 3,
    changed: 3,
    unchanged: 0,
    deleted: 0,
    deadLetters: 0,
    problems: 0,
  })
  expect(report.seconds).toBeGreaterThan(0)
  expect(await stored()).toEqual([{ id: 'a' }, { id: 'b' }, { id: 'c' }])
  expect(progress.at(-1)).toEqual(['default', 'patients', { fetched: 3, expected: 3 }])
  expect(await cursorOf(rig.session.db, { ...KEY, teamId: rig.teamId })).toMatchObject({ steady: true })
  expect(await run()).toMatchObject({ status: 'succeeded', changed: 0, unchanged: 3 })
  expect(notes.at(-1)).toBe('succeeded: 3 fetched, 0 changed, 0 deleted')
  rig.service.records.patients.pop()
  let ahead = 0
  const clock = { ...systemClock, now: () => systemClock.now() + ahead }
  const onProgress = () => {
    ahead = 90_000_000
  }
  const slow = await run({ clock, onProgress })
  expect(slow).toMatchObject({ fetched: 2, unchanged: 2, deleted: 1 })
  expect(Math.floor(slow.seconds / 90)).toBe(1)
  expect(notes.at(-1)).toBe('succeeded: 2 fetched, 0 changed, 1 deleted')
})

test.each([false, true])(
  'counts each record once while the list changes and is read again, in its progress too (dry run: %s)',
  async (dry) => {
    rig.service.records.patients = Array.from({ length: 6 }, (_, at) => person(`p${at}`))
    rig.service.pageSize = 3
    let scans = 0
    rig.service.interfere = ({ url }) => {
      // A new record pushes another one onto a page that is read later.
      if (url.includes('page=2')) rig.service.records.patients.unshift(person(`new ${scans++}`))
      return false
    }
    const report = await run({ dry }, dry ? null : '7')
    expect(scans).toBeGreaterThan(1)
    const { fetched, changed, unchanged } = report
    expect(changed).toBeGreaterThan(0)
    expect(changed + unchanged).toBeLessThanOrEqual(fetched)
    // A scan may meet a record on two pages.
    expect(fetched).toBeLessThan(2 * rig.service.records.patients.length)
    const { status, seconds, note, ...counts } = report
    const { requests, throttled } = report
    expect(figures()).toMatchObject({ requests, throttled, phase: 'ended' })
    expect(figures().counts).toEqual(counts)
  },
)

test('what needs a person needs attention, and the note says why', async () => {
  const many = Array.from({ length: 52 }, (_, at) => person(`p${at}`))
  rig.service.records.patients = many
  await run()
  rig.service.records.patients = many.slice(51)
  const report = await run()
  expect(report).toMatchObject({ status: 'needs_attention', deleted: 0 })
  expect(report.note).toContain('--allow-mass-delete')
  expect(logged.map((line) => JSON.parse(line))).toMatchObject([
    { team: 'default', stream: 'patients', msg: report.note, level: 40 },
  ])
  expect(await run({ allowMassDelete: true })).toMatchObject({ status: 'succeeded', note: null, deleted: 51 })
})

test.each([
  [401, 'no_credentials'],
  [403, 'bad_credentials'],
  [429, 'throttled'],
])('%i fails the stream with its hint, and ends the team', async (status, code) => {
  // The service asks for a longer pause than a run waits.
  answerAll(status, { 'retry-after': '86400' })
  const report = await run()
  expect(report).toMatchObject({ status: 'failed', fetched: 0 })
  expect(report.note).toContain(' — ')
  expect(team.signal.aborted).toBe(true)
  expect(stop.signal.aborted).toBe(false)
  const place = { team: 'default', stream: 'patients' }
  expect(logged.map((line) => JSON.parse(line))).toEqual([
    { level: 50, time: expect.any(Number), ...place, code, msg: report.note },
  ])
  expect(notes.at(-1)).toContain('failed: ')
  // Another stream of the team asks for nothing more, and takes no slice.
  const before = rig.service.received.length
  const epoch = () => rig.rows('select epoch from intake_ops.checkpoints')
  const taken = await epoch()
  expect(await run()).toMatchObject({ status: 'failed', note: report.note, requests: 0 })
  expect([rig.service.received.length, await epoch()]).toEqual([before, taken])
})

test('a service that answers no request for too long fails the stream, and ends the team', async () => {
  async function nobody(): Promise<never> {
    await systemClock.sleep(150)
    throw Object.assign(new Error('reset'), { code: 'ECONNRESET' })
  }
  await team[Symbol.asyncDispose]()
  team = openTeam(
    {
      ...{ name: 'default', teamId: rig.teamId, baseUrl: rig.service.url, giveUpAfterMs: 400 },
      ...{ apiKey: 'key', apiSecret: 'secret', apiVersion: 'v2.1', concurrency: 4 },
      wire: { send: nobody, open: nobody, close: async () => {} },
    },
    { clock: quick, random: () => 0.001, logger: silent, signal: stop.signal },
  )
  const { status, note } = await run()
  expect([status, note]).toEqual(['failed', expect.stringContaining('answered no request for')])
  expect(team.signal.aborted).toBe(true)
})

test('another refusal fails this stream alone', async () => {
  answerAll(405)
  expect(await run()).toMatchObject({ status: 'failed' })
  expect(team.signal.aborted).toBe(false)
  rig.service.interfere = () => false
  rig.service.records.patients = [person('a')]
  expect(await run()).toMatchObject({ status: 'succeeded', fetched: 1 })
})

test('a failure in the middle keeps the loaded records, and moves no cursor', async () => {
  rig.service.records.patients = ['a', 'b', 'c'].map(person)
  rig.service.pageSize = 2
  rig.service.interfere = ({ url }, response) => {
    if (!url.includes('page=2')) return false
    json(response, { detail: 'no' }, 405)
    return true
  }
  expect(await run()).toMatchObject({ status: 'failed', requests: 2 })
  expect(await cursorOf(rig.session.db, { ...KEY, teamId: rig.teamId })).toBeNull()
  rig.service.interfere = () => false
  expect(await run()).toMatchObject({ status: 'succeeded', fetched: 3 })
  expect(await stored()).toHaveLength(3)
})

test('a failure without a hint is reported as it is, and ends this stream alone', async () => {
  rig.service.records.patients = [person('a')]
  const onProgress = () => {
    throw new IntakeError('nobody listens', { code: 'internal', verdict: 'stop' })
  }
  expect(await run({ onProgress })).toMatchObject({ status: 'failed', note: 'nobody listens' })
  expect(logged.map((line) => JSON.parse(line))).toMatchObject([{ code: 'internal', msg: 'nobody listens' }])
  expect(team.signal.aborted).toBe(false)
})

test('one that is stopped is interrupted, and is no failure', async () => {
  rig.service.interfere = (_, response) => {
    stop.abort(new Error('SIGTERM'))
    json(response, { detail: 'no' }, 500)
    return true
  }
  expect(await run()).toMatchObject({
    status: 'interrupted',
    note: 'stopped by a signal; the next run continues',
  })
})

test('a worker whose slice was claimed by another fails, and loads nothing', async () => {
  rig.service.records.patients = [person('a')]
  rig.service.interfere = (request, response) => {
    void takeSlice(rig.session.db, { ...KEY, teamId: rig.teamId }, '8').then(() => {
      rig.service.interfere = () => false
      json(response, { count: 1, next: null, previous: null, results: [person('a')] })
    })
    return request.method === 'GET'
  }
  const report = await run()
  expect(report.status).toBe('failed')
  expect(report.note).toBe(
    'another worker has taken over patients; this one changed nothing more — nothing is wrong with the data; let the other run finish',
  )
  expect(await stored()).toEqual([])
})

test('a dry run compares and counts, takes no slice and writes nothing', async () => {
  await rig.hold(
    'patients',
    [person('a'), { ...person('b'), first_name: 'old' }],
    '2026-01-01T00:00:00.000000Z' as never,
  )
  const before = await rig.rows('select stream, epoch, cursor from intake_ops.checkpoints')
  rig.service.records.patients = ['a', 'b', 'c'].map(person)
  expect(await run({ dry: true }, null)).toMatchObject({
    status: 'succeeded',
    fetched: 3,
    changed: 2,
    unchanged: 1,
  })
  const erasures = await hashesOf(rig.session.db, rig.teamId)
  await noteErased(rig.session.db, erasures, 'c', [{ stream: 'patients', id: 'c' }])
  expect(await run({ dry: true }, null)).toMatchObject({ fetched: 3, changed: 1, unchanged: 1, erased: 1 })
  expect(await rig.rows('select stream, epoch, cursor from intake_ops.checkpoints')).toEqual(before)
  expect(await stored()).toHaveLength(2)
})

test('records that are due are fetched after the list, though not by a dry run; one that cannot be is in the note', async () => {
  rig.service.records.patients = ['a', 'x'].map(person)
  rig.service.unlisted.add('x')
  const due = () => rig.rows('update intake_ops.refetches set due_at = now()')
  await requestRefetches(rig.session.db, [
    { teamId: rig.teamId, stream: 'patients', id: 'x', reason: 'partial', origin: 'event:e', since: null },
  ])
  await due()
  expect(await run({ dry: true }, null)).toMatchObject({ status: 'succeeded', requests: 1 })
  rig.service.interfere = ({ url }, response) => {
    if (!url.endsWith('/x')) return false
    json(response, { detail: 'no' }, 500)
    return true
  }
  const { status, note } = await run()
  expect([status, note]).toEqual(['needs_attention', expect.stringContaining('1 could not be fetched')])
  rig.service.interfere = () => false
  await due()
  expect(await run()).toMatchObject({ status: 'succeeded', note: null })
  expect(await stored()).toEqual([{ id: 'a' }, { id: 'x' }])
})

test('a record that is in no list and was fetched by its id counts as fetched', async () => {
  const old = { ...person('x'), first_name: 'old' }
  await rig.hold('patients', [old], '2026-01-01T00:00:00.000000Z' as never)
  rig.service.records.patients = [person('x')]
  rig.service.unlisted.add('x')
  const counts = { fetched: 1, changed: 1, unchanged: 0 }
  expect(await run()).toMatchObject({ status: 'succeeded', ...counts })
  expect(figures().counts).toMatchObject(counts)
})

test('a checkpoint that cannot be read is in the note, also that of a dry run', async () => {
  const noted = 'the stored checkpoint cannot be read; everything was read'
  await takeSlice(rig.session.db, { ...KEY, teamId: rig.teamId }, '1')
  await rig.rows(`update intake_ops.checkpoints set cursor = '"damaged"' where team_id = $1`, [rig.teamId])
  expect(await run({ dry: true }, null)).toMatchObject({ status: 'succeeded', note: noted })
  expect(await run()).toMatchObject({ status: 'succeeded', note: noted })
  // Nobody has to act, and the log says it all the same.
  const place = { team: 'default', stream: 'patients' }
  expect(logged.map((line) => JSON.parse(line))).toMatchObject([{ level: 40, ...place, msg: noted }])
  expect(await run()).toMatchObject({ status: 'succeeded', note: null })
  expect(logged).toEqual([])
})

test('the session of a scan is one of the worker that has the slice, so that it ends with the others', async () => {
  const sessions: unknown[] = []
  rig.service.interfere = (_, response) => {
    void rig
      .rows(
        `select application_name as name from pg_stat_activity
         where datname = current_database() and application_name like '% scan patients%'`,
      )
      .then((rows) => {
        sessions.push(...rows)
        json(response, { count: 0, next: null, results: [] })
      })
    return true
  }
  const taken = await takeSlice(rig.session.db, { ...KEY, teamId: rig.teamId }, '7')
  await runStream({
    ...{ options: options(), team, stream: streamNamed('patients')!, loaders: rig.loaders, runId: '7' },
    ...{ progress: unwatched(silent), claimed: { taken, worker: 'abcdef01' } },
  })
  expect(sessions).toEqual([{ name: 'intake-sync scan patients worker abcdef01' }])
})

test('a warehouse that cannot be reached is a failed stream, and no exception', async () => {
  const report = await run({ url: 'postgres://127.0.0.1:9/none' })
  expect(report).toMatchObject({ status: 'failed', requests: 0 })
  expect(report.note).not.toContain('127.0.0.1:9/none')
})

test('a stream whose team has given up opens no session and takes no slice, which another run may have', async () => {
  team.giveUp(new IntakeError('refused', { code: 'bad_credentials', verdict: 'stop' }))
  const report = await run({ url: 'postgres://127.0.0.1:9/none' })
  expect(report).toMatchObject({ status: 'failed', note: 'refused', requests: 0 })
  await run()
  expect(await rig.rows('select from intake_ops.checkpoints')).toEqual([])
})

test('a stream without a path by id fetches nothing by id, whatever was requested', async () => {
  const place = { teamId: rig.teamId, stream: 'webhook_deliveries', id: 'd', reason: 'partial' } as const
  await requestRefetches(rig.session.db, [{ ...place, origin: 'event:e', since: null }])
  const report = await runStream({
    ...{ options: options(), team, stream: streamNamed('webhook_deliveries')!, loaders: rig.loaders },
    ...{ runId: '7', progress: unwatched(silent) },
  })
  expect(report).toMatchObject({ status: 'succeeded', note: null })
  expect(await rig.rows('select id, attempts from intake_ops.refetches')).toEqual([{ id: 'd', attempts: 0 }])
})
