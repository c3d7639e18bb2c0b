/** What a backfill says at its end, for people and as the document of `--json`. */
import type { BackfillSummary, TeamSummary } from '../../extract/backfill.ts'
import type { StreamReport } from '../../load/runs.ts'
import type { Context } from '../context.ts'
import { fittedTable, paragraph } from '../terminal/terminal.ts'

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

/** `streams` adds up all teams; `teams` has each by itself. */
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
  // Sums of thousandths are not thousandths.
  result.seconds = Math.round(Number(result.seconds) * 1000) / 1000
  const worst = ['failed', 'interrupted', 'needs_attention', 'succeeded'].find(
    (each) => each === sum.status || each === more.status,
  )
  result.status = worst ?? null
  result.note = [sum.note, more.note].filter((note) => note !== null).join('; ') || null
  return result
}

/** Columns that a narrow terminal can do without, the first first. */
const SPARE = [6, 4, 5, 7, 8]

export function backfillText(context: Context, summary: BackfillSummary): string {
  const head = [
    'stream',
    'fetched',
    'changed',
    'unchanged',
    'deleted',
    'set aside',
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
      ? [`${team.waiting} dead letter(s) of ${team.name} wait: see intake_ops.dead_letters`]
      : []),
  ])
  const what = summary.runId === null ? 'dry run, nothing written' : `run ${summary.runId}`
  const told = [`${what}: ${summary.status.replace('_', ' ')}`, ...notes]
  const shown = fittedTable(context, [head, ...rows], 0, SPARE)
  return `${shown}\n${told.map((line) => paragraph(context, line, 0)).join('')}`
}

function erasedOf(team: TeamSummary, several: boolean): readonly string[] {
  const parts = team.streams.filter(({ report }) => report.erased > 0)
  const told = parts.map(({ stream, report }) => `${report.erased} of ${stream}`).join(', ')
  return told === '' ? [] : [`${several ? `${team.name}: ` : ''}skipped as an erased patient's: ${told}`]
}

/** One line a note; streams that say the same, but for the path and the number of tries, share one. */
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
