/** What the tables hold of a stream, for comparing with fixtures, with another way of loading, or with before. */
import { canonicalText } from '../../src/core/canonical.ts'
import { parseText } from '../../src/core/json.ts'
import { mapRecord } from '../../src/normalize/map.ts'
import { withoutPositions } from '../../src/normalize/safe-paths.ts'
import type { Stream } from '../../src/streams/stream.ts'
import type { Session } from '../../src/warehouse/connect.ts'
import { rowsOf } from '../load/loading.ts'
import { type Fixture, idOf, loadedOf, type Row, readFixture } from './fixture.ts'

/** What a record became: as `to_jsonb` shows it, so that types count, too. */
interface State {
  readonly version: string
  readonly root: Row
  readonly children: Readonly<Record<string, readonly Row[]>>
  readonly extra: string | null
  readonly problems: readonly (readonly [string, string])[] | null
  readonly drift: readonly string[]
}

const META = ['_version', '_deleted_at', '_origin', '_loaded_at', '_hash', '_extra', '_problems'] as const

/** The state of every live record of the stream, by id. */
export async function stateOf(
  session: Session,
  stream: Stream,
  teamId: number,
): Promise<ReadonlyMap<string, State>> {
  const roots = await rowsOf<{ row: Row; extra: string | null; payload: string }>(
    session,
    `select to_jsonb(t) as row, t._extra::text as extra from intake.${stream.table} t where team_id = $1`,
    [teamId],
  )
  const children = new Map<string, Map<string, Row[]>>()
  for (const { table, parent } of stream.children) {
    const rows = await rowsOf<{ row: Row }>(
      session,
      `select to_jsonb(t) as row from intake.${table} t where team_id = $1 order by ${orderOf(stream, table)}`,
      [teamId],
    )
    const byParent = new Map<string, Row[]>()
    for (const { row } of rows) {
      const list = byParent.get(String(row[parent])) ?? []
      byParent.set(String(row[parent]), [...list, without(row, ['team_id', parent])])
    }
    children.set(table, byParent)
  }
  return new Map(
    roots.map(({ row, extra }) => {
      const id = String(row.id)
      const problems = row._problems as { path: string; reason: string }[] | null
      const state: State = {
        version: String(row._version),
        root: without(row, ['team_id', 'id', ...META]),
        children: Object.fromEntries(
          stream.children.map(({ table }) => [table, children.get(table)?.get(id) ?? []]),
        ),
        extra: extra === null ? null : canonicalText(parseText(extra)),
        problems: problems?.map(({ path, reason }) => [path, reason] as const) ?? null,
        drift: [],
      }
      return [id, state]
    }),
  )
}

/** The state that a fixture promises, with null for everything it does not name. Drift is compared here and now. */
export function expectedState(
  stream: Stream,
  fixture: Fixture,
): { readonly id: string; readonly state: State } {
  const expected = loadedOf(fixture)
  const blank = (columns: readonly string[]) => Object.fromEntries(columns.map((column) => [column, null]))
  const read = readFixture(stream, fixture, 1)
  if (read.kind === 'dead') throw new Error(`a dead letter: ${read.deadLetter.reason}`)
  const drift = mapRecord(stream, read.envelope.content!.payload, read.envelope.content!.problems).drift
  const found = drift.map(({ path, type }) => `${path} ${type}`).sort()
  const promised = (expected.drift ?? []).map(([path, type]) => `${withoutPositions(path)} ${type}`).sort()
  // The version of a log entry is its own time; fixtures need not repeat it.
  const moment = stream.entryAt === undefined ? undefined : (expected.root?.created_at as string | undefined)
  return {
    id: idOf(fixture),
    state: {
      version: expected.version ?? moment ?? '2026-01-01T12:00:00+00:00',
      root: { ...blank(stream.columns.map((column) => column.name)), ...expected.root },
      children: Object.fromEntries(
        stream.children.map(({ table, columns }) => [
          table,
          (expected.children?.[table] ?? []).map((row) => ({ ...blank(columns), ...row })),
        ]),
      ),
      extra: expected.extra ?? null,
      problems: expected.problems === undefined || expected.problems.length === 0 ? null : expected.problems,
      // Equal when what was found is what was promised.
      drift: found.join() === promised.join() ? [] : ['found', ...found, 'promised', ...promised],
    },
  }
}

/** Where each row version of the stream lies and which transaction wrote it: the same when nothing was written. */
export async function physicalRows(
  session: Session,
  stream: Stream,
  teamId: number,
): Promise<readonly string[]> {
  const tables = [
    `intake.${stream.table}`,
    ...stream.children.map((child) => `intake.${child.table}`),
    'intake_raw.records',
    'intake_raw.record_history',
    'intake_ops.problems',
    'intake_ops.drift',
  ]
  const lines: string[] = []
  for (const table of tables) {
    const rows = await rowsOf<{ place: string }>(
      session,
      `select ctid::text || ' ' || xmin::text as place from ${table} where team_id = $1 order by ctid`,
      [teamId],
    )
    lines.push(...rows.map(({ place }) => `${table} ${place}`))
  }
  return lines
}

/** Root rows as JSON text, by id. */
export async function rootAsJson(
  session: Session,
  stream: Stream,
  teamId: number,
): Promise<ReadonlyMap<string, string>> {
  const rows = await rowsOf<{ id: string; row: string }>(
    session,
    `select id, to_jsonb(t)::text as row from intake.${stream.table} t where team_id = $1`,
    [teamId],
  )
  return new Map(rows.map(({ id, row }) => [id, row]))
}

function without(row: Row, columns: readonly string[]): Row {
  return Object.fromEntries(Object.entries(row).filter(([column]) => !columns.includes(column)))
}

function orderOf(stream: Stream, table: string): string {
  const columns = stream.children.find((child) => child.table === table)?.columns ?? []
  const keys = columns.filter((column) => column === 'key' || column.endsWith('position'))
  return keys.length === 0 ? '1' : keys.map((key) => (key === 'key' ? 'key collate "C"' : key)).join(', ')
}
