/** Signatures, files and cells of a matrix: whether a question is answered by them, and what is shown of cells. */
import { put, putTeams, type Run, type World } from './tables.ts'

const KINDS = ['signature', 'file', 'matrix', 'hologram']
/** Questions that no signature answers. */
const PLAIN = ['dropdown', 'checkbox', 'date', 'short_text', 'display_only']

async function fill(run: Run): Promise<void> {
  await putTeams(run)
  await put(run, 'intake.patients', `id\nann`)
  await put(run, 'intake.forms', `id name\nf Form\nh Other`)
  const asked = KINDS.flatMap((kind, at) =>
    Array.from({ length: 8 }, (_, place) => `f ${at * 10 + place} ${kind}-${place} ${kind} ${kind}~${place}`),
  )
  await put(
    run,
    'intake.form_questions',
    [
      'form_id position question_id question_type text',
      ...[...asked, 'f 90 number number How~many?'],
      ...PLAIN.map((kind, at) => `f ${91 + at} ${kind} ${kind} ${kind}`),
    ].join('\n'),
  )
  await put(
    run,
    'intake.responses',
    `id patient_id form_id submitted_at\nr ann f 2026-03-02T00:00Z\nother bob f -`,
  )
  const answers = KINDS.flatMap((kind, at) =>
    Array.from(
      { length: 8 },
      (_, place) => `r ${at * 10 + place} 1 ${kind}-${place} ${place === 7 ? '-' : "''"}`,
    ),
  )
  await put(
    run,
    'intake.response_answers',
    [
      'response_id position value_position question_id value_text',
      ...answers,
      'r 90 1 number -',
      'r 91 1 gone -',
      'r 92 1 gone-too -',
      'r 93 1 gone-text words',
      ...PLAIN.map((kind, at) => `r ${94 + at} 1 ${kind} -`),
    ].join('\n'),
  )
  await put(
    run,
    'intake.response_signatures',
    `response_id position question_id  signer_name signed_at         has_image
     r           1        signature-1  Ann         -                 f
     r           2        signature-2  -           2026-03-02T00:00Z f
     r           3        signature-3  ''          -                 t
     r           4        signature-4  ''          -                 f
     r           5        signature-5  -           -                 -
     other       1        signature-6  Ann         2026-03-02T00:00Z t
     r           6        hologram-1   Ann         -                 f
     r           7        hologram-5   ''          -                 f
     r           8        file-1       Ann         -                 t
     r           9        matrix-1     Ann         -                 t
     r           10       number       Ann         -                 t
     r           11       gone         Ann         -                 -
${PLAIN.map((kind, at) => `     r ${20 + at} ${kind} Ann - t`).join('\n')}`,
  )
  await put(
    run,
    'intake.response_files',
    `response_id position question_id
     r           1        file-2
     other       1        file-6
     r           2        hologram-2
     r           3        signature-7
     r           4        matrix-2`,
  )
  await put(
    run,
    'intake.response_matrix_cells',
    `response_id position question_id  value_text
     r           1        matrix-3     words
     r           2        matrix-4     ''
     r           3        matrix-5     -
     other       1        matrix-6     words
     r           4        hologram-3   words
     r           5        hologram-4   ''
     r           6        file-3       words
     r           7        signature-7  words`,
  )
  // What the other team has: each question answered.
  for (const table of ['response_signatures', 'response_files', 'response_matrix_cells'])
    await run(
      `insert into intake.${table} (team_id, response_id, position, question_id${table === 'response_files' ? '' : table === 'response_signatures' ? ', signer_name' : ', value_text'})
       select 2, 'r', 100 + position, question_id${table === 'response_files' ? '' : ", 'Bob'"} from intake.response_answers where team_id = 2`,
    )
  const year = new Date().getUTCFullYear()
  await put(
    run,
    'intake.form_questions',
    `form_id position question_id question_type text\nf 195 open matrix Open\nf 196 shut matrix Shut\nh 1 open matrix Open`,
  )
  await run(
    `insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, decided_by, by_type)
     select team_id, form_id, question_id, intake_ops.wording(question_type, text), true, 'person', question_id = 'shut'
     from intake.form_questions where question_id in ('open', 'shut')`,
  )
  // Decisions on former wordings: of another form, team, question or type, by the type, and one that counts.
  await run(
    `insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, decided_by)
     select team_id, form_id, question_id, intake_ops.wording(type, text), true, by
     from (values (1, 'h', 'open', 'matrix', 'Former', 'person'), (2, 'f', 'open', 'matrix', 'Former', 'person'),
       (1, 'f', 'open-date', 'matrix', 'Former', 'person'), (1, 'f', 'open', 'date', 'Former', 'person'),
       (1, 'f', 'open', 'matrix', 'Older', 'type'), (1, 'f', 'open', 'matrix', 'Before', 'person')
     ) own (team_id, form_id, question_id, type, text, by)`,
  )
  await put(
    run,
    'intake_raw.question_concepts',
    `form_id question_id concept\nf open drugs\nh open theirs\nf shut shut`,
  )
  await put(
    run,
    'intake.response_matrix_cells',
    `response_id position question_id row_id row_text column_id column_text value_text
     r           20       open        r1     Row      c1        Column      words
     r           21       open        r1     -        c1        -           ''
     r           22       open        -      -        -         -           -
     r           23       open        r1     Row      c1        Column      ~2001-02-03~at~noon
     r           24       open        r1     Row      c1        Column      ${year - 89}-02-03
     r           25       open        r1     Row      c1        Column      ${year - 90}-02-03
     r           26       open        r1     Row      c1        Column      on~2001-02-03
     r           27       shut        r1     Row      c1        Column      words
     r           28       never-asked r1     Row      c1        Column      words
     other       20       open        r1     Row      c1        Column      theirs
     r           29       open        r1     Row      c1        Column      1999-09-29
     formless    20       open        r1     Row      c1        Column      theirs`,
  )
  await put(run, 'intake.responses', `id form_id\nformless g`)
  await put(
    run,
    'intake.response_matrix_cells',
    `response_id position question_id row_text value_text question_text
     r           30       open        Row      30         Former
     r           31       open        Row      31         Older
     r           32       open        Row      32         Before
     r           33       open        Row      33         ''
     r           34       open        Row      34         Open`,
  )
}

export const PARTS: World = {
  name: 'signatures, files and cells',
  ids: ['ann', 'bob'],
  fill,
  promises: [
    {
      promise: 'answer the questions of their kind, and those of a kind that nobody knows',
      query: `select question_id from intake_analytics.answers where is_answered`,
      rows: `
        signature-1
        signature-2
        signature-3
        file-2
        matrix-3
        hologram-1
        hologram-2
        hologram-3
        gone
        gone-text`,
    },
    {
      promise: 'leave no answer undecided: it is there or not',
      query: `select count(*) as answers, count(is_answered) as known from intake_analytics.answers`,
      rows: '41 41',
    },
    {
      promise:
        'show of a matrix what a person decided to show: rows and columns by their texts or ids, of dates the year',
      query: `select response_id, position, question_id, is_shown, row_text, column_text, value_text, value_year
        from intake_analytics.matrix_answers where position >= 20`,
      rows: `
        r     20 open        true  Row Column words         -
        r     21 open        true  r1  c1     ''            -
        r     22 open        true  -   -      -             -
        r     23 open        true  Row Column -             2001
        r     24 open        true  Row Column -             YEAR-89
        r     25 open        true  Row Column -             -
        r     26 open        true  Row Column on~2001-02-03 -
        r     27 shut        false -   -      -             -
        r     28 never-asked false -   -      -             -
        other 20 open        true  Row Column theirs        -
        r     29 open        true  Row Column -             1999
        r     30 open        false -   -      -             -
        r     31 open        false -   -      -             -
        r     32 open        true  Row -      32            -
        r     33 open        true  Row -      33            -
        r     34 open        true  Row -      34            -
        formless 20 open     false -   -      -             -`,
    },
    {
      promise: 'name patient, form, question and concept of a cell',
      query: `select response_id, patient, form_id, form, submitted_at, question_text, concept from intake_analytics.matrix_answers where position = 20`,
      rows: `
        r     ann f Form 2026-03-02T00:00 Open drugs
        other bob f Form -                Open drugs
        formless - g - - - -`,
    },
  ],
}
