/**
 * The parts of a scan in tests: a source of one stream and team over a real service, warehouse and loaders.
 *
 * Invariant: each rig has a database and a service of its own; each source has its own stream, and counts from zero.
 */
import type { Client } from '../../../src/api/client.ts'
import { openServiceClock } from '../../../src/api/service-clock.ts'
import { systemClock } from '../../../src/core/clock.ts'
import type { StreamName } from '../../../src/core/envelope.ts'
import { type Instant, instantOf } from '../../../src/core/time.ts'
import { noFailedFetches } from '../../../src/extract/conflicts/fetch-by-id.ts'
import { emptyTally, type Source } from '../../../src/extract/source.ts'
import { type LoadMode, type LoadResult, loadBatch } from '../../../src/load/merge/load.ts'
import { type Loaders, openLoaders } from '../../../src/load/merge/loaders.ts'
import { firstStep } from '../../../src/load/run-progress.ts'
import { takeSlice } from '../../../src/load/slice.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { streamNamed } from '../../../src/streams/catalogue.ts'
import { openSession, PLANNER, type Session } from '../../../src/warehouse/connect.ts'
import { clientOf } from '../../api/support/service.ts'
import { type LittleService, startLittleService } from '../../e2e/support/little-service.ts'
import { silent } from '../../ingest/drain/scene.ts'
import { loadEnvelopes, rowsOf } from '../../load/loading.ts'
import { createTestDatabase } from '../../support/database.ts'
import { recordEnvelope } from '../../support/envelopes.ts'

export interface Rig extends AsyncDisposable {
  readonly url: string
  readonly session: Session
  readonly service: LittleService
  readonly client: Client
  readonly loaders: Loaders
  readonly teamId: number
  /** Another team of the warehouse, which must not affect the first. */
  readonly otherId: number
  /** A source of that stream, with a slice claimed for run 1 by default. */
  source(stream: StreamName, over?: Partial<Source> & { readonly runId?: string }): Promise<Source>
  /** Loads records as an earlier run read them at `observedAt`. */
  hold(stream: StreamName, records: readonly object[], observedAt: Instant, teamId?: number): Promise<void>
  rows<Row extends object = Record<string, unknown>>(
    statement: string,
    values?: readonly unknown[],
  ): Promise<readonly Row[]>
}

export async function openRig(): Promise<Rig> {
  const database = await createTestDatabase()
  const { url } = database
  const session = await openSession({ url, purpose: 'scan', planner: PLANNER.compare })
  const service = await startLittleService()
  const heard = clientOf(service.url)
  const loaders = openLoaders({ url, clock: systemClock })
  // One clock for all, so that a later read is later, and not only by another bound of the same clock.
  const serviceClock = openServiceClock()
  const teamId = await teamIdOf(session.db, 'default')
  const otherId = await teamIdOf(session.db, 'other')

  return {
    ...{ url, session, service, client: heard.client, loaders, teamId, otherId },
    async source(name, { runId = '1', ...over } = {}) {
      const stream = streamNamed(name)!
      const taken = await takeSlice(session.db, { teamId, stream: name, slice: '' }, runId)
      return {
        team: 'north',
        client: heard.client,
        serviceClock,
        clock: systemClock,
        logger: silent,
        signal: new AbortController().signal,
        loaders,
        url,
        timezone: 'UTC',
        stream,
        taken,
        load: loadBatch,
        meter: { requests: 0, throttled: 0 },
        tally: emptyTally(),
        step: firstStep(),
        failedFetches: noFailedFetches(),
        onProgress: () => {},
        ...over,
      }
    },
    async hold(name, records, observedAt, team = teamId) {
      const stream = streamNamed(name)!
      const taken = await takeSlice(session.db, { teamId: team, stream: name, slice: '' }, '0')
      const made = { teamId: team, stream: name, observedAt, origin: 'run:0 page:1' }
      await loadEnvelopes(
        session,
        stream,
        records.map((record) => recordEnvelope(record, made)),
        { mode: 'merge', taken },
      )
    },
    rows: (statement, values) => rowsOf(session, statement, values),
    async [Symbol.asyncDispose]() {
      await heard[Symbol.asyncDispose]()
      await service[Symbol.asyncDispose]()
      await loaders.close()
      await session.close()
      await database.drop()
    },
  }
}

/** The time `seconds` ago, or in the future if negative, on our clock. */
export function ago(seconds: number): Instant {
  return instantOf(systemClock.now() - seconds * 1_000_000)
}

/** From now on no cursor moves: who tries fails with the message "no". */
export async function refuseCursors({ rows }: Rig): Promise<void> {
  await rows(`
    create function refuse() returns trigger language plpgsql as $$ begin raise 'no' using errcode = '22012'; end $$;
    create trigger refuse before update of cursor on intake_ops.checkpoints execute function refuse()`)
}

export interface Loaded {
  readonly mode: LoadMode
  readonly ids: readonly string[]
  readonly deadLetters: readonly (string | null)[]
}

/** Loads as a run does, and records each batch. */
export function notingLoad(): { readonly batches: Loaded[]; readonly load: Source['load'] } {
  const batches: Loaded[] = []
  const load: Source['load'] = async (session, batch, mode): Promise<LoadResult> => {
    const ids = batch.lines.records
      .toString()
      .split('\n')
      .slice(0, -1)
      .map((line) => line.split('\t')[2]!)
    batches.push({ mode, ids, deadLetters: batch.deadLetters.map(({ recordId }) => recordId) })
    return loadBatch(session, batch, mode)
  }
  return { batches, load }
}
