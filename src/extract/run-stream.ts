/**
 * One stream of one team within a run, from its first request to its report.
 *
 * Invariant: never throws; a failure is reported in the note, without a value of the source.
 */
import type { Meter } from '../api/client.ts'
import type { IntakeError } from '../core/errors.ts'
import { instantOf } from '../core/time.ts'
import { whyStopped } from '../load/cancel-run.ts'
import { compareBatch, countBatch, loadBatch } from '../load/merge/load.ts'
import type { Loaders } from '../load/merge/loaders.ts'
import { type Figures, firstStep, type RunProgress } from '../load/run-progress.ts'
import type { RunStatus, StreamReport } from '../load/runs.ts'
import { cursorOf, type TakenSlice, takeSlice, untakenSlice } from '../load/slice.ts'
import type { Stream } from '../streams/stream.ts'
import { openSession, PLANNER, type Session } from '../warehouse/connect.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import type { BackfillOptions, OpenTeam } from './backfill-options.ts'
import { noFailedFetches } from './conflicts/fetch-by-id.ts'
import { fetchDue } from './conflicts/round.ts'
import { laterNote } from './conflicts/settle-conflicts.ts'
import { readExports } from './reading/read-exports.ts'
import { readList } from './reading/read-list.ts'
import { readWindows } from './reading/read-windows.ts'
import { readCheckpoint } from './reading/window.ts'
import { everythingNote, joinNotes, type SliceNote, type SliceOptions } from './slice-note.ts'
import { emptyTally, type Source, type Tally } from './source.ts'

export interface StreamRun {
  readonly options: BackfillOptions
  readonly team: OpenTeam
  readonly stream: Stream
  readonly loaders: Loaders
  /** Null for a dry run. */
  readonly runId: string | null
  readonly progress: RunProgress
  /** Of a worker that has claimed the slice; otherwise the slice is taken here. */
  readonly claimed?: { readonly taken: TakenSlice; readonly worker: string }
}

export async function runStream(run: StreamRun): Promise<StreamReport> {
  const { options, team, stream } = run
  const meter: Meter = { requests: 0, throttled: 0 }
  const tally = emptyTally()
  const step = firstStep()
  run.progress.watch(team.teamId, stream.name, () => figuresOf({ meter, tally, step, client: team.client }))
  const begun = options.clock.now()
  const place = { team: team.name, stream: stream.name }
  run.progress.note(place, 'began')
  const report = (status: RunStatus, note: string | null): StreamReport => {
    const counts = onceEach(tally)
    const { fetched, changed, deleted } = counts
    run.progress.note(place, `${status}: ${fetched} fetched, ${changed} changed, ${deleted} deleted`)
    const seconds = Math.round((options.clock.now() - begun) / 1000) / 1000
    return { status, ...meter, ...counts, seconds, note }
  }
  try {
    const note = await readAndLoad(run, { meter, tally, step })
    if (note.text !== null) options.logger.warn(place, note.text)
    return report(note.attention ? 'needs_attention' : 'succeeded', note.text)
  } catch (error) {
    if (options.signal.aborted)
      return report('interrupted', `${whyStopped(options.signal)}; the next run continues`)
    const failure = warehouseError(error)
    if (endsTeam(failure)) team.giveUp(failure)
    const note = failure.hint === undefined ? failure.message : `${failure.message} — ${failure.hint}`
    options.logger.error({ ...place, code: failure.code }, note)
    return report('failed', note)
  } finally {
    step.phase = 'ended'
  }
}

/** How far a source has come. */
export function figuresOf({
  meter: { requests, throttled },
  tally,
  step: { phase, pages, expected, pagesLeft },
  client,
}: Pick<Source, 'meter' | 'tally' | 'step'> & {
  readonly client: Pick<Source['client'], 'permittedRate'>
}): Figures {
  const counts = { requests, throttled, ...onceEach(tally) }
  const { fetched } = tally
  const list = { phase, pages, expected, pages_left: pagesLeft }
  return { ...list, requests, throttled, fetched, counts, permitted_rate: client.permittedRate }
}

async function readAndLoad(
  run: StreamRun,
  counted: Pick<Source, 'meter' | 'tally' | 'step'>,
): Promise<SliceNote> {
  const { options, team, stream, loaders, runId } = run
  const { dry, migrated, allowMassDelete, window } = options
  // A run that gave up has lost its locks: it must not take a slice that another run may have taken.
  team.signal.throwIfAborted()
  await using session = await openSession({
    url: options.url,
    purpose: `scan ${stream.name}`,
    planner: PLANNER.compare,
    worker: run.claimed?.worker,
  })
  const taken = run.claimed?.taken ?? (await take(session, run))
  const load = runId !== null ? loadBatch : migrated ? compareBatch : countBatch
  const source = sourceOf(options, team, { stream, taken, loaders, load, ...counted })
  return await readSlice(source, session, { allowMassDelete, dry, migrated, window })
}

/** The source of one stream of a team, for a run or a verification. */
export function sourceOf(
  { url, clock, logger, onProgress }: Pick<BackfillOptions, 'url' | 'clock' | 'logger' | 'onProgress'>,
  { name, client, serviceClock, signal, timezone }: OpenTeam,
  reading: Pick<Source, 'stream' | 'taken' | 'loaders'> &
    Partial<Pick<Source, 'load' | 'meter' | 'tally' | 'step'>>,
): Source {
  return {
    team: name,
    client,
    serviceClock,
    clock,
    logger,
    signal,
    url,
    timezone,
    load: loadBatch,
    meter: { requests: 0, throttled: 0 },
    tally: emptyTally(),
    step: firstStep(),
    failedFetches: noFailedFetches(),
    onProgress: onProgress.bind(null, name, reading.stream.name),
    ...reading,
  }
}

/** A dry run takes no slice; it reads from the cursor that a run would read from. */
async function take(session: Session, { options, team, stream, runId }: StreamRun): Promise<TakenSlice> {
  const key = { teamId: team.teamId, stream: stream.name, slice: '' }
  if (runId !== null) return await takeSlice(session.db, key, runId)
  return untakenSlice(key, '0', options.migrated ? await cursorOf(session.db, key) : null)
}

/**
 * Counts each record once: a list that changes is read again, and then lists unchanged what this run loaded before; and
 * some records are fetched by id, which no list contained.
 */
function onceEach(tally: Tally): Tally {
  const fetched = Math.max(tally.fetched, tally.changed)
  return { ...tally, fetched, unchanged: Math.min(tally.unchanged, fetched - tally.changed) }
}

/** True for an error that every stream of the team would meet: refused credentials, no permitted or answered request. */
function endsTeam(error: IntakeError): boolean {
  const { status, gaveUp } = error as { status?: unknown; gaveUp?: unknown }
  return status === 401 || status === 403 || status === 429 || gaveUp === true
}

/** Reads a slice by its stream's way of reading: whole list, date windows or exports. */
export async function readSlice(source: Source, session: Session, options: SliceOptions): Promise<SliceNote> {
  const note = await readByKind(source, session, options)
  // After the list: a failure here leaves the records that were read.
  if (!options.dry && source.stream.one !== null) await fetchDue(source)
  const later = laterNote(source)
  return later.text === null ? note : joinNotes(note, later)
}

async function readByKind(source: Source, session: Session, options: SliceOptions): Promise<SliceNote> {
  const { reading } = source.stream
  if (reading?.kind === 'windows') return readWindows(source, session, options, reading)
  // Whole lists are read whatever the checkpoint is; an invalid one is reported and replaced all the same.
  const checkpoint = readCheckpoint(source.taken.cursor, instantOf(source.clock.now()))
  const note = await (reading?.kind === 'files' ? readExports : readList)(source, session, options)
  return checkpoint.kind === 'good' ? note : joinNotes(everythingNote(checkpoint.reason), note)
}
