/** The text output of the demo. Invariant: contains no password; all people in it are invented. */
import type { BackfillSummary } from '../../extract/backfill.ts'
import type { Session } from '../../warehouse/connect.ts'
import { type Context, TYPED } from '../context.ts'
import { table } from '../printable.ts'
import { backfillText } from '../run/backfill-report.ts'
import { fittedTable } from '../terminal.ts'
import type { LiveChange } from './live.ts'
import type { ChangesMade } from './service.ts'

/** Addresses and settings for further use of the demo. */
export interface DemoPlaces {
  /** The `INTAKE_DATA_DIR` with which other commands open the demo's warehouse. */
  readonly dataDir: string
  /** Where the server's files are. */
  readonly directory: string
  readonly port: number
  /** Environment variables with which other commands use the demo's service. */
  readonly variables: Readonly<Record<string, string>>
  /** Where the service sends its webhooks. */
  readonly webhooks: string
  /** Health and metrics. */
  readonly admin: string
}

export function openingText(postgres: string, dataDir: string): string {
  return [
    'intake-sync demo. All people, names and answers in it are invented.',
    '',
    `warehouse  an embedded Postgres ${postgres}, emptied for this demo, in`,
    `           ${dataDir}`,
    '',
  ].join('\n')
}

export function serviceText(url: string, records: Readonly<Record<string, number>>): string {
  const counts = Object.entries(records).map(([stream, count]) => `${count} ${stream}`)
  return `service    an emulator at ${url} with\n           ${counts.join(', ')}\n`
}

export function headingText(number: number, title: string): string {
  return `\n${number}. ${title}\n\n`
}

export function runText(
  context: Context,
  summary: BackfillSummary,
  seconds: number,
  versions: number,
): string {
  return `${backfillText(context, summary)}${seconds.toFixed(1)} s, ${versions} row versions written\n`
}

export function changesText(changes: ChangesMade): string {
  const { created, updated, deleted, reworded } = changes
  return `${created} patients created, ${updated} updated, ${deleted} deleted; ${reworded} question reworded.\n\n`
}

export function liveText(changes: readonly LiveChange[]): string {
  const rows = changes.map(({ what, seconds }) => [what, `row visible after ${seconds.toFixed(3)} s`])
  return table(rows)
}

export function addedNothingText(seconds: number): string {
  return `\nThe next backfill found patients and forms unchanged (${seconds.toFixed(1)} s).\n`
}

const INDENT = '  '

export function answerText(context: Context, { question, sql, columns, rows }: DemoAnswer): string {
  const { isTTY = false, columns: width = 80 } = context.stdout
  const stdout = { write: () => {}, isTTY, columns: width - INDENT.length }
  const result = fittedTable({ stdout }, [columns, ...rows], columns.length - 1)
  return `-- ${question}\n${sql};\n\n${result.replace(/^(?=.)/gm, INDENT)}\n`
}

export function refusedText({ sql, reason }: { readonly sql: string; readonly reason: string }): string {
  return [
    '-- And who are they?',
    `${sql};`,
    '',
    `  refused: ${reason}`,
    '',
    'docs/warehouse.md describes each view, docs/queries has thirty queries, and',
    'intake-sync classify shows or hides the answers to a question.',
    '',
    '',
  ].join('\n')
}

/** Next steps after a demo that has ended. */
export function overlongDirectoryText({ dataDir }: DemoPlaces): string {
  return [
    'The tables are kept until the next demo. Next steps:',
    '',
    `  INTAKE_DATA_DIR=${quoted(dataDir)} ${TYPED} psql --as analyst`,
    `  ${TYPED} demo --stay      keeps the warehouse and the service running`,
    `  ${TYPED} emulator         a service to try backfill and faults with`,
    '',
    '',
  ].join('\n')
}

/** Next steps while warehouse and service keep running. */
export function stayText(
  { dataDir, directory, port, variables, webhooks, admin }: DemoPlaces,
  page: { readonly url: string; readonly link: string },
): string {
  return [
    'Warehouse and service run until Ctrl-C; changes at the service appear in the tables at once.',
    'The console shows all of it, and can break it. This link logs you in, once:',
    '',
    `  ${page.link}`,
    '',
    `Webhooks are received at ${webhooks}, health and metrics are at ${admin}. From another terminal:`,
    '',
    '  # SQL with another client; the password stays in its file',
    `  PGPASSWORD="$(cat ${quoted(`${directory}/password`)})" psql -h 127.0.0.1 -p ${port} -U intake intake`,
    '',
    '  # the other commands, with the made-up credentials of the emulator',
    ...Object.entries({ INTAKE_DATA_DIR: dataDir, ...variables }).map(
      ([name, value]) => `  export ${name}=${quoted(value)}`,
    ),
    `  ${TYPED} psql --as analyst`,
    `  ${TYPED} backfill`,
    `  ${TYPED} status`,
    '',
    '',
  ].join('\n')
}

/** For a POSIX shell. */
function quoted(text: string): string {
  return /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}

/**
 * Example queries on the tables of the warehouse, to copy and paste.
 *
 * Invariant: each query runs on its own: it contains no id and depends on no other query.
 */
export interface DemoQuery {
  readonly question: string
  readonly sql: string
}

export interface DemoAnswer extends DemoQuery {
  readonly columns: readonly string[]
  readonly rows: readonly (readonly (string | number)[])[]
}

export const DEMO_QUERIES: readonly DemoQuery[] = [
  {
    question: 'How many patients carry each tag?',
    sql: `select coalesce(tag.name, '(no tag)') as tag,
       count(distinct patient.id)::int as patients
from intake.patients patient
left join intake.patient_tags tag
  on (tag.team_id, tag.patient_id) = (patient.team_id, patient.id)
where patient._deleted_at is null
group by 1
order by patients desc, tag`,
  },
  {
    question: 'What does the form "Insurance" ask, and what may be chosen?',
    sql: `select question.position as no, question.text as question,
       question.question_type as type,
       string_agg(choice.text, '|' order by choice.position) as choices
from intake.forms form
join intake.form_questions question
  on (question.team_id, question.form_id) = (form.team_id, form.id)
left join intake.question_choices choice
  on (choice.team_id, choice.form_id) = (form.team_id, form.id)
  and choice.question_position = question.position
where form.name = 'Insurance' and form._deleted_at is null
group by 1, 2, 3
order by 1`,
  },
  {
    question: 'Which forms are sent together?',
    sql: `select packet.name as packet,
       string_agg(form.name, '; ' order by member.position) as forms
from intake.packets packet
join intake.packet_forms member
  on (member.team_id, member.packet_id) = (packet.team_id, packet.id)
join intake.forms form
  on (form.team_id, form.id) = (member.team_id, member.form_id)
group by packet.id, packet.name
order by packet.name`,
  },
  {
    question: 'Who was deleted at the service, and what is left of them here?',
    sql: `select left(patient.id, 8) as patient,
       to_char(patient._deleted_at, 'YYYY-MM-DD HH24:MI:SS') as deleted_at,
       coalesce(patient.last_name, '(null)') as last_name,
       coalesce(patient.city, '(null)') as city,
       (select count(*)::int from intake.patient_tags tag
         where (tag.team_id, tag.patient_id)
             = (patient.team_id, patient.id)) as tags
from intake.patients patient
where patient._deleted_at is not null
order by patient.id`,
  },
  {
    question: 'How did one patient change? (payloads, for those who may read intake_raw)',
    sql: `with states as (
  select id, version, origin, payload from intake_raw.records
  where stream = 'patients' and not deleted
  union all
  select id, version, origin, payload from intake_raw.record_history
  where stream = 'patients'
)
select to_char(version, 'HH24:MI:SS.US') as version, origin,
       payload ->> 'address' as address, payload ->> 'city' as city
from states
where id = (
  select id from states group by id
  having count(distinct payload ->> 'city') > 1 order by id limit 1
)
order by states.version`,
  },
]

export async function runQuery(session: Session, query: DemoQuery): Promise<DemoAnswer> {
  const { fields, rows } = await session.client.query<(string | number | null)[]>({
    text: query.sql,
    rowMode: 'array',
  })
  return {
    ...query,
    columns: fields.map((field) => field.name),
    rows: rows.map((row) => row.map((cell) => cell ?? '')),
  }
}
