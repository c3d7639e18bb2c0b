/**
 * Defects: errors of our own code, such as a TypeError, after which work continues without the affected record or event.
 *
 * Invariant: a defect is never silent. It is logged with its stack, counted in intake_ops.defects (status, an alert) and
 * published for tests, which fail. Only the kind and the stack frames of the error are used: its message may quote data.
 */
import { channel } from 'node:diagnostics_channel'
import { sql } from 'kysely'
import type { Logger } from 'pino'
import type { Session } from './connect.ts'
import { stackBelow, warehouseError } from './sqlstate.ts'

/** Each defect is published here, as a `Defect`, in the process in which it occurred. */
export const DEFECTS = channel('intake-sync:defect')

export interface Defect {
  /** Name of the error's class. */
  readonly kind: string
  /** `file.ts:line` that threw it; empty where unknown. */
  readonly place: string
  /** Lines of the stack below the message. */
  readonly frames: readonly string[]
}

/** The defect that an error is, or that it has as its cause; null for errors with a known cause outside our code. */
export function defectIn(error: unknown): Defect | null {
  const { code, cause } = warehouseError(error)
  if (code !== 'internal') return null
  const thrown = cause ?? error
  if (!(thrown instanceof Error)) return { kind: typeof thrown, place: '', frames: [] }
  const frames = stackBelow(thrown)
    .split('\n')
    .flatMap((line) => (/^\s+at /.test(line) ? [line.trim()] : []))
  const place = /([\w.-]+:\d+):\d+\)?$/.exec(frames[0] ?? '')?.[1] ?? ''
  return { kind: thrown.name, place, frames }
}

export interface Reporting {
  readonly logger: Logger
  /** Teams whose events or records were being processed. */
  readonly teamIds: readonly number[]
  /** What happened instead, for the log. */
  readonly consequence: string
  readonly onDefect?: (defect: Defect) => void
}

/** Reports an error if it is a defect, with the teams and the consequence: see `Reporting`. */
export type ReportDefect = (
  session: Session,
  error: unknown,
  met: Pick<Reporting, 'teamIds' | 'consequence'>,
) => Promise<void>

/**
 * For work that is done again in smaller parts until the record or event at fault is alone: reports each defect once, by its
 * kind and place, at the first part that meets it.
 */
export function openDefectReports(to: Pick<Reporting, 'logger' | 'onDefect'>): ReportDefect {
  const known = new Set<string>()
  return async (session, error, met) => {
    const defect = defectIn(error)
    if (defect === null || known.has(`${defect.kind} ${defect.place}`)) return
    known.add(`${defect.kind} ${defect.place}`)
    await reportDefect(session, error, { ...to, ...met })
  }
}

/** Reports an error if it is a defect. Needs a session outside a transaction; never throws if the warehouse is down. */
export async function reportDefect(
  { db }: Session,
  error: unknown,
  { logger, teamIds, consequence, onDefect }: Reporting,
): Promise<void> {
  const defect = defectIn(error)
  if (defect === null) return
  const { kind, place, frames } = defect
  logger.error(
    { kind, frames },
    `a defect of intake-sync: unexpected ${kind}; ${consequence}. Please report this line`,
  )
  DEFECTS.publish(defect)
  onDefect?.(defect)
  await sql`
    insert into intake_ops.defects as known (team_id, kind, place)
    select distinct team_id, ${kind}, ${place} from unnest(${[...teamIds]}::smallint[]) as team (team_id) order by team_id
    on conflict (team_id, kind, place) do update set count = known.count + 1, last_seen = now()`
    .execute(db)
    .catch((cause: unknown) =>
      logger.warn({ code: warehouseError(cause).code }, 'the defect could not be counted'),
    )
}
