/** Answers and cells: what is shown of each kind of question, and whether there is an answer at all. */
import { put, putTeams, type Run, type World } from './tables.ts'

/** A question of each kind, seen by its type, by a decision, and hidden. */
const KINDS = [
  'dropdown',
  'number',
  'checkbox',
  'date',
  'short_text',
  'matrix',
  'file',
  'signature',
  'hologram',
  'display_only',
]

async function fill(run: Run): Promise<void> {
  await putTeams(run)
  await put(run, 'intake.patients', `id\nann`)
  await put(run, 'intake.forms', `id name\nf Form\nh Other`)
  const questions = KINDS.flatMap((kind, at) => [
    `f ${at + 1} typed-${kind} ${kind} Typed~${kind} link-${at} ${at}`,
    `f ${at + 101} open-${kind} ${kind} Open~${kind} - -`,
  ])
  await put(
    run,
    'intake.form_questions',
    [
      'form_id position question_id question_type text link_id page',
      ...questions,
      'f 200 typed-number number Typed~number - -',
      'f 201 gone number Gone - -',
      'f 202 twice number Twice - -',
      'f 203 twice number Twice,~again - -',
      'g 1 typed-number number Typed~number g-link 7',
      'h 9 typed-number number Number~of~h - -',
    ].join('\n'),
  )
  await put(
    run,
    'intake.question_choices',
    `form_id question_position question_id    position text   code points
     f       1                 typed-dropdown 1        One    c1   1
     f       1                 typed-dropdown 2        Two    -    -
     f       1                 typed-dropdown 3        -      c3   3
     f       101               open-dropdown  1        One    -    -
     f       105               open-short_text 1       words  -    -
     h       9                 typed-number   1        One    -    -
     g       1                 typed-number   1        One    -    -`,
  )
  await put(
    run,
    'intake_raw.question_concepts',
    `form_id question_id concept\nf typed-number weight\nh typed-number height`,
  )
  await run(
    `insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, decided_by)
     select team_id, form_id, question_id, intake_ops.wording(question_type, text), question_id ~ '^open', 'person'
     from intake.form_questions where question_id ~ '^open'`,
  )
  // Decisions on former wordings: of another form, team, question or type, by the type, and one that counts.
  await run(
    `insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, decided_by)
     select team_id, form_id, question_id, intake_ops.wording(type, text), true, by
     from (values (1, 'h', 'open-number', 'number', 'Former', 'person'), (2, 'f', 'open-number', 'number', 'Former', 'person'),
       (1, 'f', 'open-date', 'number', 'Former', 'person'), (1, 'f', 'open-number', 'date', 'Former', 'person'),
       (1, 'f', 'open-number', 'number', 'Older', 'type'), (1, 'f', 'open-number', 'number', 'Before', 'person')
     ) own (team_id, form_id, question_id, type, text, by)`,
  )
  await run(`delete from intake.form_questions where question_id = 'gone'`)
  await put(
    run,
    'intake.responses',
    `id patient_id form_id submitted_at      _deleted_at
     r  ann        f       2026-03-02T00:00Z -
     s  -          g       -                 -`,
  )
  const year = new Date().getUTCFullYear()
  await put(
    run,
    'intake.response_answers',
    `response_id position value_position question_id      value_text  value_number value_boolean value_date
     r           1        1              typed-dropdown    One         1            t             -
     r           1        2              typed-dropdown    Three       3            t             -
     r           2        1              typed-number      12          12           t             -
     r           3        1              typed-checkbox    true        1            t             -
     r           4        1              typed-date        2001-02-03  2001         t             2001-02-03
     r           5        1              typed-short_text  words       5            t             -
     r           6        1              typed-hologram    words       5            t             -
     r           7        1              open-dropdown     One         1            t             -
     r           8        1              open-dropdown     other       8            f             -
     r           9        1              open-number       12          12           -             -
     r           10       1              open-number       ''          -            -             -
     r           11       1              open-checkbox     false       -            f             -
     r           12       1              open-date         2001-02-03  20           -             2001-02-03
     r           13       1              open-date         ${year - 89}0203    -            -             -
     r           31       1              open-date         20090203    -            -             -
     r           14       1              open-date         ${year - 90}0203    -            -             -
     r           15       1              open-date         ${year - 89}-02-03  -            -             ${year - 89}-02-03
     r           16       1              open-date         ${year - 90}-02-03  -            -             ${year - 90}-02-03
     r           17       1              open-date         soon        -            -             -
     r           18       1              open-short_text   words       5            t             -
     r           19       1              open-short_text   2001-02-03  -            -             2001-02-03
     r           20       1              open-short_text   2001        2001         -             -
     r           21       1              open-hologram     words       5            t             -
     r           22       1              gone              13          13           -             -
     r           23       1              twice             14          14           -             -
     r           24       1              never-asked       15          15           t             -
     r           25       1              -                 16          16           t             -
     s           1        1              typed-number      17          17           -             -`,
  )
  await put(
    run,
    'intake.response_answers',
    `response_id position value_position question_id question_text value_text value_number
     r           26       1              open-number Former        26         26
     r           27       1              open-number Older         27         27
     r           28       1              open-number Before        28         28
     r           29       1              open-number ''            29         29
     r           30       1              open-number Open~number   30         30`,
  )
}

const VALUES = 'choice, value_number, value_boolean, value_year, value_text'

export const ANSWERS: World = {
  name: 'answers',
  ids: ['ann'],
  fill,
  promises: [
    {
      promise:
        'show by the type of their question its choices, numbers and ticks; by a decision also texts, and the year of dates of the last ninety years',
      query: `select response_id, position, value_position, question_id, is_shown, is_answered, ${VALUES} from intake_analytics.answers`,
      rows: `
        r 1  1 typed-dropdown   true  true  One -    -     -    -
        r 1  2 typed-dropdown   true  true  -   -    -     -    -
        r 2  1 typed-number     true  true  -   12   -     -    -
        r 3  1 typed-checkbox   true  true  -   -    true  -    -
        r 4  1 typed-date       false true  -   -    -     -    -
        r 5  1 typed-short_text false true  -   -    -     -    -
        r 6  1 typed-hologram   false true  -   -    -     -    -
        r 7  1 open-dropdown    true  true  One 1    true  -    One
        r 8  1 open-dropdown    true  true  -   8    false -    other
        r 9  1 open-number      true  true  -   12   -     -    12
        r 10 1 open-number      true  false -   -    -     -    ''
        r 11 1 open-checkbox    true  true  -   -    false -    false
        r 12 1 open-date        true  true  -   -    -     2001 -
        r 13 1 open-date        true  true  -   -    -     YEAR-89 -
        r 14 1 open-date        true  true  -   -    -     -    -
        r 31 1 open-date        true  true  -   -    -     2009 -
        r 15 1 open-date        true  true  -   -    -     YEAR-89 -
        r 16 1 open-date        true  true  -   -    -     -    -
        r 17 1 open-date        true  true  -   -    -     -    -
        r 18 1 open-short_text  true  true  -   5    true  -    words
        r 19 1 open-short_text  true  true  -   -    -     2001 -
        r 20 1 open-short_text  true  true  -   2001 -     -    2001
        r 21 1 open-hologram    true  true  -   5    true  -    words
        r 22 1 gone             true  true  -   13   -     -    -
        r 23 1 twice            false true  -   -    -     -    -
        r 24 1 never-asked      false true  -   -    -     -    -
        r 25 1 -                false true  -   -    -     -    -
        s 1  1 typed-number     true  true  -   17   -     -    -
        r 26 1 open-number      false true  -   -    -     -    -
        r 27 1 open-number      false true  -   -    -     -    -
        r 28 1 open-number      true  true  -   28   -     -    28
        r 29 1 open-number      true  true  -   29   -     -    29
        r 30 1 open-number      true  true  -   30   -     -    30`,
    },
    {
      promise: 'name their patient, form, question and concept',
      query: `select position, patient, form_id, form, submitted_at, question_text, question_type, concept, is_reworded
        from intake_analytics.answers where response_id = 's' or position in (2, 24, 25) or position > 25`,
      rows: `
        2  ann f Form 2026-03-02T00:00 Typed~number number weight false
        24 ann f Form 2026-03-02T00:00 -            -      -      false
        25 ann f Form 2026-03-02T00:00 -            -      -      false
        1  -   g -    -                Typed~number number -      false
        26 ann f Form 2026-03-02T00:00 Open~number  number -      true
        27 ann f Form 2026-03-02T00:00 Open~number  number -      true
        28 ann f Form 2026-03-02T00:00 Open~number  number -      true
        29 ann f Form 2026-03-02T00:00 Open~number  number -      false
        30 ann f Form 2026-03-02T00:00 Open~number  number -      false
        31 ann f Form 2026-03-02T00:00 Open~date    date   -      false`,
    },
    {
      promise:
        'belong to questions, each once, with its first place, its link and page, and whether it is shown, asked or waits',
      query: `select form_id, form, question_id, position, question_text, question_type, concept, is_shown, is_asked, waits, link_id, page
        from intake_analytics.questions where question_id !~ '^open' or question_id = 'open-number'`,
      rows: [
        ...KINDS.map((kind, at) =>
          [
            ...['f Form', `typed-${kind}`, at + 1, `Typed~${kind}`, kind, kind === 'number' ? 'weight' : '-'],
            ...[['dropdown', 'number', 'checkbox'].includes(kind), 'true', 'false', `link-${at}`, at],
          ].join(' '),
        ),
        'f Form open-number 102 Open~number number - true true false - -',
        'h Other typed-number 9 Number~of~h number height true true false - -',
        'g - typed-number 1 Typed~number number - true true false g-link 7',
        'f Form gone 201 Gone number - true false false - -',
        'f Form twice 202 Twice number - false true false - -',
      ].join('\n'),
    },
    {
      promise: 'are among the choices that the form offers now, with their codes and points',
      query: `select form_id, form, question_id, question_text, question_position, position, choice, concept, code, points
        from intake_analytics.choices`,
      rows: `
        f Form typed-dropdown Typed~dropdown 1   1 One - c1 1
        f Form typed-dropdown Typed~dropdown 1   2 Two - -  -
        f Form open-dropdown  Open~dropdown  101 1 One - -  -
        f Form open-short_text Open~short_text 105 1 words - - -
        h Other typed-number  Number~of~h    9   1 One height - -
        g -    typed-number   Typed~number   1   1 One - -  -`,
    },
  ],
}
