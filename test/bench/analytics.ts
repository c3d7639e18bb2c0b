/**
 * How soon the worked queries of docs/queries answer an analyst, over 200,000 responses with two million answers, their
 * payloads and superseded states, and the cost of the wide views.
 *
 * Invariant: no query is timed over an empty answer, except of what the world does not have.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { refreshWideViews } from '../../src/analytics/wide/wide-views.ts'
import { type BenchRow, timed } from './row.ts'
import type { BenchWarehouse } from './warehouse.ts'

/** Seconds within which each query answers. */
const AIM = 2

/** The forms of the bench are all filled in. */
const NOTHING = new Set(['17-forms-asleep.sql'])

const folder = new URL('../../docs/queries/', import.meta.url)

/** Fills an empty warehouse. */
export async function benchAnalytics(warehouse: BenchWarehouse, responses: number): Promise<BenchRow[]> {
  const { client, db } = warehouse.session
  for (const statement of fill(responses)) await client.query(statement)
  const row = (what: string, figure: number, aim = AIM): BenchRow => ({
    ...{ what, figure, unit: 's', floorIs: 'the aim', floor: aim },
    ...{ ratio: figure / aim, aim: '≤ 1', met: figure <= aim, peakBytes: null },
  })
  const seconds = async (work: () => Promise<unknown>) => (await timed(work)).seconds
  const rows = [row('analytics: all wide views, first', await seconds(() => refreshWideViews(db)), 20)]
  rows.push(row('analytics: no form changed', await seconds(() => refreshWideViews(db)), 0.2))
  try {
    for (const name of readdirSync(folder).sort()) {
      if (!name.endsWith('.sql')) continue
      const text = readFileSync(new URL(name, folder), 'utf8')
      await client.query(
        `set role ${text.includes('intake_clinical') ? 'intake_clinical' : 'intake_analyst'}`,
      )
      // The second run is timed: like an analyst who has worked with the tables.
      const { rowCount } = await client.query(text)
      if (rowCount === 0 && !NOTHING.has(name)) throw new Error(`${name} answers nothing`)
      rows.push(row(`analytics: ${name}`, await seconds(() => client.query(text))))
    }
  } finally {
    await client.query('reset role')
  }
  // The forms have a twentieth of the responses each: 10,000 of 200,000.
  for (const view of ['intake.form_intake', 'intake_forms.form_intake', 'intake_exports.export_export']) {
    const text = `select * from ${view}`
    await client.query(text)
    rows.push(row(`analytics: ${text}`, await seconds(() => client.query(text)), 1))
  }
  const history = 'select * from intake.responses_history limit 1'
  rows.push(row(`analytics: ${history}`, await seconds(() => client.query(history))))
  return rows
}

const COMMON = ['Never', 'Some days', 'Most days', 'Every day']
const SCORED = ['Not at all', 'Several days', 'More than half the days', 'Nearly every day']
const list = (texts: readonly string[]) => `array['${texts.join("', '")}']`
/** The choice in this place, from 0, in form number `form`; the fourth form is the PHQ-9. */
const choice = (form: string, place: string) =>
  `(case ${form} when 4 then ${list(SCORED)} else ${list(COMMON)} end)[${place} + 1]`
const question = (form: string) =>
  `case when ${form} = 4 and q < 10 then (select wordings[1] from intake_ops.instrument_items where instrument = 'phq-9' and item = q)
     when q = 9 then 'Devices you use' else 'Question ' || q end`
/** Streams with the time at which a record of theirs was made. */
const RECORDS = [
  ...[
    ['patients', "timestamptz '2025-01-01'"],
    ['forms', "timestamptz '2025-01-01'"],
    ['packets', "timestamptz '2025-01-01'"],
  ],
  ...[
    ['responses', 'created_at'],
    ['messages', 'created_at'],
    ['exports', "timestamptz '2025-01-01'"],
  ],
] as const

/** Twenty forms of ten questions; each response answers all ten. Three of the forms have the names that the queries use. */
const fill = (responses: number) => [
  `insert into intake.teams (name) values ('bench')`,
  `insert into intake.patients (team_id, id, date_birth, zipcode, state, sex_at_birth, _version, _origin)
   select 1, 'patient-' || n, date '1930-01-01' + n % 30000, lpad((n * 7 % 100000)::text, 5, '0'), (array['NY','CA','TX'])[n % 3 + 1],
     (array['Female','Male'])[n % 2 + 1], now(), 'bench' from generate_series(1, ${responses / 10}) n`,
  `insert into intake.patient_tags (team_id, patient_id, position, name)
   select 1, 'patient-' || n, 1, (array['VIP','Fall risk','New'])[n % 3 + 1] from generate_series(1, ${responses / 10}, 2) n`,
  `insert into intake.forms (team_id, id, name, enabled, _version, _origin)
   select 1, 'form-' || n, (array['Mood check','Intake','Insurance','PHQ-9'])[n] , true, now(), 'bench' from generate_series(1, 4) n
   union all select 1, 'form-' || n, 'Form ' || n, true, now(), 'bench' from generate_series(5, 20) n`,
  `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text, sort_order)
   select 1, 'form-' || f, q, 'question-' || f || '-' || q,
     (array['single_choice','single_choice','single_choice','single_choice','single_choice','number','checkbox','short_text','multiple_choice','single_choice'])[case when f in (1, 4) then 1 else q end],
     ${question('f')}, q
   from generate_series(1, 20) f, generate_series(1, 10) q`,
  `insert into intake.question_choices (team_id, form_id, question_position, position, question_id, choice_id, text)
   select 1, 'form-' || f, q, c, 'question-' || f || '-' || q, 'choice-' || f || '-' || q || '-' || c,
     ${choice('f', 'c - 1')}
   from generate_series(1, 20) f, generate_series(1, 10) q, generate_series(1, 4) c`,
  `insert into intake.packets (team_id, id, name, _version, _origin) select 1, 'packet-' || n, 'Packet ' || n, now(), 'bench' from generate_series(1, 5) n`,
  `insert into intake.responses (team_id, id, patient_id, form_id, packet_id, is_submitted, is_skipped, is_archived,
     created_at, submitted_at, updated_at, _version, _origin)
   select 1, md5(n::text), 'patient-' || (n * 7919 % ${responses / 10} + 1), 'form-' || (n % 20 + 1),
     case when n % 5 = 0 then 'packet-' || (n / 20 % 5 + 1) end, n % 11 > 0, n % 50 = 5, false,
     timestamptz '2025-01-01' + n * interval '3 minutes',
     case when n % 11 > 0 then timestamptz '2025-01-01' + n * interval '3 minutes' + (n % 3000) * interval '1 minute' end,
     now(), now(), 'bench'
   from generate_series(1, ${responses}) n`,
  `insert into intake.response_answers (team_id, response_id, position, value_position, answer_id, question_id, question_text, choice_id, value_text, value_number, value_boolean)
   select 1, md5(n::text), q, 1, n || '-' || q, 'question-' || (n % 20 + 1) || '-' || q, ${question('(n % 20 + 1)')},
     case when q not in (6, 7, 8) or n % 20 in (0, 3) then 'choice-' || (n % 20 + 1) || '-' || q || '-' || (n * q % 4 + 1) end,
     case when n % 20 in (0, 3) then ${choice('(n % 20 + 1)', 'n / 20 * q % 4')} else case q when 6 then (n % 200)::text when 7 then (n % 2 = 0)::text when 8 then 'free text of somebody ' || n
       else ${choice('0', 'n * q % 4')} end end,
     case when q = 6 and n % 20 not in (0, 3) then n % 200 end, case when q = 7 and n % 20 not in (0, 3) then n % 2 = 0 end
   from generate_series(1, ${responses}) n, generate_series(1, 10) q where n % 20 > 0 or q < 10
   order by n, q`,
  `insert into intake.response_answers (team_id, response_id, position, value_position, question_id, question_text, choice_id, value_text)
   select 1, md5(n::text), 9, 2, 'question-' || (n % 20 + 1) || '-9', 'Devices you use', 'choice-' || (n % 20 + 1) || '-9-1', 'Never'
   from generate_series(1, ${responses}) n where n % 3 = 0 and n % 20 <> 3`,
  `insert into intake.messages (team_id, id, patient_id, form_id, preferred_delivery_method, status, sent_at, created_at, _version, _origin)
   select 1, md5('m' || n), 'patient-' || (n * 7919 % ${responses / 10} + 1), 'form-' || (n % 20 + 1), (array['email','sms'])[n % 2 + 1], 'sent',
     timestamptz '2025-01-01' + n * interval '3 minutes', timestamptz '2025-01-01' + n * interval '3 minutes', now(), 'bench'
   from generate_series(1, ${responses}) n where n % 2 = 1`,
  `insert into intake.exports (team_id, id, form_id, name, _version, _origin) select 1, 'export-' || n, 'form-' || n, 'Export', now(), 'bench' from generate_series(1, 20) n`,
  `insert into intake.export_columns select 1, 'export-' || e, q + 7, 'Question ' || q, 'question-' || e || '-' || q from generate_series(1, 20) e, generate_series(1, 10) q`,
  // The latest response of each patient, as the service exports it.
  `insert into intake.export_rows (team_id, export_id, row_number, client_id, sent_at, completed_at)
   select 1, 'export-' || substr(form_id, 6), row_number() over (partition by form_id order by patient_id), patient_id, created_at, submitted_at
   from (
     select distinct on (form_id, patient_id) form_id, patient_id, created_at, submitted_at from intake.responses
     where submitted_at is not null and is_skipped is not true order by form_id, patient_id, submitted_at desc
   ) latest`,
  `insert into intake.export_cells select 1, export_id, row_number, q + 7, 'Never' from intake.export_rows, generate_series(1, 10) q`,
  ...RECORDS.map(
    ([stream, made]) => `
    insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, payload)
    select 1, '${stream}', id, now(), now(), decode(md5(id), 'hex'), 'bench',
      to_jsonb(t) || jsonb_build_object('created_at', ${made}, 'updated_at', ${made} + interval '1 day') from intake.${stream} t`,
  ),
  // Two in three patients and one response in five changed once.
  `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, payload)
   select team_id, stream, id, version - interval '1 day', observed_at - interval '1 day', false, decode(md5('was ' || id), 'hex'), 'bench',
     payload || jsonb_build_object('updated_at', payload -> 'created_at', 'city', 'Elsewhere')
   from intake_raw.records where (stream = 'patients' and hashtext(id) % 3 <> 0) or (stream = 'responses' and hashtext(id) % 5 = 0)`,
  `insert into intake_ops.runs (kind, status, options, started_at, finished_at) values ('backfill', 'succeeded', '{}', now(), now())`,
  `insert into intake_ops.run_streams (run_id, team_id, stream, status)
   select run_id, 1, stream, 'succeeded' from intake_ops.runs, (select distinct stream from intake_raw.records) r`,
  `vacuum analyze`,
]
