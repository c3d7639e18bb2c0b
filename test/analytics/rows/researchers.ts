/**
 * What researchers see of groups of ten and of eleven: forty patients, and for each column values on both sides of the bound.
 * The other team has the same records of everybody.
 */
import { codeOf, put, putTeams, type Run, type World } from './tables.ts'

const YEAR = new Date().getUTCFullYear()

/** The value of the nth of forty patients: `18 One, 11 Two` are the first eighteen and the next eleven. */
function spread(counts: string, shown = (value: string) => value): string {
  let until = 0
  const cases = counts.split(', ').map((each) => {
    const [, count, value] = /^(\d+) (.*)$/.exec(each)!
    until += Number(count)
    return `when n <= ${until} then ${shown(value!)}`
  })
  return `case ${cases.join(' ')} end`
}

const texts = (counts: string) => spread(counts, (value) => `'${value}'`)

const QUESTIONS = [
  ['three-small', 'dropdown', 'Three small', texts('18 One, 11 Two, 6 Three, 5 Four')],
  ['one-small', 'dropdown', 'One small', texts('19 One, 11 Two, 10 Three')],
  ['few-small', 'dropdown', 'Few small', texts('18 One, 12 Two, 6 Three, 4 Four')],
  ['all-large', 'dropdown', 'All large', texts('18 One, 11 Two, 11 Three')],
  ['other-words', 'dropdown', 'Other words', texts('18 One, 11 Elsewhere')],
  ['tick', 'checkbox', 'Tick', texts('29 true, 11 false')],
  ['rare-tick', 'checkbox', 'Rare tick', texts('30 true, 10 false')],
  ['asked-of-ten', 'dropdown', 'Asked of ten', texts('10 One')],
  ['asked-of-eleven', 'dropdown', 'Asked of eleven', texts('11 One')],
  ['number-22', 'number', 'Of twenty-two', spread('22 n::text')],
  ['number-21', 'number', 'Of twenty-one', spread('21 n::text')],
  ['undecided', 'number', 'Undecided', 'n::text'],
  ['age', 'number', 'Years that you are', '(60 + n)::text'],
  ['born', 'number', 'Year of birth', `(${YEAR} - 60 - n)::text`],
  ['date', 'date', 'Last visit', texts(`20 ${YEAR - 1}-02-03, 11 ${YEAR - 2}-02-03, 9 ${YEAR - 3}-02-03`)],
  ['town', 'dropdown', 'Which town', texts('20 One, 20 Two')],
] as const

async function fill(run: Run): Promise<void> {
  await putTeams(run)
  const people = `intake.teams cross join generate_series(1, 40) n`
  await run(
    `insert into intake.patients (team_id, id, date_birth, zipcode, state, sex_at_birth, _version, _origin)
     select team_id, 'p' || n,
       -- Eleven alike; then eleven who share all but the year, the area, the state, the sex; the rest share the band at most.
       make_date(${YEAR} - 45 + ${spread('11 0, 6 1, 5 2, 18 3')}, 1, 1),
       ${texts('22 02139, 6 90210, 12 10001')}, ${texts('22 MA, 11 CA, 7 NY')}, ${texts('33 Female, 7 Male')}, now(), 'test'
     from ${people}`,
  )
  await run(
    `insert into intake.patient_tags (team_id, patient_id, position, name)
     select team_id, 'p' || n, 1, 'common' from ${people} where n <= 29 union all
     select team_id, 'p' || n, 2, 'rare' from ${people} where n <= 10 union all
     select team_id, 'p' || n, 3, 'lacked' from ${people} where n <= 30 union all
     select team_id, 'p' || n, 4, 'undecided' from ${people}`,
  )
  await run(
    `insert into intake_ops.research_tags (team_id, name) select team_id, tag from intake.teams, unnest('{common,rare,lacked}'::text[]) own (tag)`,
  )
  await run(`insert into intake_ops.research_tags (team_id, name) values (2, 'undecided')`)
  await put(run, 'intake.forms', `id name\nbig Big\nmid Mid\neleven Eleven\nten Ten`)
  await put(run, 'intake.packets', `id name\nk Packet\nj Other`)
  await put(run, 'intake.documents', `id name\nd Document`)
  await run(
    `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
     select team_id, form, place, id, type, text from intake.teams, unnest('{big,mid}'::text[]) form,
       unnest($1::text[], $2::text[], $3::text[]) with ordinality q (id, type, text, place)`,
    [0, 1, 2].map((at) => QUESTIONS.map((question) => question[at])),
  )
  await run(
    `insert into intake.question_choices (team_id, form_id, question_position, position, question_id, text)
     select q.team_id, q.form_id, q.position, c.place, q.question_id, c.text from intake.form_questions q,
       unnest('{One,Two,Three,Four}'::text[]) with ordinality c (text, place) where q.question_type = 'dropdown'`,
  )
  await run(
    `insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, decided_by)
     select team_id, form_id, question_id, intake_ops.wording(question_type, text), true, 'person' from intake.form_questions
     where question_type in ('number', 'date')`,
  )
  await run(
    `insert into intake_ops.research_questions (team_id, form_id, question_id, wording, shows)
     select team_id, form_id, question_id, intake_ops.wording(question_type, text), 'visible' from intake.form_questions
     where question_type in ('number', 'date') and question_id <> 'undecided'`,
  )
  const response = (form: string, where: string, more: string) =>
    `select team_id, '${form} ' || n, 'p' || n, '${form}', ${more}, now(), 'test' from ${people} where ${where}`
  const at = (ago: number, day = '01-02') => `timestamptz '${YEAR - ago}-${day} 00:00Z'`
  await run(
    `insert into intake.responses (team_id, id, patient_id, form_id, is_submitted, is_skipped, is_archived, created_at, submitted_at,
       packet_id, document_id, _version, _origin)
     ${response(
       'big',
       'true',
       `n <= 29, n > 30, n > 50, ${spread(`20 ${at(0)}, 15 ${at(1)}, 5 ${at(2)}`)}, case when n <= 18 then ${at(0)} + interval '50 hours 59 minutes' when n <= 29 then ${at(0)} + interval '59 minutes' end,
       case when n <= 18 then 'k' when n <= 29 then 'j' end, case when n <= 10 then 'd' end`,
     )} union all
     ${response('mid', 'n <= 22', `n <= 11, n > 11, n > 12, ${at(0)}, ${at(0)} + interval '40 days', null, null`)} union all
     ${response('eleven', 'n <= 11', `true, false, false, ${at(0)}, ${at(0)}, null, null`)} union all
     ${response('ten', 'n <= 10', `true, false, false, ${at(0)}, ${at(0)}, null, null`)} union all
     select team_id, 'big again ' || n, 'p' || n, 'big', true, false, false, ${at(0)}, ${at(0, '03-03')}, 'k', null, now(), 'test' from ${people} where n <= 11`,
  )
  for (const [at, [id, , text, value]] of QUESTIONS.entries())
    await run(
      `insert into intake.response_answers (team_id, response_id, position, value_position, question_id, question_text, value_text,
         value_number, value_boolean, value_date)
       select team_id, 'big ' || n, ${at}, 1, '${id}', $1, value, case when value ~ '^[0-9]+$' then value::numeric end,
         case when value in ('true', 'false') then value = 'true' end, case when value ~ '^[0-9]{4}-' then value::date end
       from ${people} cross join lateral (select ${value} as value) own where '${id}' !~ '^asked' or value is not null`,
      [text],
    )
  await run(
    `insert into intake.messages (team_id, id, patient_id, form_id, preferred_delivery_method, status, created_at, sent_at, _version, _origin)
     select team_id, 'm' || n, 'p' || n, 'big', ${texts('29 email, 11 sms')}, ${texts('30 sent, 10 failed')}, ${at(0)},
       case when n <= 30 then ${at(0)} end, now(), 'test' from ${people} union all
     select team_id, 'n' || n, 'p' || n, 'ten', 'email', 'sent', ${at(0)}, ${at(0)}, now(), 'test' from ${people} where n <= 29`,
  )
  await run(
    `insert into intake.exports (team_id, id, form_id, name, _version, _origin) select team_id, 'e', 'big', 'E', now(), 'test' from intake.teams;
     insert into intake.export_columns (team_id, export_id, position, title, question_id)
       select team_id, 'e', position, text, question_id from intake.form_questions where form_id = 'big' and question_type <> 'number';
     insert into intake.export_rows (team_id, export_id, row_number, client_id, completed_at)
       select team_id, 'e', n, 'p' || n, ${spread(`29 ${at(0)}, 11 ${at(1)}`)} from ${people};
     insert into intake.export_cells (team_id, export_id, row_number, position, value)
       select a.team_id, 'e', substr(r.patient_id, 2)::int, c.position, a.value_text from intake.response_answers a
       join intake.responses r on r.team_id = a.team_id and r.id = a.response_id
       join intake.export_columns c on c.team_id = a.team_id and c.question_id = a.question_id
       where a.value_text is not null and r.form_id = 'big'`,
  )
}

/** Of each column that shows anything how many rows and patients have each value. */
const counted = (view: string, by: string, without: string) =>
  `select ${by}, key, string_agg(concat_ws(' ', coalesce(value, '-'), rows || '/' || people), ', ' order by value) as shown
   from (
     select ${by}, key, value, count(*) as rows, count(distinct patient) as people
     from intake_safe_harbor.${view} x, jsonb_each_text(to_jsonb(x) - '{team_id,patient,${by},${without}}'::text[])
     where key !~ 'submitted|completed' or ${by} in ('All large', 'Asked of eleven') or '${by}' <> 'question_text'
     group by 1, 2, 3
   ) own group by 1, 2 having count(value) > 0`

export const RESEARCHERS: World = {
  name: 'groups of patients',
  ids: [],
  fill,
  promises: [
    {
      promise:
        'a patient is described with what eleven share: without the year, the area, the state, the sex, until enough do; and with tags that eleven have and lack',
      role: 'intake_researcher',
      query: `select ${YEAR} - birth_year as years, age_band, zip3, state, sex_at_birth, tags, count(*) from intake_safe_harbor.patients group by 1, 2, 3, 4, 5, 6`,
      rows: `
        - - - - - [] 7
        - 40-49 - CA Female ["common"] 7
        - 40-49 - CA Female [] 4
        - 40-49 021 MA Female ["common"] 11
        45 40-49 021 MA Female ["common"] 11`,
    },
    {
      promise:
        'a response has values of eleven patients of its form; of fewer none, nor of the next larger one; it is the nth of its patient',
      role: 'intake_researcher',
      query: counted('responses', 'form', 'response_id,form_id,packet_id,document_id'),
      rows: `
        Big created_year YEAR~31/20,~-~20/20
        Big is_archived false~51/40
        Big is_submitted false~11/11,~true~40/29
        Big packet Other~11/11,~Packet~29/18,~-~11/11
        Big submitted_year YEAR~40/29,~-~11/11
        Big time_to_submit 00:00:00~2/2,~2~days~02:00:00~18/18,~720:00:00~11/11,~-~20/20
        Big visit 1~40/40,~2~11/11
        Mid created_year YEAR~22/22
        Mid is_skipped false~11/11,~true~11/11
        Mid is_submitted false~11/11,~true~11/11
        Mid submitted_year YEAR~22/22
        Mid time_to_submit 720:00:00~22/22
        Mid visit 1~22/22`,
    },
    {
      promise:
        'an answer has choices, ticks, years and numbers of eleven patients each; those of fewer are hidden together, or with the next larger one',
      role: 'intake_researcher',
      query: counted(
        'answers',
        'question_text',
        'response_id,form_id,question_id,form,value_position,question_type',
      ),
      rows: `
        All~large choice One~18/18,~Three~11/11,~Two~11/11
        All~large is_answered true~40/40
        All~large is_shown true~40/40
        All~large is_submitted false~11/11,~true~29/29
        All~large submitted_year YEAR~29/29,~-~11/11
        Asked~of~eleven choice One~11/11
        Asked~of~eleven is_answered true~11/11
        Asked~of~eleven is_shown true~11/11
        Asked~of~eleven is_submitted true~11/11
        Asked~of~eleven submitted_year YEAR~11/11
        Few~small choice One~18/18,~-~22/22
        Few~small is_answered true~40/40
        Few~small is_shown true~40/40
        Last~visit is_answered true~40/40
        Last~visit is_shown true~40/40
        Last~visit value_year YEAR-1~20/20,~-~20/20
        Of~twenty-one is_answered false~19/19,~true~21/21
        Of~twenty-one is_shown true~40/40
        Of~twenty-two is_answered false~18/18,~true~22/22
        Of~twenty-two is_shown true~40/40
        Of~twenty-two value_number 11~11/11,~12~11/11,~-~18/18
        One~small choice One~19/19,~-~21/21
        One~small is_answered true~40/40
        One~small is_shown true~40/40
        Other~words choice One~18/18,~-~22/22
        Other~words is_answered false~11/11,~true~29/29
        Other~words is_shown true~40/40
        Rare~tick is_answered true~40/40
        Rare~tick is_shown true~40/40
        Three~small choice One~18/18,~Two~11/11,~-~11/11
        Three~small is_answered true~40/40
        Three~small is_shown true~40/40
        Tick is_answered true~40/40
        Tick is_shown true~40/40
        Tick value_boolean false~11/11,~true~29/29
        Undecided is_answered true~40/40
        Undecided is_shown false~40/40
        Which~town is_answered true~40/40
        Which~town is_shown false~40/40
        Years~that~you~are is_answered true~40/40
        Years~that~you~are is_shown true~40/40
        Years~that~you~are value_number 71~11/11,~72~1/1,~73~1/1,~74~1/1,~75~1/1,~76~1/1,~77~1/1,~78~1/1,~79~1/1,~80~1/1,~81~1/1,~82~1/1,~83~1/1,~84~1/1,~85~1/1,~86~1/1,~87~1/1,~88~1/1,~89~1/1,~90~11/11
        Year~of~birth is_answered true~40/40
        Year~of~birth is_shown true~40/40
        Year~of~birth value_number 1947~11/11,~1948~1/1,~1949~1/1,~1950~1/1,~1951~1/1,~1952~1/1,~1953~1/1,~1954~1/1,~1955~11/11,~-~11/11`,
    },
    {
      promise: 'a message has values of eleven patients of its target, whose form is shown',
      role: 'intake_researcher',
      query: counted('message_outcomes', 'form', 'message_id,form_id,packet_id'),
      rows: `
        Big channel email~29/29,~sms~11/11
        Big is_answered false~40/40
        Big is_opened false~40/40`,
    },
    {
      promise: 'a packet has values of eleven patients',
      role: 'intake_researcher',
      query: counted('packet_progress', 'packet', 'packet_response_id,packet_id'),
      rows: `
        Other activity submitted~11/11
        Other is_archived false~11/11
        Other is_submitted true~11/11
        Other submitted_year YEAR~11/11
        Packet activity submitted~29/18
        Packet created_year YEAR~29/18
        Packet is_archived false~29/18
        Packet is_submitted true~29/18
        Packet submitted_year YEAR~29/18
        Packet time_to_submit 2~days~02:00:00~18/18,~720:00:00~11/11`,
    },
    {
      promise: 'a cell of an export has choices and ticks of eleven patients, that answers show too',
      role: 'intake_researcher',
      query: counted(
        'export_answers',
        'question_text',
        'row_id,form_id,form,question_id,export_id,question_type',
      ),
      rows: `
        All~large choice One~18/18,~Three~11/11,~Two~11/11
        All~large completed_year YEAR-1~11/11,~YEAR~29/29
        All~large is_shown true~40/40
        Asked~of~eleven choice One~11/11
        Asked~of~eleven completed_year YEAR~11/11
        Asked~of~eleven is_shown true~11/11
        Few~small choice One~18/18,~-~22/22
        Few~small is_shown true~40/40
        Last~visit is_shown false~40/40
        One~small choice One~19/19,~-~21/21
        One~small is_shown true~40/40
        Other~words choice One~18/18,~-~11/11
        Other~words is_shown true~29/29
        Rare~tick is_shown true~40/40
        Three~small choice One~18/18,~Two~11/11,~-~11/11
        Three~small is_shown true~40/40
        Tick is_shown true~40/40
        Tick value_boolean false~11/11,~true~29/29
        Which~town is_shown false~40/40`,
    },
    {
      promise: 'a form counts what eleven patients did, where nothing that it counts is hidden',
      role: 'intake_researcher',
      query: `select form, started, submitted, skipped, open, archived, share_submitted, median_time, first_started_year, last_submitted_year
        from intake_safe_harbor.form_completion`,
      rows: `
        Mid 22 11 11 11 - 1 720:00:00 YEAR YEAR
        Big 51 - - 11 0 - - YEAR YEAR`,
    },
    {
      promise: 'a year counts what happened to eleven patients',
      role: 'intake_researcher',
      query: `select year, form, responses_asked, responses_submitted, messages_sent from intake_safe_harbor.yearly_volume`,
      rows: `
        YEAR Mid 22 11 -
        YEAR Big 31 - -`,
    },
    {
      promise: 'questions are those of forms that are shown which eleven patients were asked',
      role: 'intake_researcher',
      query: `select form, question_text, question_type, is_asked, position, question_id = any (array[${QUESTIONS.map(([id]) => `'${codeOf(id, 'question')}'`).join()}]) as is_code from intake_safe_harbor.questions`,
      rows: `
        Big All~large dropdown true 4 true
        Big Asked~of~eleven dropdown true 9 true
        Big Few~small dropdown true 3 true
        Big Last~visit date true 15 true
        Big Of~twenty-one number true 11 true
        Big Of~twenty-two number true 10 true
        Big One~small dropdown true 2 true
        Big Other~words dropdown true 5 true
        Big Rare~tick checkbox true 7 true
        Big Three~small dropdown true 1 true
        Big Tick checkbox true 6 true
        Big Undecided number true 12 true
        Big Which~town dropdown true 16 true
        Big Years~that~you~are number true 13 true
        Big Year~of~birth number true 14 true`,
    },
    {
      promise: 'choices are those of such questions, unless they ask for a place',
      role: 'intake_researcher',
      query: `select form, question_text, question_position, position, choice from intake_safe_harbor.choices`,
      rows: `
        Big All~large 4 1 One
        Big All~large 4 2 Two
        Big All~large 4 3 Three
        Big All~large 4 4 Four
        Big Asked~of~eleven 9 1 One
        Big Asked~of~eleven 9 2 Two
        Big Asked~of~eleven 9 3 Three
        Big Asked~of~eleven 9 4 Four
        Big Few~small 3 1 One
        Big Few~small 3 2 Two
        Big Few~small 3 3 Three
        Big Few~small 3 4 Four
        Big One~small 2 1 One
        Big One~small 2 2 Two
        Big One~small 2 3 Three
        Big One~small 2 4 Four
        Big Other~words 5 1 One
        Big Other~words 5 2 Two
        Big Other~words 5 3 Three
        Big Other~words 5 4 Four
        Big Three~small 1 1 One
        Big Three~small 1 2 Two
        Big Three~small 1 3 Three
        Big Three~small 1 4 Four`,
    },
  ],
}
