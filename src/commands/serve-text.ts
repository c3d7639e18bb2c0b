/** What `serve` says once it is ready, for people and as the document of `--json`. Invariant: holds no secret. */
import type { Serving } from '../operate/serve.ts'

/** A part that does not run. */
export interface Off {
  readonly part: 'ingest' | 'drain' | 'refetches' | 'schedule'
  readonly why: string
}

type Ready = Pick<Serving, 'ingest' | 'admin' | 'next'>

export function servingDocument({ ingest, admin, next }: Ready, off: readonly Off[]): unknown {
  return {
    webhooks: ingest === null ? null : `${ingest}/webhooks`,
    admin,
    next_backfill: next?.toISOString() ?? null,
    off: Object.fromEntries(off.map(({ part, why }) => [part, why])),
  }
}

export function servingText({ ingest, admin, next }: Ready, off: readonly Off[]): string {
  const lines = [
    ingest === null ? [] : [`ready: webhooks at ${ingest}/webhooks`],
    [`${ingest === null ? 'ready: ' : ''}health and metrics at ${admin}`],
    next === null ? [] : [`next backfill at ${next.toISOString()}`],
    off.map(({ part, why }) => `off: ${part} (${why})`),
  ]
  return `${lines.flat().join('\n')}\n`
}
