/**
 * Logs how many requests were refused, by reason, at most once a minute: enough to notice a wrong secret, without a line
 * for each request of an attacker. Invariant: a line contains counts and reasons only.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import type { Rejection } from '../watch.ts'

const PAUSE_MICROSECONDS = 60_000_000

export interface RefusalLog {
  add(reason: Rejection): void
}

export function openRefusalLog(clock: Clock, logger: Logger): RefusalLog {
  let refused: Partial<Record<Rejection, number>> = {}
  let saidAt = Number.NEGATIVE_INFINITY
  return {
    add(reason) {
      refused[reason] = (refused[reason] ?? 0) + 1
      if (clock.now() - saidAt < PAUSE_MICROSECONDS) return
      saidAt = clock.now()
      logger.warn({ refused }, 'webhook requests were refused since the last such line')
      refused = {}
    },
  }
}
