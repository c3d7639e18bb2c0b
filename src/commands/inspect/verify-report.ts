/**
 * The report of a verification, as text and as the JSON document of `--json`.
 *
 * Invariant: contains counts, ids and names of fields, never a value; ids are never cut short in the document.
 */
import type { Channels } from '../../reconcile/verify/channels.ts'
import type { TeamVerified, VerifySummary } from '../../reconcile/verify/verify.ts'
import type { StreamResult } from '../../reconcile/verify/verify-stream.ts'
import type { Context } from '../context.ts'
import { printable } from '../printable.ts'
import { fittedTable, paragraph } from '../terminal.ts'

interface Figures {
  readonly source: number | null
  readonly warehouse: number | null
  readonly missing: readonly string[]
  readonly extra: readonly string[]
  readonly different: readonly { readonly id: string; readonly fields: readonly string[] }[]
  readonly repaired: number
  readonly newer: number
  readonly payloads_only: number
  readonly source_hash: string | null
  readonly warehouse_hash: string | null
  readonly source_content_hash: string | null
  readonly warehouse_content_hash: string | null
  readonly note: string | null
  readonly error: string | null
}

const NO_HASHES = {
  ...{ source_hash: null, warehouse_hash: null },
  ...{ source_content_hash: null, warehouse_content_hash: null },
}

/** `streams` sums up all teams; `teams` has each team separately. */
export function verifyDocument({ runId, status, equal, teams }: VerifySummary): object {
  const streams: Record<string, Figures> = {}
  for (const team of teams) {
    for (const result of team.streams) {
      const own = figuresOf(result)
      const sum = streams[result.stream]
      streams[result.stream] = sum === undefined ? own : added(sum, own)
    }
  }
  const byTeam = teams.map((team) => [
    team.name,
    {
      streams: Object.fromEntries(team.streams.map((result) => [result.stream, figuresOf(result)])),
      deep: deepOf(team),
    },
  ])
  return {
    run_id: Number(runId),
    status,
    equal,
    streams,
    deep: teams.length === 1 ? deepOf(teams[0]!) : null,
    teams: Object.fromEntries(byTeam),
  }
}

/** Null without `--deep`. */
function deepOf({ deep }: TeamVerified): unknown {
  if (deep === null) return null
  const { cellsNotCompared, columnsNotCompared, ...counts } = deep
  return { ...counts, cells_not_compared: cellsNotCompared, columns_not_compared: columnsNotCompared }
}

function figuresOf(result: StreamResult): Figures {
  if ('error' in result) {
    const unknown = { source: null, warehouse: null, note: null, ...NO_HASHES }
    const nothing = { missing: [], extra: [], different: [], repaired: 0, newer: 0, payloads_only: 0 }
    return { ...unknown, ...nothing, error: result.error }
  }
  const { missing, extra, different, repaired, newer, notDue, payloadsOnly, sums, note } = result.verified
  return {
    source: sums.source,
    warehouse: sums.warehouse,
    missing,
    extra,
    different,
    repaired,
    newer: newer + notDue,
    payloads_only: payloadsOnly,
    source_hash: sums.sourceHash,
    warehouse_hash: sums.warehouseHash,
    source_content_hash: sums.sourceContentHash,
    warehouse_content_hash: sums.warehouseContentHash,
    note,
    error: null,
  }
}

function added(a: Figures, b: Figures): Figures {
  const both = (x: number | null, y: number | null) => (x === null || y === null ? null : x + y)
  return {
    source: both(a.source, b.source),
    warehouse: both(a.warehouse, b.warehouse),
    missing: [...a.missing, ...b.missing],
    extra: [...a.extra, ...b.extra],
    different: [...a.different, ...b.different],
    repaired: a.repaired + b.repaired,
    newer: a.newer + b.newer,
    payloads_only: a.payloads_only + b.payloads_only,
    // Each team has its own hashes; they have no sum.
    ...NO_HASHES,
    note: [a.note, b.note].filter((note) => note !== null).join('; ') || null,
    error: [a.error, b.error].filter((error) => error !== null).join('; ') || null,
  }
}

/** The number of the column "repaired", which a narrow terminal drops since the last column repeats it. */
const REPAIRED = 6

/** Ids shown per kind of difference; `--json` and intake_ops.verifications have all. */
const SHOWN = 5

export function verifyText(context: Context, { runId, status, equal, teams }: VerifySummary): string {
  const several = teams.length > 1
  const head = ['stream', 'source', 'warehouse', 'missing', 'extra', 'different', 'repaired', '']
  const rows: (string | number)[][] = []
  const details: string[] = []
  for (const { name, streams, deep } of teams) {
    if (deep !== null) details.push(...deepText(several ? `${name}: ` : '', deep))
    for (const result of streams) {
      const stream = several ? `${name}/${result.stream}` : result.stream
      const { source, warehouse, missing, extra, different, repaired, note, error } = figuresOf(result)
      const differing = missing.length + extra.length + different.length
      const unequal = repaired === differing ? 'repaired' : 'differs'
      const verdict = error !== null ? 'failed' : differing === 0 ? 'equal' : unequal
      const counts = [missing.length, extra.length, different.length, repaired]
      rows.push([stream, source ?? '-', warehouse ?? '-', ...counts, verdict])
      if (missing.length > 0) details.push(`${stream} missing: ${listed(missing)}`)
      if (extra.length > 0) details.push(`${stream} extra: ${listed(extra)}`)
      const changed = different.map(({ id, fields }) => `${id} (${inWords(fields).join(', ')})`)
      if (changed.length > 0) details.push(`${stream} different: ${listed(changed)}`)
      for (const text of [note, error]) if (text !== null) details.push(`${stream}: ${text}`)
    }
  }
  const end = `run ${runId}: ${equal ? 'equal' : status === 'succeeded' ? 'repaired' : status.replace('_', ' ')}`
  const lines = [end, ...details].map((line) => paragraph(context, line, 0))
  return `${fittedTable(context, [head, ...rows], 0, [REPAIRED])}\n${lines.join('')}`
}

/** What people understand of the names of differing columns; a difference in the payload changes its hash as well. */
function inWords(fields: readonly string[]): readonly string[] {
  const columns = fields.filter((field) => field !== '_hash' && field !== 'intake_raw.records')
  return columns.length === 0 ? ['the stored payload'] : columns
}

function listed(ids: readonly string[]): string {
  const shown = ids.slice(0, SHOWN).map(printable).join(', ')
  return ids.length > SHOWN ? `${shown} and ${ids.length - SHOWN} more (--json lists all)` : shown
}

function deepText(
  team: string,
  { rows, cells, columnsNotCompared, differences }: Channels,
): readonly string[] {
  const unknown =
    columnsNotCompared === 0 ? '' : `, ${columnsNotCompared} column(s) of unknown questions not compared`
  const counts = `${team}exports and responses: ${rows} rows, ${cells} cells${unknown}`
  if (differences.length === 0) return [`${counts}: agree`]
  const places = differences.map(
    ({ export_id, response_id, row_number, position }) =>
      `${export_id} row ${row_number ?? '-'} column ${position ?? '-'} (response ${response_id ?? 'none'})`,
  )
  return [`${counts}: differ in ${differences.length} place(s): ${listed(places)}`]
}

/** A living service goes on changing: what differs for that reason is equal soon. */
export function nextText(context: Context): string {
  const next = 'next: intake-sync verify --repair loads what differs'
  const why =
    'What changed at the service in the meantime differs until its event arrives. Messages and exports mostly have no events: they differ until the next backfill.'
  return paragraph(context, next, 0) + paragraph(context, why, 0)
}
