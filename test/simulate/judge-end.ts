/** In the end, after a full scan: the tables equal the source, row for row. */
import { streamNamed } from '../../src/streams/catalogue.ts'
import { expectedOf } from '../e2e/support/expected.ts'
import type { SimulatedStream } from './history.ts'
import type { Lane, Team } from './lane.ts'
import type { Service } from './service.ts'

export async function judgeEnd(
  { lane, team, service }: { readonly lane: Lane; readonly team: Team; readonly service: Service },
  streams: readonly SimulatedStream[],
  note: (fault: string) => void,
): Promise<void> {
  const listed = streams.map((name) => streamNamed(name)!).filter(({ list }) => list !== null)
  const names = listed.flatMap(({ table, children }) => [table, ...children.map((child) => child.table)])
  const roots = new Set(listed.map(({ table }) => table))
  const text = names.map((name) => {
    const live = roots.has(name) ? 'and _deleted_at is null' : ''
    return `select '${name}' as name, to_jsonb(t) as row from intake.${name} t where team_id = $1 ${live}`
  })
  const came = await lane.query<{ name: string; row: Record<string, unknown> }>(text.join(' union all '), [
    team.teamId,
  ])
  const expected = expectedOf(service.world)
  for (const name of names) {
    const wanted = expected[name] ?? []
    const found = came.flatMap((each) => (each.name === name ? [lineOf(each.row)] : [])).sort()
    if (JSON.stringify(found) === JSON.stringify(wanted)) continue
    const missing = wanted.filter((line) => !found.includes(line)).length
    const extra = found.filter((line) => !wanted.includes(line)).length
    note(`${name}: ${missing} rows of the source are missing, ${extra} are not of the source`)
  }
}

function lineOf(row: Record<string, unknown>): string {
  const fields = Object.entries(row).filter(([name]) => name !== 'team_id' && !name.startsWith('_'))
  return JSON.stringify(fields.sort(([a], [b]) => (a < b ? -1 : 1)))
}
