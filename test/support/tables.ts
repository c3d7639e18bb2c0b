/** Whole tables as text, to compare the results of two ways of loading. */
import type { Stream } from '../../src/streams/stream.ts'
import type { Session } from '../../src/warehouse/connect.ts'

/** Every row of the stream's tables and of its records, of one team, in key order, without the time of loading. */
export async function dumpStream(
  session: Session,
  stream: Stream,
  teamId: number,
): Promise<readonly string[]> {
  const tables = [`intake.${stream.table}`, ...stream.children.map((child) => `intake.${child.table}`)]
  const lines: string[] = []
  for (const table of tables) {
    const { rows } = await session.client.query<{ line: string }>(
      `select (to_jsonb(t) - 'team_id' - '_loaded_at')::text as line from ${table} t where team_id = $1 order by 1`,
      [teamId],
    )
    lines.push(...rows.map((row) => `${table} ${row.line}`))
  }
  const { rows } = await session.client.query<{ line: string }>(
    `select (to_jsonb(t) - 'team_id' - 'change_seq' - 'changed_at')::text as line from intake_raw.records t where team_id = $1 and stream = $2 order by 1`,
    [teamId, stream.name],
  )
  return [...lines, ...rows.map((row) => `records ${row.line}`)]
}
