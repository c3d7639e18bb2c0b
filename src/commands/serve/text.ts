/** The output of `serve` once it is ready, as text and as the JSON document of `--json`. Invariant: contains no secret. */
import type { Serving } from '../../operate/serve/serve.ts'

/** A part that does not run. */
export interface Off {
  readonly part: 'ingest' | 'drain' | 'refetches' | 'schedule'
  readonly why: string
}

interface Ready extends Pick<Serving, 'ingest' | 'admin' | 'next'> {
  /** Names of the teams whose webhooks are received. */
  readonly teams: readonly string[]
}

export function servingDocument({ ingest, admin, next, teams }: Ready, off: readonly Off[]): unknown {
  return {
    webhooks: ingest === null ? null : `${ingest}/webhooks`,
    teams: ingest === null ? {} : Object.fromEntries(teams.map((team) => [team, addressOf(ingest, team)])),
    admin,
    next_backfill: next?.toISOString() ?? null,
    off: Object.fromEntries(off.map(({ part, why }) => [part, why])),
  }
}

export function servingText({ ingest, admin, next, teams }: Ready, off: readonly Off[]): string {
  const [only, ...others] = teams
  const several = others.length > 0
  const lines = [
    ingest === null || several ? [] : [`ready: webhooks of ${only} at ${ingest}/webhooks`],
    ingest === null || !several
      ? []
      : teams.map((team) => `webhooks of ${team} at ${addressOf(ingest, team)}`),
    [`${ingest === null || several ? 'ready: ' : ''}health and metrics at ${admin}`],
    next === null ? [] : [`next backfill at ${next.toISOString()}`],
    off.map(({ part, why }) => `off: ${part} (${why})`),
  ]
  return `${lines.flat().join('\n')}\n`
}

function addressOf(ingest: string, team: string): string {
  return `${ingest}/webhooks/${encodeURIComponent(team)}`
}
