/** The words of each alert, which are all that some receivers show. */
import { expect, test } from 'vitest'
import { CAUSES, type Cause, type Figures, textsOf } from '../../../src/operate/alerts/causes.ts'

const RUNS = 'intake-sync runs shows the reason'

const TEXTS: Readonly<Record<Cause, readonly [Figures, raised: string, cleared: string, hint: string]>> = {
  backfill_failed: [
    { run_id: 7 },
    'the last backfill failed (run 7)',
    'the last backfill did not fail',
    RUNS,
  ],
  backfill_needs_attention: [
    { run_id: 7 },
    'the last backfill needs attention (run 7)',
    'the last backfill needs no attention',
    RUNS,
  ],
  backfill_overdue: [
    { hours: 1 },
    'no backfill has ended for 1 hour',
    'a backfill has ended',
    'check that cron, or serve with its schedule, is running; intake-sync runs lists the runs',
  ],
  verify_failed: [
    { run_id: 7 },
    'the last verification failed (run 7)',
    'the last verification did not fail',
    RUNS,
  ],
  verify_differs: [
    { missing: 1, extra: 2, different: 3, run_id: 7 },
    'tables differ from the service: 1 missing, 2 extra, 3 different (run 7)',
    'the last verification found no difference',
    'intake-sync verify --repair',
  ],
  replay_failed: [
    { run_id: 7 },
    'the last replay failed or needs attention (run 7)',
    'the last replay succeeded',
    RUNS,
  ],
  dead_letters: [
    { waiting: 2 },
    '2 dead letters waiting',
    'no dead letter is waiting',
    'intake-sync dead-letters list',
  ],
  drift: [
    { fields: 1 },
    'the service sent 1 unknown field or type',
    'no unknown field arrived for a week',
    'intake-sync status; their values are in _extra, their names in intake_ops.drift',
  ],
  questions_waiting: [
    { questions: 1 },
    '1 reworded question waiting for a decision',
    'no reworded question waits for a decision',
    'intake-sync classify list --waiting, then classify set; until then analysts see at most their choices',
  ],
  slices_waiting: [
    { slices: 1, minutes: 5, workers: 1, run_id: 7 },
    '1 slice of a planned run waiting for a worker for 5 minutes, 1 worker running (run 7)',
    'no slice of a planned run waits for a worker',
    'start intake-sync work, or serve, with the team in its configuration',
  ],
  defect: [
    { kinds: 2, count: 9 },
    'intake-sync failed in its own code: 2 defects, 9 times',
    'no defect occurred for a week',
    'report the lines of the log that say "a defect of intake-sync"; intake_ops.defects lists them',
  ],
  inbox_old: [
    { pending: 2, minutes: 1 },
    '2 events in the inbox, the oldest for 1 minute',
    'the inbox is drained again',
    'check that a serve that drains is running: intake-sync status, /readyz',
  ],
  webhooks_silent: [
    { events_last_day: 0 },
    'webhooks have stopped',
    'webhooks arrive again',
    'intake-sync status shows the reason; intake-sync webhooks list, webhooks test ID',
  ],
}

test.each(CAUSES)('%s says what is wrong, with its figures, what to do, and what is over', (cause) => {
  const [figures, raised, cleared, hint] = TEXTS[cause]
  const texts = textsOf(cause)
  expect([texts.raised(figures), texts.cleared, texts.hint]).toEqual([raised, cleared, hint])
})

/** Alerts that an earlier version stored may lack a figure. */
test.each<[Cause, Figures, string]>([
  ['backfill_failed', {}, 'the last backfill failed'],
  ['backfill_needs_attention', {}, 'the last backfill needs attention'],
  ['backfill_overdue', {}, 'no backfill has ended for 0 hours'],
  ['verify_failed', {}, 'the last verification failed'],
  ['verify_differs', {}, 'tables differ from the service: 0 missing, 0 extra, 0 different'],
  ['replay_failed', {}, 'the last replay failed or needs attention'],
  ['dead_letters', {}, '0 dead letters waiting'],
  ['dead_letters', { waiting: 1 }, '1 dead letter waiting'],
  ['drift', { fields: 2 }, 'the service sent 2 unknown fields or types'],
  ['drift', {}, 'the service sent 0 unknown fields or types'],
  ['questions_waiting', { questions: 2 }, '2 reworded questions waiting for a decision'],
  [
    'slices_waiting',
    { slices: 2, minutes: 1, workers: 0 },
    '2 slices of a planned run waiting for a worker for 1 minute, 0 workers running',
  ],
  ['defect', { kinds: 1, count: 1 }, 'intake-sync failed in its own code: 1 defect, 1 time'],
  ['defect', {}, 'intake-sync failed in its own code: 0 defects, 0 times'],
  ['inbox_old', { pending: 1, minutes: 2 }, '1 event in the inbox, the oldest for 2 minutes'],
  ['inbox_old', {}, '0 events in the inbox, the oldest for 0 minutes'],
])('%s says with the figures %j: %s', (cause, figures, text) => {
  expect(textsOf(cause).raised(figures)).toBe(text)
})
