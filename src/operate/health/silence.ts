/**
 * Judges whether a team's webhooks still arrive, by comparing expected with observed events.
 *
 * Invariant: pure. The reason contains no value of an event. Without any event in the last day and without an expectation
 * the verdict is `unknown`, never `ok`.
 */

export type SilenceVerdict = 'ok' | 'quiet' | 'silent' | 'unknown'

/** Counts of events exclude duplicates. */
export interface Signs {
  /** Null if no event ever arrived. */
  readonly lastEventAt: Date | null
  /** In the last 24 hours. */
  readonly lastDay: number
  /** Mean of the previous seven days, or of the days since counting began; null before one whole day. */
  readonly dailyMean: number | null
  /** In the same 24 hours a week ago; null if counting began later. */
  readonly sameDayLastWeek: number | null
  /** A week ago, in the hours that have now passed without an event; null if counting began later. */
  readonly sameHoursLastWeek: number | null
  /** Events that the service lists as delivered and that are not in the inbox. */
  readonly deliveredMissing: number
  /** Events that the service lists as not delivered and that are not in the inbox. */
  readonly failedMissing: number
  /** Webhook configurations that send to this warehouse, as of the last backfill. */
  readonly configurations: { readonly active: number; readonly inactive: number; readonly gone: number }
  /** Changes that the last backfill found although events should have reported them; 0 if any event arrived. */
  readonly unreported: number
}

export interface Silence {
  readonly verdict: SilenceVerdict
  readonly reason: string
}

/** Expected events from which their absence is significant. */
const SIGNIFICANT = 20
/** Expected events a day from which a day without events is silence. */
const SIGNIFICANT_DAY = 10
/** Share of the expected rate below which the verdict is `quiet`. */
const QUIET_SHARE = 0.25

export function judgeSilence(signs: Signs): Silence {
  const silent = silentReasons(signs)
  if (silent.length > 0) return { verdict: 'silent', reason: silent.join('; ') }
  const quiet = quietReasons(signs)
  if (quiet.length > 0) return { verdict: 'quiet', reason: quiet.join('; ') }
  const { lastEventAt, dailyMean, lastDay, configurations } = signs
  if (lastEventAt === null) {
    const what = configurations.active > 0 ? 'a webhook is configured' : 'no webhook is known'
    return { verdict: 'unknown', reason: `${what}, and no event has arrived yet` }
  }
  if (dailyMean === null) {
    const reason = `${events(lastDay)} so far; how many to expect is known after a whole day`
    return { verdict: lastDay > 0 ? 'ok' : 'unknown', reason }
  }
  return { verdict: 'ok', reason: `${events(lastDay)} in the last day, ${rounded(dailyMean)} a day before` }
}

function silentReasons(signs: Signs): readonly string[] {
  const { configurations, lastDay, sameHoursLastWeek, unreported } = signs
  const reasons: string[] = []
  if (configurations.active === 0 && configurations.inactive > 0) {
    reasons.push('the webhook is disabled at the service')
  }
  if (configurations.active + configurations.inactive === 0 && configurations.gone > 0) {
    reasons.push('the webhook no longer exists at the service')
  }
  if (lastDay === 0 && expectedOf(signs) >= SIGNIFICANT_DAY) {
    reasons.push(`no event in the last day, ${rounded(expectedOf(signs))} were expected`)
  } else if (sameHoursLastWeek !== null && sameHoursLastWeek >= SIGNIFICANT) {
    reasons.push(`no event for hours in which ${rounded(sameHoursLastWeek)} arrived a week ago`)
  }
  if (unreported > 0) reasons.push(`the last backfill found ${unreported} changes that no event reported`)
  return reasons
}

function quietReasons(signs: Signs): readonly string[] {
  const { lastDay, deliveredMissing, failedMissing } = signs
  const reasons: string[] = []
  const expected = expectedOf(signs)
  if (expected >= SIGNIFICANT && lastDay < expected * QUIET_SHARE) {
    reasons.push(`${events(lastDay)} in the last day, ${rounded(expected)} were expected`)
  }
  if (deliveredMissing > 0) {
    reasons.push(`${events(deliveredMissing)} that the service lists as delivered did not reach the inbox`)
  }
  if (failedMissing > 0) reasons.push(`the service could not deliver ${events(failedMissing)}`)
  return reasons
}

/** The mean, but at most the count of the same day a week ago, so that a weekend is not silence. */
function expectedOf({ dailyMean, sameDayLastWeek }: Signs): number {
  return Math.min(dailyMean ?? 0, sameDayLastWeek ?? Number.POSITIVE_INFINITY)
}

function events(count: number): string {
  return count === 1 ? '1 event' : `${count} events`
}

function rounded(count: number): string {
  return count < 10 ? String(Math.round(count * 10) / 10) : String(Math.round(count))
}
