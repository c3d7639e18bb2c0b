/** The report of a replay, as text and as the JSON document of `--json`. */
import type { ReplayReport, ReplaySummary } from '../../reconcile/replay/replay.ts'
import type { InboxReplayed } from '../../reconcile/replay/replay-inbox.ts'
import type { Context } from '../context.ts'
import { table } from '../terminal/table.ts'
import { fittedTable, paragraph } from '../terminal/terminal.ts'

type Figures = Omit<ReplayReport, 'seconds' | 'note'> & {
  readonly seconds: number
  readonly note: string | null
}

/** `streams` sums up all teams; `teams` has each team separately. */
export function replayDocument(summary: ReplaySummary): unknown {
  const streams: Record<string, Figures> = {}
  for (const team of summary.teams) {
    for (const { stream, report } of team.streams) streams[stream] = added(streams[stream], report)
  }
  const teams = summary.teams.map((team) => [
    team.name,
    { streams: Object.fromEntries(team.streams.map(({ stream, report }) => [stream, report])) },
  ])
  return {
    run_id: Number(summary.runId),
    status: summary.status,
    streams,
    teams: Object.fromEntries(teams),
  }
}

function added(sum: Figures | undefined, more: Figures): Figures {
  if (sum === undefined) return more
  const worst = (['failed', 'interrupted', 'needs_attention'] as const).find((status) =>
    [sum.status, more.status].includes(status),
  )
  return {
    status: worst ?? 'succeeded',
    records: sum.records + more.records,
    rewritten: sum.rewritten + more.rewritten,
    removed: sum.removed + more.removed,
    refused: sum.refused + more.refused,
    seconds: Math.round((sum.seconds + more.seconds) * 1000) / 1000,
    note: [sum.note, more.note].filter((note) => note !== null).join('; ') || null,
  }
}

export function replayText(context: Context, summary: ReplaySummary): string {
  const several = summary.teams.length > 1
  const head = ['stream', 'records', 'rewritten', 'removed', 'seconds']
  const rows = summary.teams.flatMap((team) =>
    team.streams.map(({ stream, report }) => [
      several ? `${team.name}/${stream}` : stream,
      report.records,
      report.rewritten,
      report.removed,
      Number(report.seconds.toFixed(1)),
    ]),
  )
  const notes = summary.teams.flatMap((team) =>
    team.streams.flatMap(({ stream, report }) =>
      report.note === null ? [] : [`${several ? `${team.name}/` : ''}${stream}: ${report.note}`],
    ),
  )
  const end = [`run ${summary.runId}: ${summary.status.replace('_', ' ')}`, ...notes]
  const shown =
    rows.length === 0 ? 'no team yet: run intake-sync backfill\n' : fittedTable(context, [head, ...rows], 0)
  return `${shown}\n${end.map((line) => paragraph(context, line, 0)).join('')}`
}

export function inboxDocument({ runId, status, events, done, dead, waiting }: InboxReplayed): unknown {
  return { run_id: Number(runId), status, inbox: { events, done, dead, waiting } }
}

export function inboxText({ runId, status, events, done, dead, waiting }: InboxReplayed): string {
  const rows = table([
    ['events', 'loaded', 'dead letters', 'to be retried'],
    [events, done, dead, waiting],
  ])
  return `${rows}\nrun ${runId}: ${status.replace('_', ' ')}\n`
}
