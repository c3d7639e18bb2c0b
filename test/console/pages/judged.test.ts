/** What pages say of runs and teams, without a warehouse. */
import { expect, it } from 'vitest'
import { judgeFreshness, judgeProof } from '../../../src/console/pages/overview.ts'
import { whyOf } from '../../../src/console/pages/runs.ts'
import { runBars } from '../../../src/console/pages/streams.ts'
import type { StreamTrouble } from '../../../src/operate/health/team-status.ts'
import { STREAMS } from '../../../src/streams/catalogue.ts'

const ago = (hours: number) => new Date(Date.now() - hours * 3_600_000)
const read = (stream: string, hours: number | null): StreamTrouble => ({
  ...{ team: 'north', stream, dead_letters: 0, last_run_at: ago(0), last_run_ok: true },
  last_success_at: hours === null ? null : ago(hours),
})
const everyStream = (hours: number) => STREAMS.map(({ name }) => read(name, hours))

it('a team is as fresh as the stream that was read longest ago, and stale after the limit', () => {
  expect(judgeFreshness([], 26)).toEqual({ mark: 'unknown', text: 'no backfill has succeeded yet' })
  expect(
    judgeFreshness(
      everyStream(1).map((each) => ({ ...each, last_success_at: null })),
      26,
    ).mark,
  ).toBe('unknown')
  const [first, ...others] = everyStream(3)
  expect(judgeFreshness([read(first!.stream, 25.9), ...others], 26)).toEqual({
    ...{ mark: 'good', text: 'fresh: every stream was read 26 h ago or later' },
  })
  expect(judgeFreshness([read(first!.stream, 26.1), ...others], 26)).toMatchObject({
    ...{ mark: 'bad', text: 'stale: every stream was read 26 h ago or later' },
  })
  expect(judgeFreshness([read(first!.stream, null), ...others], 26)).toEqual({
    ...{ mark: 'bad', text: '1 stream without a successful backfill' },
  })
  for (const { stream } of everyStream(1))
    expect(
      judgeFreshness([...everyStream(1).filter((each) => each.stream !== stream), read(stream, 30)], 26),
    ).toEqual({
      ...{ mark: 'bad', text: 'stale: every stream was read 30 h ago or later' },
    })
  // A stream that only webhooks load is no part of it.
  expect(judgeFreshness([...everyStream(1), read('packet_responses', 99)], 26).mark).toBe('good')
})

it('a team is proved equal since its oldest proof, unless any stream differs', () => {
  const proof = (stream: string, differences: number, hours: number) => ({
    ...{ team: 'north', stream, differences, verified_at: ago(hours) },
  })
  expect(judgeProof([])).toEqual({ mark: 'unknown', text: 'not verified yet' })
  expect(judgeProof([proof('a', 0, 1), proof('b', 0, 5), proof('c', 0, 3)])).toEqual({
    ...{ mark: 'good', text: 'proved equal to the service 5 h ago, 3 streams' },
  })
  expect(judgeProof([proof('a', 0, 1), proof('b', 2, 5), proof('c', 1, 3)])).toEqual({
    ...{ mark: 'bad', text: '3 differences in 2 streams' },
  })
  expect(judgeProof([proof('a', 0, -1)]).text).toContain('0 s ago')
})

const NOW = {
  ...{
    team: 'north',
    stream: 'forms',
    status: 'succeeded',
    requests: 1,
    throttled: 0,
    fetched: 10,
    changed: 0,
  },
  ...{ unchanged: 0, deleted: 0, erased: 0, dead_letters: 0, problems: 0, seconds: 1, note: null },
}

it.each([
  [
    'a failure is explained by its note',
    { status: 'failed', fetched: 0 },
    null,
    'it failed; the note has the reason',
  ],
  ['no request', { fetched: 0, requests: 0 }, { fetched: 5 }, 'it was not started'],
  ['no record, as before', { fetched: 0 }, { fetched: 0 }, 'the service returned no record'],
  ['no record, and none to compare with', { fetched: 0 }, null, 'the service returned no record'],
  [
    'no record, unlike before',
    { fetched: 0 },
    { fetched: 5 },
    'the service returned no record; 5 records in the run before',
  ],
  [
    'nothing changed',
    { unchanged: 10 },
    { fetched: 30 },
    'nothing to write: all 10 records were stored with the same content',
  ],
  ['nothing newer', {}, null, 'nothing was newer than what is stored'],
  ['only deletes', { deleted: 1, unchanged: 9 }, { fetched: 20 }, ''],
  ['half of before', { changed: 1 }, { fetched: 20 }, ''],
  ['less than half', { changed: 1 }, { fetched: 21 }, 'less than half of the 21 records of the run before'],
  ['nothing before', { changed: 1 }, { fetched: 0 }, ''],
])('%s', (_, now, before, why) => {
  expect(whyOf({ ...NOW, ...now }, before === null ? null : { ...NOW, ...before })).toBe(why)
})

it('a bar of a run has its changes, its time and its end', () => {
  const run = (run_id: number, status: string, changed: number) => ({
    ...{ run_id, status, changed, fetched: 0, seconds: 1, started_at: '2026-01-02T03:04:05Z' },
  })
  const all = [
    run(1, 'succeeded', 1),
    run(2, 'failed', 0),
    run(3, 'needs_attention', 5),
    run(4, 'interrupted', 2),
  ]
  expect(runBars(all)).toEqual([
    { value: 1, kind: 'good', title: 'run 1, 2026-01-02 03:04 UTC: succeeded, 1 change' },
    { value: 0, kind: 'bad', title: 'run 2, 2026-01-02 03:04 UTC: failed, 0 changes' },
    { value: 5, kind: 'warn', title: 'run 3, 2026-01-02 03:04 UTC: needs attention, 5 changes' },
    { value: 2, kind: 'warn', title: 'run 4, 2026-01-02 03:04 UTC: interrupted, 2 changes' },
  ])
})
