/**
 * Records of a list of which none can be asked for by its id: the list is read once more, and those that are wanted are
 * kept.
 *
 * Invariant: memory holds the wanted entries alone. An export is gone when the list misses it now and a complete list of
 * an earlier run missed it too (law 6); an entry of a log is never gone.
 */
import { sql } from 'kysely'
import type { Envelope } from '../../core/envelope.ts'
import type { Instant } from '../../core/time.ts'
import type { Source } from '../../extract/source.ts'
import { readRecord, tombstone } from '../../load/read-record.ts'
import { openSession } from '../../warehouse/connect.ts'
import type { Difference } from './find.ts'
import type { Again } from './repair.ts'

export async function relisted(source: Source, found: readonly Difference[]): Promise<Again> {
  const { client, serviceClock, stream, taken, meter, signal, clock } = source
  const place = { teamId: taken.teamId, stream: stream.name, origin: `run:${taken.runId} repair` }
  const startedAt = serviceClock.observedAt(clock.now()) as Instant
  const wanted = new Set(found.map(({ id }) => id))
  const kept = new Map<string, Envelope>()
  const resource = stream.listedAs ?? stream.list!
  for await (const page of client.pages(client.paths[stream.list!], { resource, meter, signal })) {
    const observedAt = serviceClock.observedAt(page.startedAt) as Instant
    for (const value of page.records) {
      const read = readRecord(value, { ...place, observedAt, invalidUtf8: page.invalidUtf8 })
      if (read.kind !== 'record' || !wanted.has(read.envelope.id)) continue
      const before = kept.get(read.envelope.id)
      if (before === undefined || before.version < read.envelope.version)
        kept.set(read.envelope.id, read.envelope)
    }
  }
  const missed = found.filter(({ id, kind }) => kind === 'extra' && !kept.has(id)).map(({ id }) => id)
  const gone = stream.entryAt === undefined ? await missedBefore(source, missed) : []
  return {
    envelopes: [...kept.values()],
    gone: gone.map((id) => tombstone(id, { ...place, observedAt: startedAt })),
    letters: [],
  }
}

async function missedBefore({ url, taken }: Source, ids: readonly string[]): Promise<readonly string[]> {
  await using session = await openSession({ url, purpose: 'verify --repair' })
  const { rows } = await sql<{ id: string }>`
    select id from intake_ops.missed_once
    where team_id = ${taken.teamId} and stream = ${taken.stream} and run_id <> ${taken.runId}
      and id = any(${ids}::text[])`.execute(session.db)
  return rows.map(({ id }) => id)
}
