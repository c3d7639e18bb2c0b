/**
 * `intake-sync runs`: the newest runs, their outcome and its reason; `runs show` how far one has come; `runs cancel` ends it.
 *
 * Invariant: listing and showing only read; where there is no warehouse, it says so and creates none.
 */
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { canceledBy, cancelRun, unknownRun } from '../../load/cancel-run.ts'
import {
  type Eta,
  etaOf,
  type LiveStream,
  type LogLine,
  progressOf,
  readLines,
  readProgress,
  readSlices,
  type ShownSlice,
} from '../../operate/health/run-live.ts'
import { type Run, readRuns, WAITING } from '../../operate/health/runs.ts'
import { type VerificationFacts, verificationFacts } from '../../operate/receipts.ts'
import { openSession } from '../../warehouse/connect.ts'
import { lockHolders } from '../../warehouse/locks.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { type Context, printJson, requireWarehouse } from '../context.ts'
import { wholeNumber } from '../options.ts'
import { colored, fittedTable, formatSeconds, minute, paragraph } from '../terminal.ts'

export function runsCommand(context: Context): Command {
  // The list has --json too, and takes it from those below it.
  const runs = listCommand(context)
  runs.addCommand(
    new Command('show')
      .description(
        'one run: its streams, how far they are, which process executes it, and the end of its log',
      )
      .argument('<id>', 'its number: see runs', wholeNumber)
      .option('--json', 'print one JSON document')
      .action((id: number, _, command: Command) => showRun(context, id, command.optsWithGlobals())),
  )
  runs.addCommand(
    new Command('cancel')
      .description('end a run: what it has loaded stays, and the next run continues')
      .argument('<id>', 'its number: see runs', wholeNumber)
      .option('--json', 'print one JSON document')
      .action((id: number, _, command: Command) => cancel(context, id, command.optsWithGlobals())),
  )
  return runs
}

function listCommand(context: Context): Command {
  return new Command('runs')
    .description('the newest runs: what they did, how they ended, and why')
    .option('--limit <number>', 'number of runs', wholeNumber, 20)
    .option('--json', 'print one JSON document')
    .action(async (options: { limit: number; json?: true }) => {
      await using warehouse = await requireWarehouse(context, readConfig(context.env))
      await requireMigrated(warehouse.url)
      const runs = await readRuns(warehouse.url, options.limit)
      if (options.json) printJson(context, { runs })
      else context.stdout.write(runs.length === 0 ? 'no run yet\n' : runsText(context, runs))
    })
}

async function showRun(context: Context, id: number, options: { json?: true }): Promise<void> {
  await using warehouse = await requireWarehouse(context, readConfig(context.env))
  await requireMigrated(warehouse.url)
  const [run] = await readRuns(warehouse.url, 1, id)
  if (run?.run_id !== id) throw unknownRun(id)
  await using session = await openSession({ url: warehouse.url, purpose: 'runs' })
  const { db } = session
  const isRunning = run.status === 'running'
  const live = progressOf(isRunning ? await readProgress(db, id) : [])
  const owner = isRunning ? await lockHolders(db, 'run', String(id)) : null
  const slices = await readSlices(db, id)
  const eta = isRunning ? etaOf(slices) : null
  const seconds_left = eta === null ? live.seconds_left : eta.seconds_left
  const log = await readLines(db, id)
  const verification = isRunning ? null : await verificationFacts(db, id)
  const shown = { ...run, owner, progress: live.streams, seconds_left, eta, slices, verification, log }
  if (options.json) printJson(context, shown)
  else context.stdout.write(runText(context, shown))
}

/** How long `cancel` waits for a run to end the batches that it is loading. */
const CANCEL_MS = 30_000
const SHOWN_LOG_LINES = 20

async function cancel(context: Context, id: number, options: { json?: true }): Promise<void> {
  await using warehouse = await requireWarehouse(context, readConfig(context.env))
  await requireMigrated(warehouse.url)
  const how = { url: warehouse.url, clock: systemClock, forMs: CANCEL_MS }
  const { status, canceled } = await cancelRun(how, id).catch((error) => {
    throw warehouseError(error)
  })
  if (options.json) printJson(context, { run_id: id, status, canceled })
  else context.stdout.write(`run ${id} ${canceledText(id, status, canceled)}\n`)
}

export function canceledText(id: number, status: string, canceled: boolean): string {
  if (status === 'running')
    return `is canceled, and still loads what it has read; see intake-sync runs show ${id}`
  if (!canceled) return `has already ended (${status})`
  return 'is canceled; what it loaded stays, and the next run continues'
}

export interface ShownRun extends Run {
  /** The session that executes it, in words; null once it has ended. */
  readonly owner: string | null
  /** Of a running run. */
  readonly progress: readonly LiveStream[]
  readonly seconds_left: number | null
  /** Of a running run that workers execute. */
  readonly eta: Eta | null
  /** Of a run that workers execute. */
  readonly slices: readonly ShownSlice[]
  /** The result of a verification that has ended: counts, no id. */
  readonly verification: VerificationFacts | null
  readonly log: readonly LogLine[]
}

export function runText(context: Context, run: ShownRun): string {
  const left = run.seconds_left === null ? '' : `, about ${formatSeconds(run.seconds_left)} left`
  const took = run.seconds === null ? '' : ` (${formatSeconds(run.seconds)}${left})`
  const first = `run ${run.run_id}, ${run.kind}: ${run.status}${took}\n`
  const owner = run.owner === null ? '' : paragraph(context, `executed by ${run.owner}`, 2)
  const head = ['stream', 'status', 'pages', 'requests', '429', 'fetched', 'of', 'changed', 'deleted']
  const ended = run.streams.map((each) => [
    `${each.team}/${each.stream}`,
    each.status,
    '',
    ...[each.requests, each.throttled, each.fetched].map(String),
    '',
    ...[each.changed, each.deleted].map(String),
  ])
  const names = new Set(ended.map(([name]) => name))
  const live = run.progress.map((each) => [
    `${each.team}/${each.stream}`,
    each.phase,
    ...[each.pages, each.requests, each.throttled, each.fetched, each.expected ?? ''].map(String),
    '',
    '',
  ])
  const rows = [...live.filter(([name]) => !names.has(name)), ...ended]
  const table = rows.length === 0 ? '' : fittedTable(context, [head, ...rows], 0)
  const lines = run.log.slice(-SHOWN_LOG_LINES).map(({ at, level, team, stream, message }) => {
    const place = stream === null ? '' : `${team ?? '-'}/${stream}: `
    return paragraph(context, `${at.slice(11, 19)} ${level} ${place}${message}`.replace(/\s+/g, ' '), 2)
  })
  const results = resultsOf(run)
  const found = results.length === 0 ? '' : fittedTable(context, results, 0)
  return `${first}${owner}${reasons(context, run)}${table}${found}${slicesText(context, run)}${lines.length === 0 ? '' : `log (UTC):\n${lines.join('')}`}`
}

/** What a verification found, and what workers rebuilt; nothing for other runs. */
function resultsOf({ kind, slices, verification }: ShownRun): readonly (readonly string[])[] {
  if (verification !== null) {
    const figures = ['source', 'warehouse', 'missing', 'extra', 'different', 'repaired'] as const
    const rows = Object.entries(verification.teams).flatMap(([team, { streams }]) =>
      Object.entries(streams).map(([stream, facts]) => {
        const counts = figures.map((figure) => String(facts[figure] ?? '-'))
        return [`${team}/${stream}`, ...counts, facts.error ?? '']
      }),
    )
    return [['stream', ...figures, ''], ...rows]
  }
  const figures = ['status', 'records', 'rewritten', 'removed']
  const rows = slices.flatMap(({ team, stream, result }) =>
    result === null ? [] : [[`${team}/${stream}`, ...figures.map((figure) => String(result[figure] ?? '-'))]],
  )
  return kind !== 'replay' || rows.length === 0 ? [] : [['stream', ...figures], ...rows]
}

/** Who executes what is not settled. */
function slicesText(context: Context, { status, slices, eta }: ShownRun): string {
  const open = slices.filter(({ state }) => state === 'pending' || state === 'claimed')
  if (status !== 'running' || open.length === 0) return ''
  const head = ['slice', 'state', 'worker', 'heard', 'taken over']
  const rows = open.map((each) => [
    each.team === null ? 'end of the run' : `${each.team}/${each.stream}`,
    each.state,
    each.owner ?? '',
    each.silent_seconds === null ? '' : `${formatSeconds(each.silent_seconds)} ago`,
    each.takeovers === 0 ? '' : String(each.takeovers),
  ])
  const count = (state: string) => slices.filter((each) => each.state === state).length
  const sum = `slices: ${count('pending')} pending, ${count('claimed')} claimed, ${count('done')} done\n`
  const left = eta === null ? '' : paragraph(context, etaText(eta), 0)
  return `${sum}${left}${fittedTable(context, [head, ...rows], 0)}`
}

export function etaText(eta: Eta): string {
  const { slices_left, slices_claimed, workers, pages, expected_pages, rate, slices_unknown } = eta
  const counted = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`
  const of = expected_pages === null ? 'an unknown number' : `about ${Math.round(expected_pages)}`
  const [factor, unit] = rate !== null && rate < 0.95 ? [60, 'minute'] : [1, 'second']
  const speed = rate === null ? '' : `; ${counted(Math.round(rate * factor * 10) / 10, 'page')} per ${unit}`
  const read = `${counted(slices_claimed, 'stream')} read by ${counted(workers, 'worker')}: ${pages} of ${of} pages${speed}`
  const whyUnknown =
    slices_unknown > 0
      ? `${counted(slices_unknown, 'stream')} without a count, and no stream of their kind read yet`
      : 'no page yet'
  const time =
    eta.seconds_left === null ? `unknown (${whyUnknown})` : `about ${formatSeconds(eta.seconds_left)}`
  return `left: ${counted(slices_left, 'stream')}; ${slices_claimed === 0 ? 'none being read' : read}; time left: ${time}`
}

export function runsText(context: Context, runs: readonly Run[]): string {
  const head = ['run', 'kind', 'status', 'started (UTC)', 'took', 'fetched', 'changed']
  const sum = ({ streams }: Run, figure: 'fetched' | 'changed') =>
    streams.reduce((total, stream) => total + stream[figure], 0)
  const rows = runs.map((run) => [
    run.run_id,
    run.kind,
    run.status,
    minute(run.started_at),
    run.seconds === null ? '-' : formatSeconds(run.seconds),
    sum(run, 'fetched'),
    sum(run, 'changed'),
  ])
  const [first, ...lines] = fittedTable(context, [head, ...rows], 1)
    .trimEnd()
    .split('\n')
  const texts = lines.map(
    (line, at) => `${coloured(context, line, runs[at]!)}\n${reasons(context, runs[at]!)}`,
  )
  return `${first}\n${texts.join('')}`
}

function coloured(context: Context, line: string, { status }: Run): string {
  if (status === 'failed') return colored(context, 'red', line)
  return status === 'needs_attention' || status === 'interrupted' ? colored(context, 'yellow', line) : line
}

function reasons(context: Context, { error, streams, is_waiting, canceled_by }: Run): string {
  const teams = new Set(streams.map(({ team }) => team))
  const by = canceled_by === null ? [] : [`${canceledBy(canceled_by)}; the next run continues`]
  const notes = streams.flatMap(({ team, stream, note }) =>
    note === null || by.includes(note) ? [] : [`${teams.size > 1 ? `${team}/` : ''}${stream}: ${note}`],
  )
  // The error is often the note of the only stream; in that of a canceled planned run, each stream says so.
  const isNote = streams.some(({ note }) => note !== null && error?.includes(note))
  const isNew = (line: string) => line.trim() !== '' && !by.some((end) => line.endsWith(end))
  const own = isNote ? [] : (error ?? '').split('\n').filter(isNew)
  return [...(is_waiting ? [WAITING] : []), ...by, ...own, ...notes]
    .map((line) => paragraph(context, line.trim().replace(/\s+/g, ' '), 4))
    .join('')
}
