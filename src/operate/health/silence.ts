/**
 * Whether a team's webhooks still come: what was expected against what was observed.
 *
 * Invariant: pure. A verdict has a reason in words, without a value of any event; where there is too little to go by
 * it is `unknown`, never `ok`.
 */

export type Verdict = 'ok' | 'quiet' | 'silent' | 'unknown'

/** What speaks for or against it. Counts of events leave repeated ones out. */
export interface Signs {
  /** Null when none ever came. */
  readonly lastEventAt: Date | null
  /** In the last 24 hours. */
  readonly lastDay: number
  /** Mean of the seven days before, or of as many as there are; null when there is not one whole day. */
  readonly dailyMean: number | null
  /** In the same 24 hours a week ago; null when counting began later. */
  readonly sameDayLastWeek: number | null
  /** A week ago, in the hours that have now passed without an event; null when counting began later. */
  readonly sameHoursLastWeek: number | null
  /** Events that the service lists as delivered to us, and that the inbox does not hold. */
  readonly deliveredMissing: number
  /** Events that it lists as not delivered, and that did not come later either. */
  readonly failedMissing: number
  /** Our configurations at the service, as the last backfill listed them. */
  readonly configurations: { readonly active: number; readonly inactive: number; readonly gone: number }
  /** Changes that the last backfill found although events should have told of them, when none came since the backfill before. */
  readonly untold: number
}

export interface Silence {
  readonly verdict: Verdict
  readonly reason: string
}

/** So many events are no accident any more when none come. */
const TELLING = 20
/** What a team receives in a day before an empty one says something. */
const BUSY = 10
/** Part of the expected rate below which it is quiet. */
const LITTLE = 0.25

export function judgeSilence(signs: Signs): Silence {
  const silent = silentReasons(signs)
  if (silent.length > 0) return { verdict: 'silent', reason: silent.join('; ') }
  const quiet = quietReasons(signs)
  if (quiet.length > 0) return { verdict: 'quiet', reason: quiet.join('; ') }
  const { lastEventAt, dailyMean, lastDay, configurations } = signs
  if (lastEventAt === null) {
    const what = configurations.active > 0 ? 'a webhook is configured' : 'no webhook of ours is known'
    return { verdict: 'unknown', reason: `${what}, and no event has come yet` }
  }
  if (dailyMean === null) {
    return { verdict: 'unknown', reason: 'events have not been counted for a whole day yet' }
  }
  return { verdict: 'ok', reason: `${events(lastDay)} in the last day, ${rounded(dailyMean)} a day before` }
}

function silentReasons(signs: Signs): readonly string[] {
  const { configurations, lastDay, sameHoursLastWeek, untold } = signs
  const reasons: string[] = []
  if (configurations.active === 0 && configurations.inactive > 0) {
    reasons.push('the webhook is switched off at the service')
  }
  if (configurations.active + configurations.inactive === 0 && configurations.gone > 0) {
    reasons.push('the webhook is gone from the service')
  }
  if (lastDay === 0 && expectedOf(signs) >= BUSY) {
    reasons.push(`no event in the last day, ${rounded(expectedOf(signs))} were expected`)
  } else if (sameHoursLastWeek !== null && sameHoursLastWeek >= TELLING) {
    reasons.push(`no event for hours in which ${rounded(sameHoursLastWeek)} came a week ago`)
  }
  if (untold > 0) reasons.push(`the last backfill found ${untold} changes, and no event told of any`)
  return reasons
}

function quietReasons(signs: Signs): readonly string[] {
  const { lastDay, deliveredMissing, failedMissing } = signs
  const reasons: string[] = []
  const expected = expectedOf(signs)
  if (expected >= TELLING && lastDay < expected * LITTLE) {
    reasons.push(`${events(lastDay)} in the last day, ${rounded(expected)} were expected`)
  }
  if (deliveredMissing > 0) {
    reasons.push(`${events(deliveredMissing)} that the service says it delivered did not reach the inbox`)
  }
  if (failedMissing > 0) reasons.push(`${events(failedMissing)} could not be delivered by the service`)
  return reasons
}

/** The mean, but no more than on the same day a week ago: a weekend is not a silence. */
function expectedOf({ dailyMean, sameDayLastWeek }: Signs): number {
  return Math.min(dailyMean ?? 0, sameDayLastWeek ?? Number.POSITIVE_INFINITY)
}

function events(count: number): string {
  return count === 1 ? '1 event' : `${count} events`
}

function rounded(count: number): string {
  return count < 10 ? String(Math.round(count * 10) / 10) : String(Math.round(count))
}
