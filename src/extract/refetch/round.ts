/**
 * One round of a team: takes records that are due, asks for all of them side by side under the team's request budget,
 * and settles the answers stream by stream.
 *
 * Invariant: whatever ends a round early leaves its rows due again.
 */

import type { Clock } from '../../core/clock.ts'
import type { StreamName } from '../../core/streams.ts'
import type { Instant } from '../../core/time.ts'
import type { Loaders } from '../../load/loaders.ts'
import { streamNamed } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import { type Asked, ask } from './ask.ts'
import { type DueRow, putOff, takeDue } from './due-rows.ts'
import { type Answered, settleAnswers } from './settle-answers.ts'

export interface RoundReport {
  readonly records: number
  readonly gone: number
  /** Why the service answered nothing at all; null when it answered something, or was asked for nothing. */
  readonly failure: string | null
}

/** Records asked for side by side; the answers are held until all are there. */
const MOST = 50

export async function refetchRound(
  { teamId, loaders, clock }: { readonly teamId: number; readonly loaders: Loaders; readonly clock: Clock },
  asked: Asked,
  streams: readonly StreamName[],
): Promise<RoundReport> {
  const rows = await loaders.run(({ db }) => takeDue(db, teamId, streams, MOST))
  const open = new Set(rows)
  try {
    const answers = await Promise.all(
      rows.map(async (row): Promise<Answered & { stream: Stream }> => {
        const stream = streamNamed(row.stream)!
        return { row, stream, told: await ask(asked, stream, row) }
      }),
    )
    for (const stream of new Set(answers.map((answer) => answer.stream))) {
      const parts = answers.filter((answer) => answer.stream === stream)
      const present = asked.serviceClock.observedAt(clock.now()) as Instant
      await loaders.run((session) => settleAnswers(session, stream, parts, present))
      for (const { row } of parts) open.delete(row)
    }
    const failed = answers.flatMap(({ told }) => (told.kind === 'failed' ? [told.error.message] : []))
    const gone = answers.filter(({ told }) => told.kind === 'gone').length
    return {
      records: rows.length,
      gone,
      failure: rows.length > 0 && failed.length === rows.length ? failed[0]! : null,
    }
  } catch (error) {
    await release(loaders, [...open])
    throw error
  }
}

/** Without the warehouse the lease ends by itself. */
async function release(loaders: Loaders, rows: readonly DueRow[]): Promise<void> {
  await loaders.run(({ db }) => putOff(db, rows, () => 0, false)).catch(() => {})
}
