/**
 * The report of a backfill, as text and as the JSON document of `--json`.
 *
 * Invariant: contains counts, notes and the reasons of failures, never a value of a record.
 */
import { waitingText } from '../../analytics/classify.ts'
import type { BackfillSummary } from '../../extract/backfill.ts'
import type { TeamSummary } from '../../extract/planned-backfill.ts'
import type { StreamReport } from '../../load/runs.ts'
import type { Context } from '../context.ts'
import { fittedTable, paragraph } from '../terminal.ts'

type Figures = Record<string, number | string | null>

function figuresOf(report: StreamReport): Figures {
  const { deadLetters, ...rest } = report
  const { requests, throttled, fetched, changed, unchanged, deleted, erased } = rest
  const { problems, seconds, status, note } = rest
  return {
    requests,
    throttled,
    fetched,
    changed,
    unchanged,
    deleted,
    erased,
    dead_letters: deadLetters,
    problems,
    seconds,
    status,
    note,
  }
}

/** `streams` sums up all teams; `teams` has each team separately. */
export function backfillDocument(summary: BackfillSummary): unknown {
  const streams: Record<string, Figures> = {}
  for (const team of summary.teams) {
    for (const { stream, report } of team.streams) streams[stream] = added(streams[stream], figuresOf(report))
  }
  const teams = summary.teams.map((team) => [
    team.name,
    {
      streams: Object.fromEntries(team.streams.map(({ stream, report }) => [stream, figuresOf(report)])),
      dead_letters_waiting: team.waiting,
      questions_waiting: waitingOf(summary, team).map(({ team: _, ...question }) => question),
    },
  ])
  const runId = summary.runId === null ? null : Number(summary.runId)
  return { run_id: runId, status: summary.status, streams, teams: Object.fromEntries(teams) }
}

function added(sum: Figures | undefined, more: Figures): Figures {
  if (sum === undefined) return more
  const result: Figures = { ...sum }
  for (const [name, value] of Object.entries(more)) {
    if (typeof value === 'number') result[name] = Number(sum[name] ?? 0) + value
  }
  // Adding binary fractions leaves a rounding error.
  result.seconds = Math.round(Number(result.seconds) * 1000) / 1000
  const worst = ['failed', 'interrupted', 'needs_attention', 'succeeded'].find(
    (each) => each === sum.status || each === more.status,
  )
  result.status = worst ?? null
  result.note = [sum.note, more.note].filter((note) => note !== null).join('; ') || null
  return result
}

function waitingOf({ waitingQuestions }: BackfillSummary, { name }: TeamSummary) {
  return waitingQuestions.filter(({ team }) => team === name)
}

/** Columns to drop on a narrow terminal, in this order. */
const SPARE = [6, 4, 5, 7, 8]

export function backfillText(context: Context, summary: BackfillSummary): string {
  const head = [
    'stream',
    'fetched',
    'changed',
    'unchanged',
    'deleted',
    'dead letters',
    'problems',
    'requests',
    'seconds',
  ]
  const several = summary.teams.length > 1
  const rows = summary.teams.flatMap((team) =>
    team.streams.map(({ stream, report }) => [
      several ? `${team.name}/${stream}` : stream,
      report.fetched,
      report.changed,
      report.unchanged,
      report.deleted,
      report.deadLetters,
      report.problems,
      report.requests,
      Number(report.seconds.toFixed(1)),
    ]),
  )
  const notes = summary.teams.flatMap((team) => [
    ...notesOf(team, several),
    ...erasedOf(team, several),
    ...(team.waiting > 0
      ? [`${team.waiting} dead letter(s) of ${team.name} waiting: see intake-sync dead-letters list`]
      : []),
    ...(waitingOf(summary, team).length > 0
      ? [`${several ? `${team.name}: ` : ''}${waitingText(waitingOf(summary, team))}`]
      : []),
  ])
  const what = summary.runId === null ? 'dry run, nothing written' : `run ${summary.runId}`
  const lines = [`${what}: ${summary.status.replace('_', ' ')}`, ...notes]
  const shown = fittedTable(context, [head, ...rows], 0, SPARE)
  return `${shown}\n${lines.map((line) => paragraph(context, line, 0)).join('')}`
}

function erasedOf(team: TeamSummary, several: boolean): readonly string[] {
  const parts = team.streams.filter(({ report }) => report.erased > 0)
  const counts = parts.map(({ stream, report }) => `${report.erased} of ${stream}`).join(', ')
  return counts === '' ? [] : [`${several ? `${team.name}: ` : ''}skipped, patient erased: ${counts}`]
}

/** One line per note. Streams whose notes differ only in the path and the number of tries share one line. */
function notesOf(team: TeamSummary, several: boolean): readonly string[] {
  const streamsOf = new Map<string, string[]>()
  for (const { stream, report } of team.streams) {
    if (report.note === null) continue
    const what = report.note.replace(/^[A-Z]+ \/\S*: /, '').replace(/, after \d+ tries/, '')
    streamsOf.set(what, [...(streamsOf.get(what) ?? []), stream])
  }
  return [...streamsOf].map(([what, streams]) => {
    const only = team.streams.find(({ stream }) => streams.length === 1 && stream === streams[0])
    return `${several ? `${team.name}: ` : ''}${streams.join(', ')}: ${only?.report.note ?? what}`
  })
}
