/**
 * Posts alerts when a command that runs something ends or throws, for installations without `serve`.
 *
 * Invariant: never throws and never changes the exit code. The next alert round posts an alert that a few tries could
 * not post.
 */
import type { Logger } from 'pino'
import type { Config } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { runRound } from '../../operate/alerts/round.ts'
import { openWebhookChecks } from '../../operate/health/webhook-checks.ts'
import type { Context } from '../context.ts'

/** Pauses before another try, after a failed post or while another process posts. */
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
        // The user has interrupted the command and expects it to end.
        if (signal.aborted) return
        const outcome = await runRound(options, { thorough: true, insist: true })
        if (outcome === 'posted' || outcome === 'quiet' || pause === null) return
        await systemClock.sleep(pause, signal).catch(() => {})
      }
    },
  }
}
