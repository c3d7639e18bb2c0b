/**
 * One stream of one team within a run, from its first request to its report.
 *
 * Invariant: never throws; a failure is reported in the note, without a value of the source.
 */
import type { Meter } from '../api/client.ts'
import type { IntakeError } from '../core/errors.ts'
import { loadBatch } from '../load/load.ts'
import type { Loaders } from '../load/loaders.ts'
import { compareBatch, countBatch } from '../load/merge/compare.ts'
import type { RunStatus, StreamReport } from '../load/runs.ts'
import { cursorOf, type TakenSlice, takeSlice } from '../load/slice.ts'
import type { Stream } from '../streams/stream.ts'
import { openSession, type Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import type { BackfillOptions, OpenTeam } from './backfill-options.ts'
import { newPatience } from './conflicts/fetch-by-id.ts'
import { readSlice } from './read-slice.ts'
import { SEEN_IDS_PLANNER } from './scan/seen-ids.ts'
import type { SliceNote } from './slice-note.ts'
import { emptyTally } from './source.ts'

export interface StreamRun {
  readonly options: BackfillOptions
  readonly team: OpenTeam
  readonly stream: Stream
  readonly loaders: Loaders
  /** Null for a dry run. */
  readonly runId: string | null
}

export async function runStream(run: StreamRun): Promise<StreamReport> {
  const { options, team, stream } = run
  const meter: Meter = { requests: 0, throttled: 0 }
  const tally = emptyTally()
  const begun = options.clock.now()
  const report = (status: RunStatus, note: string | null): StreamReport => ({
    status,
    ...meter,
    ...tally,
    seconds: Math.round((options.clock.now() - begun) / 1000) / 1000,
    note,
  })
  try {
    const note = await readAndLoad(run, meter, tally)
    if (note.text !== null) options.logger.warn({ team: team.name, stream: stream.name }, note.text)
    return report(note.attention ? 'needs_attention' : 'succeeded', note.text)
  } catch (error) {
    if (options.signal.aborted) return report('interrupted', 'stopped by a signal; the next run goes on')
    const failure = warehouseError(error)
    if (endsTeam(failure)) team.giveUp(failure)
    const note = failure.hint === undefined ? failure.message : `${failure.message} — ${failure.hint}`
    options.logger.error({ team: team.name, stream: stream.name, code: failure.code }, note)
    return report('failed', note)
  }
}

async function readAndLoad(
  run: StreamRun,
  meter: Meter,
  tally: ReturnType<typeof emptyTally>,
): Promise<SliceNote> {
  const { options, team, stream, loaders, runId } = run
  const { clock, logger, dry, migrated, allowMassDelete, window } = options
  // A run that gave up has lost its locks: it must not take a slice that another run may have taken.
  team.signal.throwIfAborted()
  await using session = await openSession({
    url: options.url,
    purpose: `scan ${stream.name}`,
    planner: SEEN_IDS_PLANNER,
  })
  const taken = await take(session, run)
  const source = {
    client: team.client,
    serviceClock: team.serviceClock,
    url: options.url,
    timezone: team.timezone,
    clock,
    logger,
    signal: team.signal,
    loaders,
    stream,
    taken,
    load: runId !== null ? loadBatch : migrated ? compareBatch : countBatch,
    meter,
    tally,
    patience: newPatience(),
    onProgress: options.onProgress.bind(null, team.name, stream.name),
  }
  return await readSlice(source, session, { allowMassDelete, dry, migrated, window })
}

/** A dry run takes no slice; it reads from the cursor that a run would read from. */
async function take(session: Session, { options, team, stream, runId }: StreamRun): Promise<TakenSlice> {
  const key = { teamId: team.teamId, stream: stream.name, slice: '' }
  if (runId !== null) return await takeSlice(session.db, key, runId)
  const cursor = options.migrated ? await cursorOf(session.db, key) : null
  return { ...key, epoch: '0', runId: '0', cursor, takenAt: '-infinity' }
}

/** True for an error that every stream of the team would meet: refused credentials, no permitted request. */
function endsTeam(error: IntakeError): boolean {
  const status = (error as { status?: unknown }).status
  return status === 401 || status === 403 || status === 429
}
