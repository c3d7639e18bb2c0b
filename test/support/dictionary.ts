/**
 * Generates docs/warehouse.md from the COMMENTs of a migrated warehouse.
 *
 * Invariant: a table, view or column is described once, in its COMMENT.
 */
import { readdirSync, readFileSync } from 'node:fs'
import type pg from 'pg'
import { ALL_STREAMS } from '../../src/streams/catalogue.ts'

interface Column {
  readonly relation: string
  readonly kind: string
  readonly about: string | null
  readonly name: string
  readonly type: string
  readonly comment: string | null
  readonly is_key: boolean
}

const READ = `
  select c.relname as relation, c.relkind as kind, obj_description(c.oid) as about, a.attname as name,
    format_type(a.atttypid, a.atttypmod) as type, col_description(c.oid, a.attnum) as comment,
    coalesce(a.attnum = any (i.indkey), false) as is_key
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_index i on i.indrelid = c.oid and i.indisprimary
  where c.relnamespace = $1::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
  order by c.relname, a.attnum`

function streams(): string {
  const code = (texts: readonly string[]) => texts.map((text) => `\`${text}\``).join(', ')
  const rows = ALL_STREAMS.map((stream) => {
    const { name, table, children, source, list, one, analysts } = stream
    const files = stream.reading?.kind === 'files' ? stream.reading.tables : []
    const read = list === null ? 'webhooks only' : one === null ? 'its list' : 'its list, and by id'
    const views = analysts === 'nothing' ? [] : 'views' in analysts ? analysts.views : [table]
    return [
      code([name]),
      code([table, ...children.map((child) => child.table), ...files.map((file) => file.table)]),
      read,
      source === undefined ? '' : code([source]),
      code(views),
    ]
  })
  const head = ['Stream', 'Tables', 'Read from', 'Event source', 'Views that show it']
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')
}

export async function dictionary(client: pg.Client, introduction: string): Promise<string> {
  const analytics = (await client.query<Column>(READ, ['intake_analytics'])).rows
  const research = (await client.query<Column>(READ, ['intake_safe_harbor'])).rows
  const intake = (await client.query<Column>(READ, ['intake'])).rows
  const fhir = (await client.query<Column>(READ, ['intake_fhir'])).rows
  const views = intake.filter(({ kind }) => kind === 'v')
  const tables = intake.filter(({ kind }) => kind !== 'v')
  return `${[
    introduction.trimEnd(),
    '## Ten queries, with their answers',
    ANSWERED,
    readFileSync(new URL('warehouse-queries.md', import.meta.url), 'utf8').trimEnd(),
    '## Streams',
    'From their declarations in `src/streams` ([adding a resource](adding-a-resource.md)).',
    streams(),
    '## Worked questions',
    'The tests run each query, and compare the result with the emulator’s own records or with a fixed world.',
    questions(),
    '## Views for analysts: `intake_analytics`',
    ...relations(analytics, 'intake_analytics'),
    '## Views for researchers: `intake_safe_harbor`',
    'De-identified: [Safe Harbor](safe-harbor.md) says how, and which queries are answered there.',
    ...relations(research, 'intake_safe_harbor'),
    '## Views for the clinical role: `intake`',
    'Each form also has a [wide view](#wide-views) `form_…`.',
    ...relations(views, 'intake'),
    '## FHIR R4, for the clinical role: `intake_fhir`',
    FHIR,
    ...relations(fhir, 'intake_fhir'),
    '## Tables: `intake`',
    'They are [drawn above](#how-the-tables-relate). No foreign key enforces this, because events arrive in any order.',
    ...relations(tables, 'intake'),
  ].join('\n\n')}\n`
}

const ANSWERED =
  'Ask as `intake_analyst`, for example with `intake-sync psql --as analyst`. The people are invented ([the emulator](emulator.md)); the tests run each query and compare. All are in [worked questions](#worked-questions).'

const FHIR = readFileSync(new URL('warehouse-fhir.md', import.meta.url), 'utf8').trimEnd()

function questions(): string {
  const folder = new URL('../../docs/queries/', import.meta.url)
  return readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => {
      const text = readFileSync(new URL(name, folder), 'utf8')
      const question = /^-- ([\s\S]*?[?.])(?:\s|$)/.exec(text)![1]!.replace(/\n-- /g, ' ')
      return `- [${question}](queries/${name})`
    })
    .join('\n')
}

function relations(columns: readonly Column[], schema: string): readonly string[] {
  const names = [...new Set(columns.map(({ relation }) => relation))]
  return names.map((relation) => {
    const own = columns.filter((column) => column.relation === relation)
    const lines = own.map(
      ({ name, type, comment, is_key }) =>
        `| ${is_key ? `**${name}**` : name} | ${type} | ${escaped(comment)} |`,
    )
    return `### \`${schema}.${relation}\`\n\n${own[0]!.about}\n\n| column | type | description |\n|---|---|---|\n${lines.join('\n')}`
  })
}

const escaped = (text: string | null) => (text ?? '').replace(/\|/g, '\\|')
