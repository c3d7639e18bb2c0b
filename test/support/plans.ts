/**
 * The plans by which Postgres ran the statements of this process, with the pages that each read; includes statements of
 * triggers and functions, which EXPLAIN does not show (auto_explain sends them to the session as notices).
 *
 * Invariant: only sessions of the URL that `explainedUrl` returned are read, and all of them until the watch is disposed.
 */
import pg from 'pg'

export interface Plan {
  readonly statement: string
  readonly scans: readonly Scan[]
  /** Pages of 8 KB that the whole statement read. */
  readonly pages: number
}

/** One scan of a table. */
export interface Scan {
  /** `schema.table`. */
  readonly table: string
  /** `Seq Scan`, `Index Scan`, … */
  readonly node: string
  readonly condition: string | null
  /** Rows that were read, including those that a filter removed. */
  readonly rows: number
}

interface Node {
  readonly 'Node Type': string
  readonly Schema?: string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Index Cond'?: string
  readonly 'Actual Rows'?: number
  readonly 'Actual Loops'?: number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly 'Shared Hit Blocks'?: number
  readonly 'Shared Read Blocks'?: number
  readonly Plans?: readonly Node[]
}

const SETTINGS = {
  session_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_analyze': 'on',
  'auto_explain.log_timing': 'off',
  'auto_explain.log_buffers': 'on',
  'auto_explain.log_verbose': 'on',
  'auto_explain.log_nested_statements': 'on',
  'auto_explain.log_format': 'json',
  'auto_explain.log_level': 'notice',
  client_min_messages: 'notice',
}

/** The same database; its sessions send their plans. */
export function explainedUrl(url: string): string {
  const explained = new URL(url)
  const options = Object.entries(SETTINGS).map(([name, value]) => `-c ${name}=${value}`)
  explained.searchParams.set('options', options.join(' '))
  return explained.href
}

export interface Watching extends Disposable {
  /** Plans since the last call. */
  take(): readonly Plan[]
}

export function watchPlans(): Watching {
  const plans: Plan[] = []
  const connect = pg.Client.prototype.connect as (this: pg.Client, ...given: unknown[]) => unknown
  const watched = function (this: pg.Client, ...given: unknown[]) {
    this.on('notice', ({ message }) => {
      const plan = planIn(message)
      if (plan !== null) plans.push(plan)
    })
    return connect.apply(this, given)
  }
  pg.Client.prototype.connect = watched as typeof pg.Client.prototype.connect
  return {
    take: () => plans.splice(0),
    [Symbol.dispose]: () => {
      pg.Client.prototype.connect = connect as typeof pg.Client.prototype.connect
    },
  }
}

function planIn(message: string | undefined): Plan | null {
  const from = message?.indexOf('{') ?? -1
  if (from < 0 || !/^duration: /.test(message!)) return null
  const report = JSON.parse(message!.slice(from)) as { 'Query Text': string; Plan: Node }
  const scans: Scan[] = []
  collect(report.Plan, scans)
  const { 'Shared Hit Blocks': hit = 0, 'Shared Read Blocks': read = 0 } = report.Plan
  return { statement: report['Query Text'].replace(/\s+/g, ' ').trim(), scans, pages: hit + read }
}

function collect(node: Node, scans: Scan[]): void {
  const { Plans = [], Schema, 'Relation Name': table, 'Actual Loops': loops = 1 } = node
  if (table !== undefined && /Scan$/.test(node['Node Type'])) {
    const each =
      (node['Actual Rows'] ?? 0) +
      (node['Rows Removed by Filter'] ?? 0) +
      (node['Rows Removed by Index Recheck'] ?? 0)
    scans.push({
      table: `${Schema}.${table}`,
      node: node['Node Type'],
      condition: node['Index Cond'] ?? null,
      rows: Math.round(each * loops),
    })
  }
  for (const child of Plans) collect(child, scans)
}
