/** Questions as their forms change: kinds, decisions, choices, columns of exports. */
import { put, putTeams, type Run, type World } from './tables.ts'

const KINDS = {
  choice: 'single_choice multiple_choice choice radio dropdown select multi_select multiple_select',
  number: 'number integer decimal numeric scale slider rating',
  checkbox: 'checkbox boolean yes_no',
  date: 'date datetime',
  text: 'time short_text long_text text',
  matrix: 'matrix',
  file: 'file',
  signature: 'signature',
  none: 'display_only repeated_block',
  other: 'hologram',
}
const KIND_OF = Object.entries(KINDS).flatMap(([kind, types]) =>
  types.split(' ').map((type) => [type, kind] as const),
)

const decide = (question: string, visible: boolean, by = 'person') =>
  `insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, decided_by, decided_at)
   select team_id, form_id, question_id, intake_ops.wording(question_type, text), ${visible}, '${by}', clock_timestamp()
   from intake.form_questions where question_id ~ '^${question}$'`
const reword = (question: string, text: string) =>
  `update intake.form_questions set text = '${text}' where question_id ~ '^${question}$' and team_id = 1`

async function fill(run: Run): Promise<void> {
  await putTeams(run)
  await put(run, 'intake.forms', `id name\nkinds Kinds\nf Form\n${'x'.repeat(500)} Long`)
  const kinds = KIND_OF.map(([type], at) => `kinds ${at + 1} ${type} ${type.toUpperCase()} ${type}`)
  await put(
    run,
    'intake.form_questions',
    ['form_id position question_id question_type text', ...kinds].join('\n'),
  )
  await put(
    run,
    'intake.form_questions',
    `form_id position question_id question_type text
     f       1        a-choice    dropdown      One
     f       2        a-number    number        One
     f       3        a-text      text          One
     f       4        a-none      display_only  One
     f       5        h-choice    dropdown      One
     f       6        h-text      text          One
     f       7        t-choice    dropdown      One
     f       8        t-text      text          One
     f       9        untitled    text          -
     f       10       twice       number        Twice
     f       11       twice       number        Twice
     f       12       types       number        Types
     f       13       types       text          Types
     f       14       left        number        Left
     f       15       left-hidden number        Left
     f       16       ${'y'.repeat(500)} number Long
     f       17       ${'y'.repeat(501)} number Long
     ${'x'.repeat(500)} 1 ${'z'.repeat(500)} number Long
     ${'x'.repeat(501)} 1 ${'z'.repeat(500)} number Long`,
  )
  await run(decide('a-.*', true))
  await run(decide('h-.*|left-hidden', false))
  await run(decide('t-.*', true, 'type').replace(', true,', `, question_id = 't-choice',`))
  await run(reword('.-.*', 'Two'))
  await run(`update intake.form_questions set text = '' where question_id = 'untitled'`)
  await run(`delete from intake.form_questions where question_id ~ '^left'`)
  // A tie: hidden counts.
  await put(
    run,
    'intake.form_questions',
    `form_id position question_id question_type text\nf 20 tie dropdown One`,
  )
  await run(decide('tie', true))
  await run(`update intake.form_questions set text = 'Two' where question_id = 'tie'`)
  await run(decide('tie', false))
  await run(`update intake_ops.classifications set decided_at = '2026-01-01' where question_id = 'tie'`)
  await run(`update intake.form_questions set text = 'Three' where question_id = 'tie'`)
  await put(
    run,
    'intake.question_choices',
    `form_id question_position question_id position text
     f       1                 a-choice    1        Zero
     f       1                 a-choice    2        Two
     f       1                 a-choice    3        -
     f       7                 t-choice    1        Zero`,
  )
  await run(
    `update intake.question_choices set text = 'One' where question_id = 'a-choice' and text = 'Zero' and team_id = 1`,
  )
  await run(`delete from intake.question_choices where text = 'Two' and team_id = 1`)
  await putExports(run)
}

/** Columns of exports, matched again when their form changes. */
async function putExports(run: Run): Promise<void> {
  await put(run, 'intake.exports', `id form_id\ne g\nother f`)
  const titles = [
    'Same',
    'Twice',
    'Different',
    'Matrix - Row - Column',
    'Matrix - Row',
    'Matrix',
    'Text - Row - Column',
    ' - Row - Column',
    'None',
    'Gone',
    'Untold',
  ]
  for (const [at, title] of titles.entries())
    await run(
      `insert into intake.export_columns (team_id, export_id, position, title, question_id)
       select team_id, export_id, ${at + 1}, $1, case when $1 in ('Gone', 'Same') then 'former' end from intake.teams, unnest('{e,other}'::text[]) export_id`,
      [title],
    )
  await put(
    run,
    'intake.form_questions',
    `form_id position question_id question_type text
     g       1        same        number        Same
     g       2        twice       number        Twice
     g       3        twice       number        Twice
     g       4        one         number        Different
     g       5        another     number        Different
     g       6        grid        matrix        Matrix
     g       7        words       text          Text
     g       8        blank       matrix        ''
     g       9        -           number        Untold`,
    [1],
  )
  await put(
    run,
    'intake.form_questions',
    `form_id position question_id question_type text\ng 1 theirs number None`,
    [2],
  )
}

const STATES = `position, kind, decided_by, shows, is_asked, waits`

export const TERMS: World = {
  name: 'questions',
  ids: [],
  fill,
  promises: [
    {
      promise:
        'have a kind by their type, whose answers are shown at once only if they are choices, numbers or ticks',
      role: 'intake_clinical',
      query: `select question_id, question_text, question_type, concept, ${STATES} from intake.questions where form_id = 'kinds'`,
      rows: KIND_OF.map(([type, kind], at) =>
        [
          ...[type, type, type.toUpperCase(), '-', at + 1, kind, '-'],
          ...[['choice', 'number', 'checkbox'].includes(kind) ? 'structured' : 'nothing', true, false],
        ].join(' '),
      ).join('\n'),
    },
    {
      promise:
        'that were decided on and reworded wait, if something of them was or would be shown; ids of more than 500 bytes have no terms',
      role: 'intake_clinical',
      query: `select left(form_id, 1) as form, left(question_id, 12) as question, question_text, ${STATES} from intake.questions where form_id <> 'kinds' and form_id <> 'g'`,
      rows: `
        f a-choice     Two    1  choice -      nothing    true  true
        f a-number     Two    2  number -      nothing    true  true
        f a-text       Two    3  text   -      nothing    true  true
        f a-none       Two    4  none   -      nothing    true  false
        f h-choice     Two    5  choice -      nothing    true  true
        f h-text       Two    6  text   -      nothing    true  false
        f t-choice     Two    7  choice -      structured true  true
        f t-text       Two    8  text   -      nothing    true  false
        f untitled     ''     9  text   -      nothing    true  false
        f twice        Twice  10 number -      structured true  false
        f types        Types  12 number -      nothing    true  false
        f left         Left   14 number -      structured false false
        f left-hidden  Left   15 number person nothing    false false
        f yyyyyyyyyyyy Long   16 number -      structured true  false
        x zzzzzzzzzzzz Long   1  number -      structured true  false
        f tie          Three  20 choice -      nothing    true  true`,
    },
    {
      promise: 'remember every choice that they ever offered, and whether they were reworded',
      role: 'owner',
      query: `select team_id, question_id, choices, is_reworded from intake_raw.question_terms where form_id = 'f' and length(question_id) < 50`,
      rows: `
        1 a-choice    ["One","Two","Zero"] true
        1 a-number    []                   true
        1 a-text      []                   true
        1 a-none      []                   true
        1 h-choice    []                   true
        1 h-text      []                   true
        1 t-choice    ["Zero"]             true
        1 t-text      []                   true
        1 untitled    []                   false
        1 twice       []                   false
        1 types       []                   false
        1 left        []                   false
        1 left-hidden []                   false
        1 tie         []                   true
        2 a-choice    ["Two~of~2","Zero~of~2"] false
        2 a-number    []                   false
        2 a-text      []                   false
        2 a-none      []                   false
        2 h-choice    []                   false
        2 h-text      []                   false
        2 t-choice    ["Zero~of~2"]        false
        2 t-text      []                   false
        2 untitled    []                   false
        2 twice       []                   false
        2 types       []                   false
        2 left        []                   false
        2 left-hidden []                   false
        2 tie         []                   true`,
    },
    {
      promise:
        'are found for columns of exports of their form by their titles, if only one has that text, or is the table of that row',
      role: 'owner',
      query: `select team_id, export_id, title, question_id from intake.export_columns where question_id is not null`,
      rows: `
        1 e     Same                      same
        1 e     Twice                     twice
        1 e     Matrix~-~Row~-~Column     grid
        1 e     Matrix                    grid
        1 other Same                      former
        1 other Gone                      former
        2 other Same                      former
        2 other Gone                      former`,
    },
  ],
}
