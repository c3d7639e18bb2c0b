/**
 * The causes of alerts, with their texts and hints.
 *
 * Invariant: an alert contains names of teams and streams, counts and the id of a run; no path, record id or value.
 */

import { WAITING_SLICES_HINT } from '../health/runs.ts'

export type Figures = Readonly<Record<string, number>>

export interface Condition {
  readonly team: string
  readonly cause: Cause
  /** Empty if the condition concerns the whole team. */
  readonly stream: string
  /** A count that triggers another post when it grows; null for a condition that is posted once. */
  readonly mark: number | null
  readonly figures: Figures
}

interface Texts {
  readonly raised: (figures: Figures) => string
  readonly cleared: string
  readonly hint: string
}

const run = ({ run_id }: Figures) => (run_id === undefined ? '' : ` (run ${run_id})`)
const counted = (count = 0, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`

const TEXTS = {
  backfill_failed: {
    raised: (figures) => `the last backfill failed${run(figures)}`,
    cleared: 'the last backfill did not fail',
    hint: 'intake-sync runs shows the reason',
  },
  backfill_needs_attention: {
    raised: (figures) => `the last backfill needs attention${run(figures)}`,
    cleared: 'the last backfill needs no attention',
    hint: 'intake-sync runs shows the reason',
  },
  backfill_overdue: {
    raised: ({ hours = 0 }) => `no backfill has ended for ${counted(hours, 'hour')}`,
    cleared: 'a backfill has ended',
    hint: 'check that cron, or serve with its schedule, is running; intake-sync runs lists the runs',
  },
  verify_failed: {
    raised: (figures) => `the last verification failed${run(figures)}`,
    cleared: 'the last verification did not fail',
    hint: 'intake-sync runs shows the reason',
  },
  verify_differs: {
    raised: ({ missing = 0, extra = 0, different = 0, ...figures }) =>
      `tables differ from the service: ${missing} missing, ${extra} extra, ${different} different${run(figures)}`,
    cleared: 'the last verification found no difference',
    hint: 'intake-sync verify --repair',
  },
  replay_failed: {
    raised: (figures) => `the last replay failed or needs attention${run(figures)}`,
    cleared: 'the last replay succeeded',
    hint: 'intake-sync runs shows the reason',
  },
  dead_letters: {
    raised: ({ waiting }) => `${counted(waiting, 'dead letter')} waiting`,
    cleared: 'no dead letter is waiting',
    hint: 'intake-sync dead-letters list',
  },
  drift: {
    raised: ({ fields }) =>
      `the service sent ${counted(fields, 'unknown field')} or ${fields === 1 ? 'type' : 'types'}`,
    cleared: 'no unknown field arrived for a week',
    hint: 'intake-sync status; their values are in _extra, their names in intake_ops.drift',
  },
  questions_waiting: {
    raised: ({ questions }) => `${counted(questions, 'reworded question')} waiting for a decision`,
    cleared: 'no reworded question waits for a decision',
    hint: 'intake-sync classify list --waiting, then classify set; until then analysts see at most their choices',
  },
  slices_waiting: {
    raised: ({ slices, minutes = 0, workers, ...figures }) =>
      `${counted(slices, 'slice')} of a planned run waiting for a worker for ${counted(minutes, 'minute')}, ${counted(workers, 'worker')} running${run(figures)}`,
    cleared: 'no slice of a planned run waits for a worker',
    hint: WAITING_SLICES_HINT,
  },
  defect: {
    raised: ({ kinds = 0, count = 0 }) =>
      `intake-sync failed in its own code: ${counted(kinds, 'defect')}, ${counted(count, 'time')}`,
    cleared: 'no defect occurred for a week',
    hint: 'report the lines of the log that say "a defect of intake-sync"; intake_ops.defects lists them',
  },
  inbox_old: {
    raised: ({ pending, minutes = 0 }) =>
      `${counted(pending, 'event')} in the inbox, the oldest for ${counted(minutes, 'minute')}`,
    cleared: 'the inbox is drained again',
    hint: 'check that a serve that drains is running: intake-sync status, /readyz',
  },
  webhooks_silent: {
    raised: () => 'webhooks have stopped',
    cleared: 'webhooks arrive again',
    hint: 'intake-sync status shows the reason; intake-sync webhooks list, webhooks test ID',
  },
} as const satisfies Record<string, Texts>

export type Cause = keyof typeof TEXTS

export const CAUSES = Object.keys(TEXTS) as readonly Cause[]

export function textsOf(cause: Cause): Texts {
  return TEXTS[cause]
}

export function keyOf({ team, cause, stream }: Pick<Condition, 'team' | 'cause' | 'stream'>): string {
  return `${team} ${cause} ${stream}`
}
