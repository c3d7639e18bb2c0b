/** The scheduled backfill of `serve`: the same as the command without options, reported in the log. */
import type { Logger } from 'pino'
import type { Config } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { type BackfillSummary, backfill } from '../../extract/backfill.ts'
import type { TeamSource } from '../../extract/backfill-options.ts'
import { STREAMS } from '../../streams/catalogue.ts'

export interface Place {
  /** Of the warehouse. */
  readonly url: string
  readonly config: Pick<Config, 'lookbackDays' | 'sweepDays'>
  readonly logger: Logger
  readonly version: string
}

/** Throws if the run cannot start, for example because another run holds the lock. */
export async function scheduledBackfill(
  { url, config, logger, version }: Place,
  teams: readonly TeamSource[],
  signal: AbortSignal,
  onTeamEnded: (team: string) => void = () => {},
): Promise<void> {
  logger.info({ teams: teams.map(({ name }) => name) }, 'scheduled backfill started')
  const summary = await backfill({
    ...{ url, teams, streams: STREAMS, allowMassDelete: false, dry: false, migrated: true },
    isScheduled: true,
    window: { lookbackDays: config.lookbackDays, sweepDays: config.sweepDays, full: false, since: null },
    ...{ clock: systemClock, random: Math.random, logger, signal, version },
    onProgress: () => {},
    onTeamEnded,
  })
  const level = summary.status === 'succeeded' ? 'info' : 'warn'
  logger[level](figuresOf(summary), `scheduled backfill: ${summary.status.replace('_', ' ')}`)
}

function figuresOf({ runId, teams }: BackfillSummary): Record<string, unknown> {
  const sum = (figure: 'fetched' | 'changed' | 'deleted' | 'deadLetters') =>
    teams.flatMap(({ streams }) => streams).reduce((total, { report }) => total + report[figure], 0)
  return {
    ...{ run: runId, fetched: sum('fetched'), changed: sum('changed'), deleted: sum('deleted') },
    dead_letters: sum('deadLetters'),
  }
}
