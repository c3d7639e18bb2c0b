/** Records of the emulator, grouped to compute expected answers from them. */
export type Line = Readonly<Record<string, unknown>>

export const all = <Row>(table: { readonly size: number; slice(at: number, limit: number): Row[] }) =>
  table.slice(0, table.size)

export function grouped<Row>(rows: readonly Row[], keyOf: (row: Row) => unknown): Row[][] {
  const groups = new Map<string, Row[]>()
  for (const row of rows) {
    const key = JSON.stringify(keyOf(row))
    groups.set(key, [...(groups.get(key) ?? []), row])
  }
  return [...groups.values()]
}
