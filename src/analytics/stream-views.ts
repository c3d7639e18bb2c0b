/**
 * Views that follow from the declarations of streams: the lines of `freshness`, and a view of each stream that says which
 * columns analysts see.
 *
 * Invariant: of a person only the pseudonym is shown; a column that is not declared is in no view.
 */
import { ALL_STREAMS, PERSONS } from '../streams/catalogue.ts'
import type { Analysts, Stream } from '../streams/stream.ts'

/** Stands in a file of sql/views for the newest time and the last event of each stream that analysts see. */
const EACH_STREAM = /^ *-- each stream:.*$/m

/** `text` with what follows from the streams in place of its comments: a line `-- each stream:`, or a list of names. */
export function withStreams(text: string): string {
  const lines = ALL_STREAMS.filter(({ analysts }) => analysts !== 'nothing').map(
    (stream) =>
      `  select '${stream.name}' as stream, ${newestOf(stream)} as newest_record_at,
    max(_loaded_at) filter (where _origin like 'event:%') as last_event_at
  from intake.${stream.table} x where x.team_id = t.team_id`,
  )
  const names = ALL_STREAMS.filter(({ analysts }) => analysts !== 'nothing').map(({ name }) => `'${name}'`)
  return text
    .replace(EACH_STREAM, () => lines.join('\n  union all\n'))
    .replaceAll('/* the streams of analysts */', names.join(', '))
    .replaceAll('/* the stream of persons */', `'${PERSONS.name}'`)
}

/** A record's own time, where it has one that is not ahead; a tombstone has only its version. */
function newestOf({ columns }: Stream): string {
  const own = ['updated_at', 'created_at'].filter((each) => columns.some(({ name }) => name === each))
  if (own.length === 0) return 'max(_version)'
  return `max(greatest(${own.join(', ')}, _deleted_at)) filter (where greatest(${own.join(', ')}, _deleted_at) <= now() + interval '5 minutes')`
}

/** The views of the streams that declare columns for analysts, by a name in place of a file's. */
export function streamViews(): readonly { readonly name: string; readonly text: string }[] {
  return ALL_STREAMS.flatMap((stream) =>
    showsColumns(stream.analysts)
      ? [{ name: `stream ${stream.name}`, text: viewOf(stream, stream.analysts.columns) }]
      : [],
  )
}

function showsColumns(analysts: Analysts): analysts is Extract<Analysts, { readonly columns: unknown }> {
  return analysts !== 'nothing' && 'columns' in analysts
}

/** Comments come from the table, in which each column has one. */
function viewOf({ table, columns }: Stream, shown: readonly string[]): string {
  const cells = shown.map((name) => {
    const isPerson = columns.some((column) => column.name === name && column.to === PERSONS.name)
    return isPerson
      ? {
          cell: `case when s.${name} is not null then intake_ops.pseudonym(k.inner_pad, k.outer_pad, s.team_id, s.${name}) end`,
          as: name.replace(/_id$/, ''),
          about: "'Pseudonym of the patient (intake_analytics.patients).'",
        }
      : { cell: `s.${name}`, as: name, about: commentOf(table, name) }
  })
  const all = [
    { cell: 's.team_id', as: 'team_id', about: "'The team (intake_analytics.teams).'" },
    { cell: 's.id', as: 'id', about: commentOf(table, 'id') },
    ...cells,
  ]
  return `create or replace view intake_analytics.${table} with (security_barrier = true) as
select ${all.map(({ cell, as }) => `${cell} as ${as}`).join(', ')}
from intake.${table} s
cross join intake_ops.analytics_key k
where s._deleted_at is null and s.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

do $comments$
begin
  comment on view intake_analytics.${table} is 'One row per record of intake.${table} that is not deleted.';
${all.map(({ as, about }) => `  execute format('comment on column intake_analytics.${table}.${as} is %L', ${about});`).join('\n')}
end
$comments$;
`
}

function commentOf(table: string, column: string): string {
  return `(select col_description(attrelid, attnum) from pg_attribute where attrelid = 'intake.${table}'::regclass and attname = '${column}')`
}
