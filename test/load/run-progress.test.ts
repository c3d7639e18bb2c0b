/** Figures and lines of a run in progress, stored for those who watch it. */
import pino from 'pino'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { addPage, firstStep, openRunProgress, type Phase } from '../../src/load/run-progress.ts'
import { openBoundedQueries } from '../../src/warehouse/bounded-queries.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'

async function openRun() {
  const { url, drop } = await openWarehouse()
  onTestFinished(drop)
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const [team] = await query<{ team_id: number }>(
    url,
    `insert into intake.teams (name) values ('north') returning team_id`,
  )
  const [run] = await query<{ run_id: string }>(
    url,
    `insert into intake_ops.runs (kind, status, options) values ('backfill', 'running', '{}') returning run_id`,
  )
  const teamId = team!.team_id
  return { url, runId: run!.run_id, teamId, teams: [{ name: 'north', teamId }] }
}

/** What a worker opens it with, for a slice that nobody takes from it. */
function asWorker(run: Pick<Awaited<ReturnType<typeof openRun>>, 'url' | 'runId' | 'teams'>) {
  return {
    ...run,
    ...{ clock: systemClock, logger: pino({ level: 'silent' }), claimed: { sliceId: '0', epoch: '1' } },
  }
}

/** After a second of the timer. */
function later<Row extends object>(url: string, text: string) {
  vi.advanceTimersByTime(1_000)
  return query<Row>(url, text)
}

const FIGURES = {
  ...{ phase: 'fetch' as Phase, pages: 1, requests: 2, throttled: 0, fetched: 3, expected: null },
  ...{ pages_left: null, counts: {}, permitted_rate: null },
}

describe('the pages that are left of a list', () => {
  it.each<[string, readonly (readonly [records: number, count: number | null, listed: number])[], object]>([
    ['none of the first page', [[100, 100, 100]], { pages: 1, records: 100, expected: 100, pagesLeft: 0 }],
    ['a part of a page as one', [[100, 101, 100]], { pages: 1, records: 100, expected: 101, pagesLeft: 1 }],
    [
      'as many as are needed at the size of those before',
      [
        [100, 1_000, 100],
        [50, 1_001, 150],
      ],
      { pages: 2, records: 150, expected: 1_001, pagesLeft: 12 },
    ],
    [
      'fewer where an earlier scan has read some',
      [[100, 1_000, 700]],
      { pages: 1, records: 100, expected: 1_000, pagesLeft: 3 },
    ],
    [
      'unknown without a count',
      [[100, null, 100]],
      { pages: 1, records: 100, expected: null, pagesLeft: null },
    ],
    ['unknown before a record came', [[0, 9, 0]], { pages: 1, records: 0, expected: 9, pagesLeft: null }],
    ['none of an empty list', [[0, 0, 0]], { pages: 1, records: 0, expected: 0, pagesLeft: 0 }],
    [
      'none of a list that grew while it was read',
      [
        [100, 150, 100],
        [80, 150, 180],
      ],
      { pages: 2, records: 180, expected: 150, pagesLeft: 0 },
    ],
    [
      'unknown once the service counts no more',
      [
        [100, 150, 100],
        [10, null, 110],
      ],
      { pages: 2, records: 110, expected: null, pagesLeft: null },
    ],
  ])('are %s', (_, pages, step) => {
    const own = firstStep()
    expect(own).toEqual({ phase: 'plan', pages: 0, records: 0, expected: null, pagesLeft: null })
    for (const [records, count, listed] of pages) addPage(own, records, count, listed)
    expect(own).toEqual({ phase: 'fetch', ...step })
  })
})

it('times are those of the run’s clock, and lines go to its own log too', async () => {
  const { url, runId, teamId, teams } = await openRun()
  let micros = 1_000_000_000_000_000
  const clock = { now: () => micros, sleep: systemClock.sleep }
  const logged: string[] = []
  const logger = pino({ base: null }, { write: (line: string) => void logged.push(line) })
  await using progress = openRunProgress({ url, runId, teams, clock, logger })
  progress.watch(teamId, 'patients', () => FIGURES)
  progress.logger.warn({ team: 'north', stream: 'patients' }, 'slow')
  micros += 90_000_000
  const stored = () =>
    later(
      url,
      `select to_json(began_at at time zone 'UTC') as began, to_json(updated_at at time zone 'UTC') as updated,
         (select to_json(at at time zone 'UTC') from intake_ops.run_log) as logged from intake_ops.run_progress`,
    )
  await expect
    .poll(stored)
    .toEqual([
      { began: '2001-09-09T01:46:40', updated: '2001-09-09T01:48:10', logged: '2001-09-09T01:46:40' },
    ])
  expect(logged.join()).toContain('slow')
})

it('the figures are stored again when they change, such as the count of a list, which its first page shows', async () => {
  const { url, runId, teamId, teams } = await openRun()
  await using progress = openRunProgress({
    ...{ url, runId, teams, clock: systemClock, logger: pino({ level: 'silent' }) },
  })
  const now = {
    ...{ phase: 'plan' as Phase, pages: 0, requests: 0, throttled: 0, fetched: 0 },
    ...{ expected: null as number | null, permitted_rate: null as number | null },
    ...{ pages_left: null as number | null, counts: {} },
  }
  progress.watch(teamId, 'patients', () => ({ ...now }))
  const stored = () =>
    later(
      url,
      `select phase, pages::int, requests::int, throttled::int, fetched::int, expected::int, permitted_rate,
         pages_left::int, counts from intake_ops.run_progress`,
    )
  await expect.poll(stored).toEqual([now])
  Object.assign(now, { phase: 'fetch', pages: 2, requests: 4, throttled: 1, fetched: 20, expected: 45 })
  Object.assign(now, { pages_left: 3, counts: { changed: 7, deadLetters: 1 } })
  now.permitted_rate = 12.5
  await expect.poll(stored).toEqual([now])
})

it('the end of a stream that could not be stored is tried again', async () => {
  const { url, runId, teamId, teams } = await openRun()
  await query(url, 'alter table intake_ops.run_progress rename to away')
  await using progress = openRunProgress({
    ...{ url, runId, teams, clock: systemClock, logger: pino({ level: 'silent' }) },
  })
  let reads = 0
  progress.watch(teamId, 'patients', () => {
    reads += 1
    return { ...FIGURES, phase: 'ended' }
  })
  await expect
    .poll(() => {
      vi.advanceTimersByTime(1_000)
      return reads
    })
    .toBeGreaterThan(1)
  await query(url, 'alter table intake_ops.away rename to run_progress')
  await expect
    .poll(() => later(url, 'select phase from intake_ops.run_progress'))
    .toEqual([{ phase: 'ended' }])
})

it('the last figures and lines of a run are tried again, on a new connection', async () => {
  const { url, runId, teamId, teams } = await openRun()
  // A sequence does not count back when its transaction fails.
  await query(
    url,
    `create sequence intake_ops.tries;
     create function intake_ops.fail_once() returns trigger language plpgsql as $$
     begin
       if new.phase = 'ended' and nextval('intake_ops.tries') < 2 then
         perform pg_terminate_backend(pg_backend_pid());
       end if;
       return new;
     end $$;
     create trigger fail_once before insert on intake_ops.run_progress
       for each row execute function intake_ops.fail_once()`,
  )
  const progress = openRunProgress({
    ...{ url, runId, teams, clock: systemClock, logger: pino({ level: 'silent' }) },
  })
  const stored = () =>
    later(
      url,
      'select phase, (select array_agg(message) from intake_ops.run_log) as log from intake_ops.run_progress',
    )
  let phase: Phase = 'fetch'
  progress.watch(teamId, 'patients', () => ({ ...FIGURES, phase }))
  await expect.poll(stored).toEqual([{ phase: 'fetch', log: null }])
  phase = 'ended'
  progress.note({ team: 'north', stream: 'patients' }, 'the end')
  await progress[Symbol.asyncDispose]()
  expect(await stored()).toEqual([{ phase: 'ended', log: ['the end'] }])
})

it('a stream that another process goes on with has its figures, and its time', async () => {
  const { url, runId, teamId, teams } = await openRun()
  let micros = 1_000_000_000_000_000
  const clock = { now: () => micros, sleep: systemClock.sleep }
  const shared = { ...asWorker({ url, runId, teams }), clock }
  const stored = () =>
    later(
      url,
      `select pages::int, extract(epoch from updated_at - began_at)::int as seconds from intake_ops.run_progress`,
    )
  await using one = openRunProgress(shared)
  one.watch(teamId, 'patients', () => ({ ...FIGURES, pages: 500 }))
  await expect.poll(stored).toEqual([{ pages: 500, seconds: 0 }])
  micros += 60_000_000
  await using other = openRunProgress(shared)
  let pages = 1
  other.watch(teamId, 'patients', () => ({ ...FIGURES, pages }))
  await expect.poll(stored).toEqual([{ pages: 1, seconds: 0 }])
  ;[micros, pages] = [micros + 5_000_000, 10]
  await expect.poll(stored).toEqual([{ pages: 10, seconds: 5 }])
})

it('a line that was stored although its connection was given up is stored once, and those after it follow', async () => {
  const { url, runId, teams } = await openRun()
  await using real = openBoundedQueries(url, 1)
  let tries = 0
  const bounded: typeof real = {
    ...real,
    async run(look, work) {
      const result = await real.run(look, work)
      tries += 1
      if (tries > 2) return result
      progress.logger.info('again')
      throw new Error('the answer came too late')
    },
  }
  const shared = asWorker({ url, runId, teams })
  await using progress = openRunProgress({ ...shared, bounded })
  await using other = openRunProgress(shared)
  progress.logger.info('again')
  other.logger.info('again')
  const lines = () => later(url, 'select message from intake_ops.run_log order by line')
  await expect.poll(lines).toHaveLength(4)
  await expect
    .poll(() => {
      vi.advanceTimersByTime(1_000)
      return tries
    })
    .toBe(3)
  expect(await lines()).toHaveLength(4)
})

it('lines that could not be stored keep their order, before those that were logged since', async () => {
  const { url, runId, teams } = await openRun()
  await using real = openBoundedQueries(url, 1)
  let isAway = true
  const bounded: typeof real = {
    ...real,
    async run(look, work) {
      if (!isAway) return await real.run(look, work)
      isAway = false
      progress.logger.info('second')
      throw new Error('the warehouse is away')
    },
  }
  await using progress = openRunProgress({ ...asWorker({ url, runId, teams }), bounded })
  progress.logger.info('first')
  await expect
    .poll(() => later(url, `select line, message from intake_ops.run_log order by line`))
    .toEqual([
      { line: 1, message: 'first' },
      { line: 2, message: 'second' },
    ])
})

it('of lines that could not be stored, the last 300 are stored once they can be', async () => {
  const { url, runId, teams } = await openRun()
  await using real = openBoundedQueries(url, 1)
  let tries = 0
  const bounded: typeof real = {
    ...real,
    async run(look, work) {
      tries += 1
      if (tries > 1) return await real.run(look, work)
      for (let line = 201; line <= 400; line++) progress.logger.info(`line ${line}`)
      throw new Error('the warehouse is away')
    },
  }
  await using progress = openRunProgress({ ...asWorker({ url, runId, teams }), bounded })
  for (let line = 1; line <= 200; line++) progress.logger.info(`line ${line}`)
  await expect
    .poll(() => later(url, `select message from intake_ops.run_log order by line`))
    .toEqual(Array.from({ length: 300 }, (_, at) => ({ message: `line ${at + 101}` })))
})

it('a log keeps its last 300 lines, whatever other runs have logged', async () => {
  const { url, runId, teams } = await openRun()
  await query(
    url,
    `with other as (
       insert into intake_ops.runs (kind, status, options) values ('backfill', 'running', '{}') returning run_id
     )
     insert into intake_ops.run_log (run_id, line, at, level, message)
     select run_id, line, now(), 'info', 'of the other' from other, unnest(array[1, 9000]) as line`,
  )
  const stored = () =>
    later(
      url,
      `select run_id = ${runId} as is_own, count(*)::int as lines, min(line) as first, max(line) as last
       from intake_ops.run_log group by 1 order by 1`,
    )
  const others = { is_own: false, lines: 2, first: 1, last: 9_000 }
  const progress = openRunProgress({
    ...{ url, runId, teams, clock: systemClock, logger: pino({ level: 'silent' }) },
  })
  const note = (count: number) => {
    for (let line = 0; line < count; line++) progress.note({ team: 'north', stream: 'patients' }, 'a line')
  }
  note(2)
  await expect.poll(stored).toEqual([others, { is_own: true, lines: 2, first: 1, last: 2 }])
  note(299)
  await progress[Symbol.asyncDispose]()
  expect(await stored()).toEqual([others, { is_own: true, lines: 300, first: 2, last: 301 }])
})

it('processes that execute one run number the lines of its log one after another; lines below info are not kept', async () => {
  const { url, runId, teams } = await openRun()
  const shared = asWorker({ url, runId, teams })
  {
    // A run of less than a second leaves nothing.
    await using short = openRunProgress(shared)
    short.logger.info('short')
  }
  await using one = openRunProgress(shared)
  await using other = openRunProgress(shared)
  // The numbers of another run do not count.
  await query(
    url,
    `with other as (
       insert into intake_ops.runs (kind, status, options) values ('backfill', 'running', '{}') returning run_id
     )
     insert into intake_ops.run_log (run_id, line, at, level, message)
     select run_id, 70, now(), 'info', 'of another run' from other`,
  )
  const stored = async () =>
    (
      await later<{ line: string }>(
        url,
        `select concat_ws(' ', line, level, team.name, stream, message) as line
         from intake_ops.run_log left join intake.teams team using (team_id) where run_id = ${runId} order by run_log.line`,
      )
    ).map(({ line }) => line)
  expect(await stored()).toEqual([])
  one.logger.debug('not kept')
  one.logger.info({ team: 'north', stream: 'forms' }, 'first')
  one.logger.error('second')
  await expect.poll(stored).toEqual(['1 info north forms first', '2 error second'])
  other.logger.warn({ team: 'unknown' }, 'of the other')
  await expect.poll(stored).toHaveLength(3)
  one.note({ team: 'north', stream: 'forms' }, 'third')
  await expect
    .poll(stored)
    .toEqual([
      '1 info north forms first',
      ...['2 error second', '3 warn of the other', '4 info north forms third'],
    ])
})

it('a worker that lost its slice changes neither the figures nor the log of the one that has it', async () => {
  const { url, runId, teamId, teams } = await openRun()
  const [slice] = await query<{ id: string }>(
    url,
    `insert into intake_ops.slices (run_id, team_id, stream, spec, epoch) values ($1, $2, 'patients', '{}', 2) returning slice_id as id`,
    [runId, teamId],
  )
  const openWith = (epoch: string) =>
    openRunProgress({ ...asWorker({ url, runId, teams }), claimed: { sliceId: slice!.id, epoch } })
  await using lost = openWith('1')
  await using present = openWith('2')
  lost.watch(teamId, 'patients', () => ({ ...FIGURES, pages: 9 }))
  lost.logger.warn({ team: 'north', stream: 'patients' }, 'interrupted')
  present.watch(teamId, 'patients', () => FIGURES)
  present.logger.info({ team: 'north', stream: 'patients' }, 'began')
  const stored = () =>
    later(
      url,
      `select pages::int as pages, (select string_agg(message, ',') from intake_ops.run_log) as log from intake_ops.run_progress`,
    )
  await expect.poll(stored).toEqual([{ pages: 1, log: 'began' }])
  await lost[Symbol.asyncDispose]()
  expect(await stored()).toEqual([{ pages: 1, log: 'began' }])
})

it('streams of several teams have figures of their own, and each line its level, team and stream, if it names them', async () => {
  const { url, runId, teamId, teams } = await openRun()
  const [{ other }] = (await query<{ other: number }>(
    url,
    `insert into intake.teams (name) values ('south') returning team_id as other`,
  )) as [{ other: number }]
  const micros = Date.UTC(2026, 0, 1) * 1_000
  await using progress = openRunProgress({
    ...{ url, runId, teams: [...teams, { name: 'south', teamId: other }] },
    ...{ clock: { now: () => micros, sleep: systemClock.sleep }, logger: pino({ level: 'silent' }) },
  })
  const places = [
    { team_id: teamId, stream: 'forms' },
    { team_id: teamId, stream: 'patients' },
    { team_id: other, stream: 'patients' },
  ]
  for (const [at, { team_id, stream }] of places.entries())
    progress.watch(team_id, stream, () => ({ ...FIGURES, pages: at, expected: 10 * at }))
  progress.logger.info({ team: 'south', stream: 'forms' }, 'both')
  progress.logger.warn({ stream: 7 }, 'no stream')
  progress.logger.error({ team: 'nobody', stream: 'forms' }, 'no team')
  progress.logger.info('the first')
  progress.logger.info({ team: 'north' })
  progress.logger.error(new Error('no line'))
  progress.note({ team: 'north', stream: 'forms' }, 'a note')
  const stored = async () => ({
    figures: await later(
      url,
      `select progress.*, extract(epoch from updated_at)::int as updated_at, extract(epoch from began_at)::int as began_at
       from intake_ops.run_progress progress order by team_id, stream`,
    ),
    lines: await query(
      url,
      `select run_id, line, number, extract(epoch from at)::int as at, level, team_id, stream, message
       from intake_ops.run_log order by line`,
    ),
  })
  const time = micros / 1e6
  const line = (
    number: number,
    level: string,
    team_id: number | null,
    stream: string | null,
    message: string,
  ) => {
    return { run_id: runId, line: number, number, at: time, level, team_id, stream, message }
  }
  await expect.poll(stored).toEqual({
    figures: places.map((place, at) => ({
      ...{ ...FIGURES, run_id: runId, ...place, pages: String(at), expected: String(10 * at) },
      ...{ requests: '2', throttled: '0', fetched: '3', updated_at: time, began_at: time },
    })),
    lines: [
      line(1, 'info', other, 'forms', 'both'),
      line(2, 'warn', null, null, 'no stream'),
      line(3, 'error', null, 'forms', 'no team'),
      line(4, 'info', null, null, 'the first'),
      line(5, 'info', teamId, 'forms', 'a note'),
    ],
  })
})

it('the connection that a worker gives it stays open for the worker, whose other streams store with it too', async () => {
  const { url, runId, teamId, teams } = await openRun()
  await using bounded = openBoundedQueries(url, 1)
  for (const stream of ['forms', 'patients']) {
    const progress = openRunProgress({ ...asWorker({ url, runId, teams }), bounded })
    progress.watch(teamId, stream, () => FIGURES)
    const stored = `select stream from intake_ops.run_progress where stream = '${stream}'`
    await expect.poll(() => later(url, stored)).toEqual([{ stream }])
    await progress[Symbol.asyncDispose]()
  }
})

it('the figures of the end are stored after those that were on their way, and stay', async () => {
  const { url, runId, teamId, teams } = await openRun()
  await using real = openBoundedQueries(url, 1)
  let go = () => {}
  const released = new Promise<void>((resolve) => {
    go = resolve
  })
  let begun = 0
  const bounded: typeof real = {
    ...real,
    async run(look, work) {
      begun += 1
      if (begun === 1) await released
      return await real.run(look, work)
    },
  }
  const progress = openRunProgress({ ...asWorker({ url, runId, teams }), bounded })
  const now = { ...FIGURES }
  progress.watch(teamId, 'patients', () => ({ ...now }))
  progress.logger.info('first')
  vi.advanceTimersByTime(1_000)
  expect(begun).toBe(1)
  Object.assign(now, { phase: 'ended', pages: 2 })
  progress.logger.info('last')
  const ended = progress[Symbol.asyncDispose]()
  go()
  await ended
  const stored = await query(
    url,
    `select phase, pages::int, (select array_agg(message order by line) from intake_ops.run_log) as log
     from intake_ops.run_progress`,
  )
  expect(stored).toEqual([{ phase: 'ended', pages: 2, log: ['first', 'last'] }])
})
