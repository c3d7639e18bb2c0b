/** What the stored progress of a run means. */
import { describe, expect, it } from 'vitest'
import {
  etaOf,
  progressOf,
  readLines,
  readProgress,
  readSlices,
  type ShownSlice,
  type StoredProgress,
} from '../../../src/operate/health/run-live.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'

const stored = (over: Partial<StoredProgress>): StoredProgress => ({
  ...{ team: 'north', stream: 'patients', phase: 'fetch', pages: 3, requests: 30, throttled: 1 },
  ...{ fetched: 300, expected: 1_200, pages_left: 9, permitted_rate: 20, seconds: 3 },
  ...over,
})

it('says how much of the budget is used, and how long the longest list still takes', () => {
  const { streams, teams, seconds_left } = progressOf([
    stored({}),
    stored({ stream: 'forms', requests: 15, throttled: 0, pages_left: 3, fetched: 10, seconds: 1 }),
    stored({ stream: 'documents', phase: 'ended', requests: 0, throttled: 0, fetched: 0, pages_left: null }),
    stored({
      team: 'south',
      phase: 'plan',
      fetched: 0,
      pages: 0,
      pages_left: null,
      permitted_rate: null,
      seconds: 0,
    }),
    // Its list is read; one of the others has grown while it was read.
    stored({ team: 'west', phase: 'merge', requests: 0, permitted_rate: null, seconds: 2 }),
    stored({ team: 'west', stream: 'forms', requests: 99, fetched: 30, pages_left: 0 }),
  ])
  expect(streams.map(({ rate, seconds_left: left }) => [rate, left])).toEqual([
    [100, 9],
    [10, 1],
    [null, null],
    [null, null],
    [150, null],
    [10, 0],
  ])
  expect(teams).toEqual([
    { team: 'north', requests: 45, throttled: 1, permitted_rate: 20, rate: 15, share: 0.75 },
    { team: 'south', requests: 30, throttled: 1, permitted_rate: null, rate: 30, share: null },
    { team: 'west', requests: 99, throttled: 2, permitted_rate: 20, rate: 33, share: 1 },
  ])
  expect(seconds_left).toBe(9)
  expect(progressOf([])).toEqual({ streams: [], teams: [], seconds_left: null })
})

const slice = (over: Partial<ShownSlice>): ShownSlice => ({
  ...{
    slice_id: 1,
    team: 'north',
    stream: 'patients',
    state: 'pending',
    epoch: 1,
    owner: null,
    claimed_at: null,
    result: null,
  },
  ...{
    silent_seconds: null,
    settled_at: null,
    takeovers: 0,
    phase: null,
    pages: null,
    pages_left: null,
    fetched: null,
    expected: null,
  },
  ...{ seconds: null },
  ...over,
})
const close = slice({ team: null, stream: '' })
/** Ten pages in twenty seconds. */
const done = (stream: string) => slice({ stream, state: 'done', pages: 10, fetched: 1_000, seconds: 20 })
const claimed = (owner: string, over: Partial<ShownSlice>) =>
  slice({ state: 'claimed', owner, silent_seconds: 0, phase: 'fetch', seconds: 20, ...over })

describe('the time that a run of workers still needs', () => {
  it('follows from the pages that remain, of streams that are read or not begun, and the rate of all workers', () => {
    // 10 of 40 pages, and 10 of 20, in 20 seconds each; 10 more as the stream of the other team had.
    const slices = [
      done('forms'),
      claimed('one', { pages: 10, pages_left: 30 }),
      claimed('two', { stream: 'packets', pages: 10, pages_left: 10 }),
      slice({ team: 'south', stream: 'forms' }),
      close,
    ]
    expect(etaOf(slices)).toEqual({
      ...{ slices_left: 3, slices_claimed: 2, workers: 2, pages: 20, expected_pages: 60, rate: 1 },
      // 50 pages of two readers, and 30 of one that reads half a page in a second.
      ...{ slices_unknown: 0, seconds_left: 60 },
    })
    // The rest of any of them may take longest.
    const [first, one, two, ...rest] = slices
    expect(etaOf([first!, two!, one!, ...rest])!.seconds_left).toBe(60)
    const more = Array.from({ length: 9 }, () => slice({ team: 'south', stream: 'forms' }))
    expect(etaOf([...slices, ...more])!.seconds_left).toBe(140)
  })

  it('is unknown if a stream has no count and no team has read the same one, or if no worker reads', () => {
    const unknown = [done('forms'), claimed('one', { pages: 5, fetched: 500 }), close]
    expect(etaOf(unknown)).toMatchObject({ slices_unknown: 1, expected_pages: null, seconds_left: null })
    expect(etaOf([...unknown, done('patients')])).toMatchObject({ expected_pages: 10, seconds_left: 20 })
    const two = slice({ team: 'south', stream: 'documents' })
    expect(etaOf([...unknown, two, slice({ stream: 'messages' })])).toMatchObject({ slices_unknown: 3 })
    // Half of what two other teams had, on average.
    const lengths = [10, 30].map((pages) => ({ ...done('patients'), pages, seconds: pages * 2 }))
    expect(etaOf([...unknown, ...lengths])).toMatchObject({ expected_pages: 20 })
    // It has read more than the other team had.
    const long = claimed('one', { pages: 15, fetched: 1_500 })
    expect(etaOf([long, done('patients'), close])).toMatchObject({ expected_pages: 15, seconds_left: 0 })
    expect(etaOf([done('forms'), slice({ stream: 'forms' }), close])).toMatchObject({
      ...{ slices_left: 1, rate: null, slices_unknown: 0, seconds_left: null },
    })
    // Its worker is gone: the pages that it read do not count.
    const silent = (seconds: number) => claimed('one', { stream: 'forms', pages: 9, silent_seconds: seconds })
    expect(etaOf([done('forms'), silent(60), close])).toMatchObject({
      ...{ slices_left: 1, slices_claimed: 0, workers: 0, pages: 0, rate: null },
    })
    expect(etaOf([done('forms'), silent(59), close])).toMatchObject({
      slices_claimed: 1,
      workers: 1,
      pages: 9,
    })
    // Nor does its estimate of the pages left: the stream is estimated at ten pages, like that of the other team.
    const gone = claimed('one', { stream: 'forms', pages: 9, pages_left: 1, silent_seconds: 60 })
    const other = { stream: 'packets', pages: 10, pages_left: 10 }
    expect(etaOf([done('forms'), gone, claimed('two', other), close])!.seconds_left).toBe(40)
    // One process may read several streams.
    const several = [
      claimed('two', other),
      claimed('one', other),
      claimed('two', { ...other, team: 'south' }),
    ]
    expect(etaOf([...several, close])).toMatchObject({ slices_claimed: 3, workers: 2 })
  })

  it('of a stream that another worker has taken over follows from what this one reads, and from whole streams like it', () => {
    // 6 pages in 20 seconds, and 12 remain: those that the first worker read count neither as read nor as remaining.
    const continued = claimed('two', {
      pages: 6,
      pages_left: 12,
      fetched: 600,
      expected: 10_000,
      takeovers: 1,
    })
    expect(etaOf([continued, close])).toMatchObject({ pages: 6, expected_pages: 18, seconds_left: 40 })
    const short = { ...done('forms'), pages: 2, seconds: 4, takeovers: 1 }
    const next = slice({ team: 'south', stream: 'forms' })
    // 18 pages in 44 seconds, then 12 and 10 more.
    expect(etaOf([continued, done('forms'), short, next, close])!.seconds_left).toBeCloseTo((22 * 44) / 18)
    // Where all were taken over, what is known of them is better than nothing.
    expect(etaOf([continued, short, next, close])!.seconds_left).toBeCloseTo(14 / (8 / 24))
  })

  it('is zero if all lists are read to their end, and if the run only has to be closed', () => {
    const merging = claimed('one', { phase: 'merge', pages: 7, fetched: 700 })
    expect(etaOf([merging, close])).toMatchObject({ slices_left: 1, expected_pages: 7, seconds_left: 0 })
    expect(etaOf([done('forms'), close])).toMatchObject({ slices_left: 0, seconds_left: 0 })
    expect(etaOf([])).toBeNull()
    // A canceled slice is not read any more.
    const canceled = slice({ state: 'canceled' })
    expect(etaOf([canceled, close])).toMatchObject({ slices_left: 0, slices_unknown: 0, seconds_left: 0 })
  })
})

it('lines of the log, streams and slices are those of the run, in their order', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  const { db, client } = session
  await client.query(`
    insert into intake.teams (name) values ('south'), ('north');
    insert into intake_ops.runs (kind) values ('backfill'), ('backfill');
    insert into intake_ops.run_log (run_id, line, at, level, team_id, stream, message) values
      (1, 2, '2026-01-01T00:00:00Z', 'warn', 1, 'forms', 'second'), (1, 10, '2026-01-01T00:00:00Z', 'info', null, null, 'last'),
      (1, 1, '2026-01-01T00:00:00Z', 'info', 2, null, 'first'), (2, 3, '2026-01-01T00:00:00Z', 'info', null, null, 'of another');
    insert into intake_ops.run_progress
      (run_id, team_id, stream, phase, pages, requests, throttled, fetched, expected, began_at, updated_at, pages_left)
    values (1, 2, 'forms', 'ended', 1, 2, 3, 4, 5, '2026-01-01', '2026-01-01', 0),
      (1, 1, 'patients', 'fetch', 1, 2, 3, 4, null, '2026-01-01T00:00:09Z', '2026-01-01T00:00:10Z', 8),
      (1, 1, 'packets', 'plan', 0, 0, 0, 0, null, '2026-01-01T00:00:01Z', '2026-01-01T00:00:00Z', null),
      (1, 1, 'forms', 'fetch', 99, 2, 3, 4, null, '2026-01-01T00:00:02Z', '2026-01-01T00:00:02Z', 1),
      (2, 1, 'forms', 'fetch', 1, 2, 3, 4, 5, now(), now(), null);
    insert into intake_ops.slices (run_id, team_id, stream, spec, state, claimed_at, settled_at, heartbeat_at, result)
    select run, team, stream, '{}', state, '2026-01-01', settled::timestamptz, case state when 'claimed' then now() + interval '1 hour' end, result::jsonb
    from (values (1, 1, 'forms', 'done', '2026-01-01T00:01:00Z', '{"status": "succeeded", "requests": 7}'),
      (1, 1, 'messages', 'done', '2026-01-01T00:01:00Z', '{"status": "failed", "requests": 7}'),
      (1, 1, 'exports', 'done', '2026-01-01T00:01:00Z', '{"status": "interrupted", "requests": 7}'),
      (1, 1, 'patients', 'claimed', null, null), (1, 2, 'patients', 'pending', null, null),
      (1, 9, 'forms', 'pending', null, null), (1, null, '', 'pending', null, null),
      (2, 1, 'documents', 'pending', null, null)) as slice (run, team, stream, state, settled, result)`)
  const lines = await readLines(db, 1)
  expect(lines.map(({ message, team, stream, level }) => [message, team, stream, level])).toEqual([
    ['first', 'north', null, 'info'],
    ['second', 'south', 'forms', 'warn'],
    ['last', null, null, 'info'],
  ])
  const shown = await readProgress(db, 1)
  expect(shown.map(({ team, stream, seconds }) => [team, stream, seconds])).toEqual([
    ['south', 'packets', 0],
    ['south', 'forms', 0],
    ['south', 'patients', 1],
    ['north', 'forms', 0],
  ])
  expect(shown.map(({ pages_left }) => pages_left)).toEqual([null, 1, 8, 0])
  expect(shown[3]).toMatchObject({ pages: 1, requests: 2, throttled: 3, fetched: 4, expected: 5 })
  const slices = await readSlices(db, 1)
  // The figures of a stream whose first worker stored some, and whose last one took less than a second, are not the first's.
  // What a failed or interrupted stream asked for is no measure of its length.
  expect(slices.map(({ team, stream, pages, seconds }) => [team, stream, pages, seconds])).toEqual([
    ['south', 'forms', 7, 60],
    ['south', 'messages', null, 60],
    ['south', 'exports', null, 60],
    ['south', 'patients', 1, expect.any(Number)],
    ['north', 'patients', null, null],
    // Of a team that was removed, and the one that closes the run.
    ['9', 'forms', null, null],
    [null, '', null, null],
  ])
  expect(slices.map(({ silent_seconds }) => silent_seconds)).toEqual([null, null, null, 0, null, null, null])
})
