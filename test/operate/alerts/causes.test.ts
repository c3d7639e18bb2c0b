/** The words of each alert, which are all that some receivers show. */
import { expect, test } from 'vitest'
import { CAUSES, type Cause, type Figures, textsOf } from '../../../src/operate/alerts/causes.ts'

const TEXTS: Readonly<Record<Cause, readonly [Figures, raised: string, cleared: RegExp, hint: RegExp]>> = {
  backfill_failed: [{ run_id: 7 }, 'the last backfill failed (run 7)', /backfill did not fail/, /sync runs/],
  backfill_needs_attention: [
    { run_id: 7 },
    'the last backfill needs attention (run 7)',
    /backfill needs no attention/,
    /sync runs/,
  ],
  backfill_overdue: [{ hours: 1 }, 'no backfill has ended for 1 hour', /backfill has ended/, /cron/],
  verify_failed: [{ run_id: 7 }, 'the last verification failed (run 7)', /verification did not/, /sync runs/],
  verify_differs: [
    { missing: 1, extra: 2, different: 3, run_id: 7 },
    'tables differ from the service: 1 missing, 2 extra, 3 different (run 7)',
    /no difference/,
    /verify --repair/,
  ],
  replay_failed: [
    { run_id: 7 },
    'the last replay failed or needs attention (run 7)',
    /replay succeeded/,
    /sync runs/,
  ],
  dead_letters: [{ waiting: 2 }, '2 dead letters waiting', /no dead letter/, /dead-letters list/],
  drift: [{ fields: 1 }, 'the service sent 1 unknown field or type', /unknown field/, /intake_ops\.drift/],
  questions_waiting: [
    { questions: 1 },
    '1 reworded question waiting for a decision',
    /no reworded question/,
    /classify list --waiting/,
  ],
  slices_waiting: [
    { slices: 1, minutes: 5, workers: 1, run_id: 7 },
    '1 slice of a planned run waiting for a worker for 5 minutes, 1 worker running (run 7)',
    /no slice/,
    /start intake-sync work/,
  ],
  defect: [
    { kinds: 2, count: 9 },
    'intake-sync failed in its own code: 2 defects, 9 times',
    /no defect/,
    /intake_ops\.defects/,
  ],
  inbox_old: [
    { pending: 2, minutes: 1 },
    '2 events in the inbox, the oldest for 1 minute',
    /drained again/,
    /drains/,
  ],
  webhooks_silent: [{ events_last_day: 0 }, 'webhooks have stopped', /arrive again/, /webhooks test/],
}

test.each(CAUSES)('%s says what is wrong, with its figures, what to do, and what is over', (cause) => {
  const [figures, raised, cleared, hint] = TEXTS[cause]
  const texts = textsOf(cause)
  expect(texts.raised(figures)).toBe(raised)
  expect(texts.cleared).toMatch(cleared)
  expect(texts.hint).toMatch(hint)
})
