/**
 * The alerts of `serve`: a round at each interval, and after each run.
 *
 * Invariant: no other part waits for a round. Several processes may watch one warehouse; one of them runs a round at a
 * time.
 */
import { openNotifier } from '../../core/notifier.ts'
import { openWebhookChecks } from '../health/webhook-checks.ts'
import { type Outcome, type RoundOptions, runRound } from './round.ts'

export interface WatchOptions extends Omit<RoundOptions, 'signal' | 'webhookChecks'> {
  readonly inboxDays: number
  /** Called after each post. */
  readonly onPosted: (delivered: boolean) => void
  /** Interval of rounds. Default: 15 seconds. */
  readonly everyMs?: number
}

export interface AlertWatch extends AsyncDisposable {
  /** Starts a thorough round now, for example when a run has ended. */
  wake(): void
}

const EVERY_MS = 15_000
/** Each fourth round is thorough; the others judge only the inbox. */
const THOROUGH_EVERY = 4
/** Closing waits this long for a round in progress. The next round, of any process, posts the rest. */
const CLOSE_MS = 5_000

/** The first round starts after one interval, so that events from before the start are drained first. */
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
      const outcome = await runRound({ ...options, signal: stop.signal }, { thorough, insist: false })
      if (isPost(outcome)) onPosted(outcome === 'posted')
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
  return outcome === 'posted' || outcome === 'failed'
}
