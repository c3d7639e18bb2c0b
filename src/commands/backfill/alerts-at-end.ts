/**
 * Alerts of a command that runs something, for those who have no `serve` beside it: told when the command ends, also
 * when it throws.
 *
 * Invariant: never throws and changes nothing of how the command ends; the run is over by then, and what could not be
 * posted after a few tries waits for whoever looks next.
 */
import type { Logger } from 'pino'
import type { Config } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { goRound } from '../../operate/alerts/round.ts'
import { openWebhookChecks } from '../../operate/health/webhook-checks.ts'
import type { Context } from '../context.ts'

/** Before another try: of a post that failed, or because another process was at it. */
const PAUSES_MS = [1_000, 3_000] as const

export function alertsAtEnd(
  { signal, version }: Pick<Context, 'signal' | 'version'>,
  { alerts, ingestTeams, inboxDays }: Pick<Config, 'alerts' | 'ingestTeams' | 'inboxDays'>,
  place: { readonly url: string; readonly logger: Logger },
): AsyncDisposable {
  return {
    async [Symbol.asyncDispose]() {
      if (alerts === null) return
      const teams = ingestTeams.map(({ name }) => name)
      const webhookChecks = openWebhookChecks({ inboxDays })
      const options = {
        ...place,
        settings: alerts,
        teams,
        webhookChecks,
        clock: systemClock,
        signal,
        version,
      }
      for (const pause of [...PAUSES_MS, null]) {
        // Who stopped it wants it to end.
        if (signal.aborted) return
        const outcome = await goRound(options, { thorough: true, insist: true })
        if (outcome === 'told' || outcome === 'quiet' || pause === null) return
        await systemClock.sleep(pause, signal).catch(() => {})
      }
    },
  }
}
