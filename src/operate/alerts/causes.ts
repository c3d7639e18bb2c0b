/**
 * What is worth telling somebody who does not look, and the words for it.
 *
 * Invariant: an alert holds names of teams and streams, counts and the number of a run; no path, id or value.
 */

export type Figures = Readonly<Record<string, number>>

/** Something that is wrong now. */
export interface Condition {
  readonly team: string
  readonly cause: Cause
  /** Empty where it is a matter of the whole team. */
  readonly stream: string
  /** How many different ones there are, where more of them are told again; else null. */
  readonly mark: number | null
  readonly figures: Figures
}

interface Words {
  readonly raised: (figures: Figures) => string
  readonly cleared: string
  readonly hint: string
}

const run = ({ run_id }: Figures) => (run_id === undefined ? '' : ` (run ${run_id})`)
const counted = (count = 0, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`

const WORDS = {
  backfill_failed: {
    raised: (figures) => `the last backfill failed${run(figures)}`,
    cleared: 'the last backfill did not fail',
    hint: 'intake-sync runs says why',
  },
  backfill_needs_attention: {
    raised: (figures) => `the last backfill needs a person${run(figures)}`,
    cleared: 'the last backfill needs nobody',
    hint: 'intake-sync runs says why',
  },
  backfill_overdue: {
    raised: ({ hours = 0 }) => `no backfill has ended for ${counted(hours, 'hour')}`,
    cleared: 'a backfill has ended',
    hint: 'see whether cron, or serve with its schedule, runs; intake-sync runs says what did',
  },
  verify_failed: {
    raised: (figures) => `the last verification failed${run(figures)}`,
    cleared: 'the last verification did not fail',
    hint: 'intake-sync runs says why',
  },
  verify_differs: {
    raised: ({ missing = 0, extra = 0, different = 0, ...figures }) =>
      `tables differ from the service: ${missing} missing, ${extra} extra, ${different} different${run(figures)}`,
    cleared: 'the last verification found no difference',
    hint: 'intake-sync verify --repair',
  },
  replay_failed: {
    raised: (figures) => `the last replay failed or needs a person${run(figures)}`,
    cleared: 'the last replay succeeded',
    hint: 'intake-sync runs says why',
  },
  dead_letters: {
    raised: ({ waiting }) => `${counted(waiting, 'dead letter')} wait for a person`,
    cleared: 'no dead letter waits',
    hint: 'intake-sync dead-letters list',
  },
  drift: {
    raised: ({ fields }) => `${counted(fields, 'field')} or types of the service are not known here`,
    cleared: 'what is not known here did not come for a week',
    hint: 'intake-sync status; they are kept in _extra and in intake_ops.drift',
  },
  defect: {
    raised: ({ kinds = 0, count = 0 }) =>
      `intake-sync failed in its own code: ${counted(kinds, 'defect')}, ${count} times`,
    cleared: 'no defect occurred for a week',
    hint: 'report the lines of the log that say "a defect of intake-sync"; intake_ops.defects lists them',
  },
  inbox_old: {
    raised: ({ pending, minutes = 0 }) =>
      `${counted(pending, 'event')} in the inbox, the oldest for ${counted(minutes, 'minute')}`,
    cleared: 'the inbox is drained again',
    hint: 'see whether a serve that drains runs: intake-sync status, /readyz',
  },
  webhooks_silent: {
    raised: () => 'webhooks have fallen silent',
    cleared: 'webhooks come again',
    hint: 'intake-sync status says why; intake-sync webhooks list, webhooks test ID',
  },
} as const satisfies Record<string, Words>

export type Cause = keyof typeof WORDS

export const CAUSES = Object.keys(WORDS) as readonly Cause[]

export function wordsOf(cause: Cause): Words {
  return WORDS[cause]
}

export function keyOf({ team, cause, stream }: Pick<Condition, 'team' | 'cause' | 'stream'>): string {
  return `${team} ${cause} ${stream}`
}
