/**
 * The alerts of `serve`: rounds for as long as it runs.
 *
 * Invariant: holds up nothing. Several processes may watch one warehouse; of those one goes round at a time.
 */
import { openNotifier } from '../../core/notifier.ts'
import { openWebhookChecks } from '../health/webhook-checks.ts'
import { goRound, type Outcome, type RoundOptions } from './round.ts'

export interface WatchOptions extends Omit<RoundOptions, 'signal' | 'webhookChecks'> {
  readonly inboxDays: number
  /** Told of each post. */
  readonly onPosted: (delivered: boolean) => void
  /** Between two rounds; a quarter of a minute when left out. */
  readonly everyMs?: number
}

export interface AlertWatch extends AsyncDisposable {
  /** Something has just ended: goes round now. */
  wake(): void
}

const EVERY_MS = 15_000
/** So many rounds apart is looked at more than the inbox. */
const THOROUGH_EVERY = 4
/** What is under way at the end is not waited for any longer: it is told by the next who looks. */
const CLOSE_MS = 5_000

/** The first round is a pause after the start: what waits from the time before is drained first. */
export function openAlerts({ onPosted, everyMs = EVERY_MS, inboxDays, ...others }: WatchOptions): AlertWatch {
  const { clock } = others
  const options = { ...others, webhookChecks: openWebhookChecks({ inboxDays }) }
  const stop = new AbortController()
  const notifier = openNotifier(clock)
  const rounds = async () => {
    for (let round = 0, seen = notifier.count; ; round += 1) {
      await notifier.wait(seen, everyMs)
      if (stop.signal.aborted) return
      const thorough = notifier.count > seen || round % THOROUGH_EVERY === 0
      seen = notifier.count
      const outcome = await goRound({ ...options, signal: stop.signal }, { thorough, insist: false })
      if (isPost(outcome)) onPosted(outcome === 'told')
    }
  }
  const done = rounds()
  return {
    wake: notifier.notify,
    [Symbol.asyncDispose]: async () => {
      stop.abort()
      notifier.notify()
      const ended = new AbortController()
      await Promise.race([done, clock.sleep(CLOSE_MS, ended.signal).catch(() => {})])
      ended.abort()
    },
  }
}

function isPost(outcome: Outcome): boolean {
  return outcome === 'told' || outcome === 'failed'
}
