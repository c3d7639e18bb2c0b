/** Cells of exports: what is read from their texts, and on which terms it is shown. */
import { put, putTeams, type Run, type World } from './tables.ts'

/** Of as many digits as are read, before and after the point, and of one more. */
const LONG = [60, 61].flatMap((length) => [
  '9'.repeat(length),
  `9.${'9'.repeat(length)}`,
  `.${'9'.repeat(length)}`,
])
const NUMBERS = [
  ...['12', '~-3.50~', '+3', '.5', '5.', '1e2', '2E-1', 'e5', '12a', '1,5', '٤', '-', '1e100'],
  ...['-0.90', '.09', '9e-10', '9e09', ...LONG],
]
const TICKS = ['confirmed', 'TRUE', '~Yes~', 'false', 'No', 'n', '1']
const CHOICES = ['yes', '1', 'One', 'One,~Two', 'One;~Two', 'Two;~One,~Two', 'One,Two', 'One,~other', 'One;~']
const DATES = [
  '2001-02-03',
  '~2001-02-03T04:05',
  'on~2001-02-03',
  '2001-02',
  'YEAR-89-01-01',
  'YEAR-90-01-01',
  '1999-09-29',
  '20010203',
]
const year = new Date().getUTCFullYear()

async function fill(run: Run): Promise<void> {
  await putTeams(run)
  await put(run, 'intake.patients', `id\nann`)
  await put(run, 'intake.forms', `id name\nf Form`)
  await put(
    run,
    'intake.form_questions',
    `form_id position question_id question_type text
     f       1        number      number        Number
     f       2        tick        checkbox      Tick
     f       3        choice      dropdown      Choice
     f       4        open-number number        Open~number
     f       5        open-tick   checkbox      Open~tick
     f       6        open-date   date          Open~date
     f       7        open-text   short_text    Open~text
     f       8        open-cells  matrix        Open~cells
     f       9        text        short_text    Text
     f       10       date        date          Date`,
  )
  await put(
    run,
    'intake.question_choices',
    `form_id question_position question_id position text
     f       3                 choice      1        One
     f       3                 choice      2        Two
     f       7                 open-text   1        words`,
  )
  await put(run, 'intake_raw.question_concepts', `form_id question_id concept\nf number weight`)
  await run(
    `insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, decided_by)
     select team_id, form_id, question_id, intake_ops.wording(question_type, text), true, 'person'
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
  await put(run, 'intake.exports', `id form_id name\ne f Export\nother g Other`)
  await put(
    run,
    'intake.export_columns',
    `export_id position question_id title
     e         1        number      Number
     e         2        tick        Tick
     e         3        choice      Choice
     e         4        open-number Open~number
     e         5        open-tick   Open~tick
     e         6        open-date   Open~date
     e         7        open-text   Open~text
     e         8        open-cells  Open~cells~-~Row~-~Column
     e         9        -           Nothing
     e         10       text        Text
     e         11       date        Date
     e         12        open-cells  Other~cells~-~Row~-~Column
     e         14       open-number Former
     e         15       open-number Older
     e         16       open-number Before
     other     1        number      Number`,
  )
  // In both teams the titles are the words of their own form.
  await run(
    `update intake.export_columns set title = replace(replace(title, 'Open', 'Open'), ' - Row', ' of 2 - Row') where team_id = 2 and title ~ ' - '`,
  )
  await run(`update intake.export_columns set title = title || ' of 2' where team_id = 2 and title !~ ' - '`)
  await put(
    run,
    'intake.export_rows',
    `export_id row_number client_id sent_at           completed_at      archived
     e         1          ann       2026-03-01T00:00Z 2026-03-02T00:00Z t
     e         2          -         -                 -                 -
     other     1          ann       -                 -                 f`,
  )
  const of = (position: number, values: readonly string[], row = 0) =>
    values.map(
      (value, at) =>
        `e ${row + at + 1} ${position} ${value.replace(/YEAR-(\d+)/, (_, ago) => String(year - ago))}`,
    )
  await put(
    run,
    'intake.export_rows',
    ['export_id row_number', ...Array.from({ length: 30 }, (_, at) => `e ${at + 101}`)].join('\n'),
  )
  await put(
    run,
    'intake.export_cells',
    [
      'export_id row_number position value',
      ...of(
        1,
        NUMBERS.map((each) => (each === '-' ? '--' : each)),
        100,
      ),
      ...of(2, TICKS, 100),
      ...of(3, CHOICES, 100),
      ...of(6, DATES, 100),
      ...of(7, DATES, 100),
      ...[
        'e 1 4 12',
        'e 1 5 yes',
        'e 1 7 words',
        'e 1 8 cell',
        'e 1 9 nothing',
        'e 1 10 words',
        'e 1 11 2001-02-03',
      ],
      ...['e 1 12 cell', 'e 2 7 12', 'e 2 13 nowhere', 'other 1 1 12', 'e 1 14 14', 'e 1 15 15', 'e 1 16 16'],
    ].join('\n'),
  )
}

const column = (position: number, shown: string) =>
  `select row_number - 100 as row, ${shown} from intake_analytics.export_answers where position = ${position} and row_number > 100`

export const CELLS: World = {
  name: 'cells of exports',
  ids: ['ann'],
  fill,
  promises: [
    {
      promise: 'that are numbers are read with sign, fraction and exponent; any other text is none',
      query: column(1, 'value_number::text'),
      rows: `
        1 12
        2 -3.50
        3 3
        4 0.5
        5 5
        6 100
        7 0.2
        8 -
        9 -
        10 -
        11 -
        12 -
        13 -
        14 -0.90
        15 0.09
        16 0.0000000009
        17 9000000000
        18 ${LONG[0]}
        19 ${LONG[1]}
        20 0${LONG[2]}
        21 ${LONG[3]}
        22 -
        23 -`,
    },
    {
      promise: 'that are ticks are read in each word that the service uses',
      query: column(2, 'value_boolean, value_number'),
      rows: `
        1 true  -
        2 true  -
        3 true  -
        4 false -
        5 false -
        6 -     -
        7 -     -`,
    },
    {
      promise: 'with several choices are shown if each is one of the form',
      query: column(3, 'choice, value_boolean, value_number'),
      rows: `
        1 - - -
        2 - - -
        3 One - -
        4 One,~Two - -
        5 One;~Two - -
        6 Two;~One,~Two - -
        7 - - -
        8 - - -
        9 - - -`,
    },
    {
      promise: 'to a date show the year, of the last ninety years',
      query: column(6, 'value_year, value_text, value_number'),
      rows: `
        1 2001    - -
        2 2001    - -
        3 -       - -
        4 -       - -
        5 YEAR-89 - -
        6 -       - -
        7 1999    - -
        8 -       - -`,
    },
    {
      promise: 'to a text show the year of a date, or the text',
      query: column(7, 'value_year, value_text'),
      rows: `
        1 2001 -
        2 2001 -
        3 - on~2001-02-03
        4 - 2001-02
        5 YEAR-89 -
        6 - -
        7 1999 -
        8 - 20010203`,
    },
    {
      promise:
        'are shown on the terms of the question that their column is matched to, by the wording of its title',
      query: `select export_id, row_number, position, question_id, is_shown, choice, value_number, value_boolean, value_year, value_text
        from intake_analytics.export_answers where row_number < 100`,
      rows: `
        e     1 4  open-number true  - 12 -    - 12
        e     1 5  open-tick   true  - -  true - yes
        e     1 7  open-text   true  - -  -    - words
        e     1 8  open-cells  true  - -  -    - cell
        e     1 9  -           false - -  -    - -
        e     1 10 text        false - -  -    - -
        e     1 11 date        false - -  -    - -
        e     1 12 open-cells  false - -  -    - -
        e     2 7  open-text   true  - 12 -    - 12
        e     2 13 -           false - -  -    - -
        other 1 1  number      false - -  -    - -
        e     1 14 open-number false - -  -    - -
        e     1 15 open-number false - -  -    - -
        e     1 16 open-number true  - 16 -    - 16`,
    },
    {
      promise: 'have the times of their row, and the names of form, question and concept',
      query: `select export_id, row_number, position, patient, form_id, form, sent_at, completed_at, is_archived, question_text, question_type, concept
        from intake_analytics.export_answers where row_number < 3 and position in (1, 4, 7, 13) or row_number = 101 and position = 1`,
      rows: `
        e     1   4  ann f Form 2026-03-01T00:00 2026-03-02T00:00 true  Open~number number     -
        e     1   7  ann f Form 2026-03-01T00:00 2026-03-02T00:00 true  Open~text   short_text -
        e     2   7  -   f Form -                -                -     Open~text   short_text -
        e     2   13 -   f Form -                -                -     -           -          -
        e     101 1  -   f Form -                -                -     Number      number     weight
        other 1   1  ann g -    -                -                false -           -          -`,
    },
  ],
}
