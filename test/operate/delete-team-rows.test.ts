/** The rows of a team go table by table, in ranges of pages, until a whole pass finds none; the warehouse is played here. */
import { expect, test } from 'vitest'
import { deleteRows } from '../../src/operate/delete-team-rows.ts'
import { scripted } from '../support/scripted.ts'

const TABLES = [
  { name: 'intake.forms', of: 'intake.forms' },
  { name: 'intake.teams', of: 'intake.teams' },
  { name: 'intake_partitions.inbox_1', of: 'intake_raw.inbox' },
  { name: 'intake_ops.removed_teams', of: 'intake_ops.removed_teams' },
  { name: 'intake_partitions.inbox_2', of: 'intake_raw.inbox' },
]

/** A warehouse whose tables have so many pages, and rows of the team in the range that begins with a page. */
function warehouseWith(pages: Record<string, number>, rows: Record<string, Record<number, number>>) {
  const steps: string[] = []
  const failures = new Map<string, unknown[]>()
  const note = (step: string) => {
    steps.push(step)
    const failure = failures.get(step)?.shift()
    if (failure !== undefined) throw failure
  }
  const db = scripted((statement, values) => {
    if (statement.includes('from pg_class')) {
      note('tables')
      return TABLES
    }
    const size = /pg_relation_size/.test(statement)
    const table = size
      ? String(values[0])
      : (/from "(\w+)"\."(\w+)"/.exec(statement)?.slice(1).join('.') ?? '')
    if (size) {
      note(`size ${table}`)
      return [{ pages: pages[table] ?? 1 }]
    }
    if (statement.startsWith('select from')) {
      note(`any ${table} of ${values}`)
      return Object.values(rows[table] ?? {}).some((count) => count > 0) ? [{}] : []
    }
    if (statement.startsWith('delete')) {
      note(`delete ${table} ${values}`)
      const from = Number(/\((\d+),0\)/.exec(String(values[0]))![1])
      const count = rows[table]?.[from] ?? 0
      if (rows[table] !== undefined) rows[table][from] = 0
      return count
    }
    note(/enable_/.test(statement) ? 'plan' : statement)
    return []
  })
  return { db, steps, failures }
}

const retries = (steps: string[]) => async (work: () => Promise<unknown>) => {
  steps.push('try')
  return (await work()) as never
}
const { signal } = new AbortController()
const range = (table: string, from: number) => [
  ...['try', 'begin', 'plan', `delete ${table} (${from},0),(${from + 512},0),7`, 'commit'],
]
const none = (table: string) => ['try', `any ${table} of 7`]

test('each range of pages is a transaction of its own; partitions count as their table, those of teams stay', async () => {
  const rows = { 'intake.forms': { 0: 2, 512: 0, 1024: 3 }, 'intake_partitions.inbox_2': { 0: 1 } }
  const { db, steps } = warehouseWith({ 'intake.forms': 1025 }, rows)
  expect(await deleteRows(db, 7, retries(steps), signal)).toEqual({
    rows: 6,
    tables: ['intake.forms', 'intake_raw.inbox'],
  })
  const [forms, first, second] = ['intake.forms', 'intake_partitions.inbox_1', 'intake_partitions.inbox_2']
  expect(steps).toEqual([
    ...['tables', ...none(forms!), `size ${forms}`],
    ...[0, 512, 1024].flatMap((from) => range(forms!, from)),
    ...[...none(first!), ...none(second!), `size ${second}`, ...range(second!, 0)],
    // The pass that finds nothing is the last.
    ...['tables', ...none(forms!), ...none(first!), ...none(second!)],
  ])
})

test('it ends between two ranges when it is stopped', async () => {
  const stop = new AbortController()
  const { db, steps } = warehouseWith({ 'intake.forms': 2_000 }, { 'intake.forms': { 0: 1, 512: 1 } })
  const withRetries = async (work: () => Promise<unknown>) => {
    const done = await work()
    if (steps.at(-1) === 'commit') stop.abort(new Error('stopped'))
    return done as never
  }
  await expect(deleteRows(db, 7, withRetries, stop.signal)).rejects.toThrow('stopped')
  expect(steps.filter((step) => step.startsWith('delete'))).toHaveLength(1)
})

test('a partition that is dropped meanwhile has no rows left, and any other failure ends the work', async () => {
  const failing = (code: string) => Object.assign(new Error('of the server'), { code })
  const forms = 'intake.forms'
  for (const step of [`any ${forms} of 7`, `size ${forms}`, `delete ${forms} (512,0),(1024,0),7`]) {
    const world = () =>
      warehouseWith({ [forms]: 600 }, { [forms]: { 0: 2, 512: 1 }, 'intake_partitions.inbox_1': { 0: 4 } })
    const { db, steps, failures } = world()
    failures.set(step, [failing('42P01')])
    const { rows, tables } = await deleteRows(db, 7, retries(steps), signal)
    // Another pass finds what is left.
    expect([step, rows, tables]).toEqual([step, 7, [forms, 'intake_raw.inbox']])
    const other = world()
    other.failures.set(step, [failing('42501')])
    await expect(deleteRows(other.db, 7, retries(other.steps), signal)).rejects.toMatchObject({
      code: '42501',
    })
  }
})
