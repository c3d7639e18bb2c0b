/**
 * Row by row what wide views show of two teams with the same ids: questions of each kind that were answered never, once,
 * several times, or with an empty text. A `#` in these tables is the number of the team.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { refreshWideViews } from '../../../src/analytics/wide/wide-views.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { expectedOf, linesOf, named, put, putTeams } from '../fixtures/tables.ts'
import { type Login, makeLogin } from '../logins.ts'

const TEAMS = [1, 2]

let warehouse: TestDatabase
let analyst: Login
let clinician: Login

/** Ids of 500 bytes are known, longer ones are not. */
const LONG = 'ä'.repeat(250)

/** Each kind once; those that end with 2 are answered twice by one response. */
const QUESTIONS = `form_id position question_id question_type   text
     f       1        n1          number          N1
     f       2        n2          slider          N2
     f       3        t1          checkbox        T1
     f       4        t2          yes_no          T2
     f       5        d1          date            D1
     f       6        d2          date            D2
     f       7        dt          datetime        Dt
     f       8        x1          short_text      X1
     f       9        x2          long_text       X2
     f       10       c           dropdown        C
     f       11       m           multiple_choice M
     f       12       k           matrix          K
     f       13       file        file            File
     f       14       sign        signature       Sign
     f       15       none        display_only    None
     f       16       odd         hologram        -
     f       17       k2          matrix          K2
     f       0        gone        number          Gone
     g       1        n1          number          N1
     g       2        file        file            File`

const TABLES: readonly (readonly [table: string, text: string])[] = [
  ['intake.forms', 'id name\nf Visit\ng -'],
  ['intake.patients', 'id\nann\nbob'],
  ['intake.form_questions', QUESTIONS],
  [
    'intake.question_choices',
    `form_id question_position position question_id text
     f       10                1        c           One#
     f       10                2        c           Two#
     f       11                1        m           One#
     f       11                2        m           Two#`,
  ],
  [
    'intake.responses',
    `id      patient_id form_id packet_id is_submitted is_skipped is_archived created_at        submitted_at      _deleted_at
     once    ann        f       pack#     t            f          f           2026-01-0#T00:00Z 2026-02-0#T00:00Z -
     twice   bob        f       -         t            f          t           2026-01-0#T00:00Z 2026-02-0#T00:00Z -
     empty   ann        f       -         f            t          -           2026-01-0#T00:00Z -                 -
     nothing -          f       -         -            -          -           -                 -                 -
     deleted ann        f       -         t            f          f           2026-01-0#T00:00Z 2026-02-0#T00:00Z 2026-03-01T00:00Z
     other   ann        g       -         t            f          f           2026-01-0#T00:00Z 2026-02-0#T00:00Z -`,
  ],
  [
    'intake.response_answers',
    `response_id position value_position question_id question_text value_text value_number value_boolean value_date
     once        1        1              n1          N1            #1         #1           -             -
     once        2        1              n2          N2            #2         #2           -             -
     once        3        1              t1          T1            true       -            t             -
     once        4        1              t2          T2            false      -            f             -
     once        5        1              d1          D1            200#-02-03 -            -             200#-02-03
     once        6        1              d2          D2            201#-02-03 -            -             201#-02-03
     once        7        1              dt          Dt            202#-02-03 -            -             202#-02-03
     once        8        1              x1          X1            words#     #8           t             -
     once        9        1              x2          X2            text#      -            -             -
     once        10       2              c           C             Two#       -            -             -
     once        10       1              c           C             One#       -            -             -
     once        11       1              m           M             Two#       -            -             -
     once        11       2              m           M             One#       -            -             -
     once        12       1              odd         -             odd#       -            -             -
     once        13       1              left        Left~over     left#      -            -             -
     once        14       1              none        None          none#      -            -             -
     once        15       1              -           -             lost#      -            -             -
     once        16       1              gone        Gone          #8         #8           -             -
     once        17       1              ${LONG}     Long          long#      -            -             -
     once        18       1              ${LONG}o    Longer        longer#    -            -             -
     twice       1        1              n2          N2            #4         #4           -             -
     twice       2        1              t2          T2            true       -            t             -
     twice       3        1              d2          D2            203#-02-03 -            -             203#-02-03
     twice       4        1              x2          X2            first#     -            -             -
     twice       5        1              n2          N2            #3         #3           -             -
     twice       6        1              t2          T2            false      -            f             -
     twice       7        1              d2          D2            202#-02-03 -            -             202#-02-03
     twice       8        1              x2          X2            again#     -            -             -
     twice       9        1              left        Left~over     more#      -            -             -
     twice       10       1              n1          N1            none       -            -             -
     twice       10       2              n1          N1            #6         #6           -             -
     twice       11       1              t1          T1            maybe      -            -             -
     twice       11       2              t1          T1            true       -            t             -
     twice       12       1              d1          D1            soon       -            -             -
     twice       12       2              d1          D1            204#-02-03 -            -             204#-02-03
     twice       13       1              c           C             else#      -            -             -
     twice       13       2              c           C             One#       -            -             -
     empty       1        1              n1          N1            ''         -            -             -
     empty       2        1              n2          N2            ''         -            -             -
     empty       3        1              x1          X1            ''         -            -             -
     empty       4        1              x2          X2            ''         -            -             -
     empty       5        1              c           C             else#      -            -             -
     empty       6        1              t1          T1            -          -            -             -
     deleted     1        1              n1          N1            #5         #5           -             -
     other       1        1              n1          N1            #6         #6           -             -`,
  ],
  [
    'intake.response_matrix_cells',
    `response_id position question_id question_text row_id row_text column_id column_text value_text
     once        1        k           K             r1     First#   c1        Am#         tea#
     once        2        k           K             r2     -        c2        -           200#-02-03
     once        3        -           K             r3     -        c3        -           lost#
     once        4        k2          K2            r1     First#   c1        Am#         hidden#
     other       1        k           K             r1     First    c1        Am          other#`,
  ],
  [
    'intake.response_files',
    `response_id position question_id name
     once        2        file        b#
     once        1        file        c#
     other       1        file        other#`,
  ],
  [
    'intake.response_signatures',
    `response_id position question_id signer_name signed_at         has_image
     once        1        sign        -           2026-01-0#T02:00Z -
     once        2        sign        -           2026-01-0#T01:00Z -
     twice       1        sign        -           -                 t
     empty       1        sign        ''          -                 f
     nothing     1        sign        name        -                 f`,
  ],
  ['intake.exports', 'id form_id name\ne f Visits'],
  [
    'intake.export_columns',
    `export_id position title question_id
     e         8        N1    n1
     e         9        T1    t1
     e         10       D1    d1
     e         11       X1    x1
     e         12       C     c
     e         13       Lost  -
     e         14       N1    n1
     e         15       Dt    dt
     e         16       T1    t1
     e         17       D1    d1
     e         18       C     c`,
  ],
  [
    'intake.export_rows',
    `export_id row_number client_id sent_at           completed_at      archived
     e         1          ann       2026-01-0#T00:00Z 2026-02-0#T00:00Z t
     e         2          nobody    -                 -                 -
     e         3          -         -                 2026-02-0#T00:00Z f`,
  ],
  [
    'intake.export_cells',
    `export_id row_number position value
     e         1          8        #9
     e         1          9        confirmed
     e         1          10       200#-02-03
     e         1          11       words#
     e         1          12       Two#
     e         1          13       lost#
     e         1          14       #7
     e         1          15       199#-02-03
     e         1          16       No
     e         1          17       201#-02-03
     e         1          18       One#
     e         2          8        none
     e         2          9        No
     e         2          12       One#,~Two#
     e         3          8        #5
     e         3          12       else#`,
  ],
]

const own = (text: string, team: number) => text.replaceAll('#', String(team))

beforeAll(async () => {
  warehouse = await openWarehouse()
  const run = (text: string, values?: unknown[]) => query(warehouse.url, text, values)
  await putTeams(run)
  for (const [table, text] of TABLES) for (const team of TEAMS) await put(run, table, own(text, team), [team])
  // Both teams ask the same.
  for (const [table, column] of [
    ...(['forms name', 'form_questions text', 'question_choices text', 'response_files name'] as const),
    ...(['response_answers question_text', 'response_matrix_cells question_text', 'exports name'] as const),
  ].map((each) => each.split(' ')))
    await run(`update intake.${table} set ${column} = replace(${column}, ' of 2', '')`)
  await run(
    `insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, decided_by)
     select team_id, form_id, question_id, intake_ops.wording(question_type, text), true, 'person'
     from intake.form_questions where question_type in ('date', 'datetime', 'short_text', 'long_text', 'matrix') and question_id <> 'k2';
     delete from intake.form_questions where question_id = 'gone';
     delete from intake.response_files where team_id = 1 and position = 1 and response_id = 'once';
     insert into intake.response_files (team_id, response_id, position, question_id) values (2, 'twice', 1, 'file')`,
  )
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  await refreshWideViews(session.db)
  analyst = await makeLogin(warehouse.url, 'intake_analyst')
  clinician = await makeLogin(warehouse.url, 'intake_clinical')
  await run(
    `insert into intake_ops.access (login, team_id) select login, team_id from unnest($1::text[]) login, intake.teams`,
    [[analyst.name, clinician.name]],
  )
})
afterAll(() => warehouse.drop())

/** The second team has files that the first one does not have. */
const FILES: Readonly<Record<number, Readonly<Record<string, string>>>> = {
  1: { FILES: '["b1"]', TWICE: '-', IS_TWICE: 'false' },
  2: { FILES: '["c2","b2"]', TWICE: '[null]', IS_TWICE: 'true' },
}

/** Of each kind of view: its rows, and its columns with their types and meanings. */
const VIEWS = {
  'intake.form_visit': `
    # once    ann pack# true  false false 2026-01-0#T00:00 2026-02-0#T00:00 #1 [#2] true [false] 200#-02-03 ["201#-02-03"] 202#-02-03 words# ["text#"] One# ["Two#","One#"] [{"column":"Am#","row":"First#","value":"tea#"},{"column":"c2","row":"r2","value":"200#-02-03"}] FILES 2026-01-0#T01:00 odd# [{"column":"Am#","row":"First#","value":"hidden#"}] #8 left# long#
    # twice   bob -     true  false true  2026-01-0#T00:00 2026-02-0#T00:00 - [#4,#3] - [true,false] - ["203#-02-03","202#-02-03"] - - ["first#","again#"] else# - - TWICE - - - - more# -
    # empty   ann -     false true  -     2026-01-0#T00:00 - - [null] - - - - - '' [""] else# - - - - - - - - -
    # nothing -   -     -     -     -     - - - - - - - - - - - - - - - - - - - - -`,
  'intake_forms.form_visit': `
    # once    ann pack# true  false false 2026-01-0#T00:00 2026-02-0#T00:00 #1 [#2] true [false] 200# 201# 202# words# ["text#"] One# ["Two#","One#"] [{"column":"Am#","row":"First#","value":"tea#"},{"column":"c2","row":"r2","value":"200#"}] true true - - #8 - -
    # twice   bob -     true  false true  2026-01-0#T00:00 2026-02-0#T00:00 #6 [#4,#3] true [true,false] 204# 203# - - ["first#","again#"] One# - - IS_TWICE true - - - - -
    # empty   ann -     false true  -     2026-01-0#T00:00 - - - - - - - - '' [""] - - - false false - - - - -
    # nothing -   -     -     -     -     - - - - - - - - - - - - - - false true - - - - -`,
  'intake_exports.export_visits': `
    # 1 ann    2026-01-0#T00:00 2026-02-0#T00:00 true  once #7 true  200# words# One#       199#
    # 2 nobody -                -                -     -    -  false -    -      One#,~Two# -
    # 3 -      -                2026-02-0#T00:00 false -    #5 -     -    -      -          -`,
} as const

const ASKED = `
  n1 numeric N1
  n2 numeric[] N2
  t1 boolean T1
  t2 boolean[] T2
  d1 date D1
  d2 date[] D2
  dt text Dt
  x1 text X1
  x2 text[] X2
  c text C
  m text[] M
  k jsonb K
  file text[] File
  sign timestamp~with~time~zone Sign
  question text Question~odd.
  k2 jsonb K2
  gone numeric Gone
  left_over text Left~over
  question_2 text Question~${LONG}.`

const COLUMNS: Readonly<Record<keyof typeof VIEWS, string>> = {
  'intake.form_visit': `
  - - One~row~a~response~to~the~form~Visit,~one~column~a~question.
  team_id smallint The~team~(intake.teams).
  response_id text The~response~(intake.responses).
  patient_id text The~patient~(intake.patients).
  packet_id text The~packet~it~belongs~to,~if~any.
  is_submitted boolean True~when~it~was~submitted.
  is_skipped boolean True~when~the~logic~of~a~packet~left~it~out.
  is_archived boolean True~when~staff~archived~it.
  created_at timestamp~with~time~zone When~the~patient~was~asked.
  submitted_at timestamp~with~time~zone When~it~was~submitted.${ASKED}`,
  'intake_forms.form_visit': `
  - - One~row~a~response~to~the~form~Visit,~one~column~a~question.
  team_id smallint The~team~(intake_analytics.teams).
  response_id text The~response~(intake_analytics.responses).
  patient text Pseudonym~of~the~patient~(intake_analytics.patients).
  packet_id text The~packet~it~belongs~to,~if~any.
  is_submitted boolean True~when~it~was~submitted.
  is_skipped boolean True~when~the~logic~of~a~packet~left~it~out.
  is_archived boolean True~when~staff~archived~it.
  created_at timestamp~with~time~zone When~the~patient~was~asked.
  submitted_at timestamp~with~time~zone When~it~was~submitted.${ASKED.replace(/(d.) (date|text)(\[\])?/g, '$1 integer').replace(/(file|sign) \S+/g, '$1 boolean')}`,
  'intake_exports.export_visits': `
  - - One~row~of~the~export~Visits,~one~column~a~question.
  team_id smallint The~team~(intake_analytics.teams).
  row_number integer Place~of~the~row~in~the~file,~from~1.
  patient text Pseudonym~of~the~patient~(intake_analytics.patients).
  sent_at timestamp~with~time~zone When~the~form~was~sent.
  completed_at timestamp~with~time~zone When~it~was~completed.
  is_archived boolean True~when~the~answers~are~archived.
  response_id text The~response~that~the~row~contains~(intake_analytics.responses);~null~if~none~or~several~may~be~it.
  n1 numeric N1
  t1 boolean T1
  d1 integer D1
  x1 text X1
  c text C
  dt integer Dt`,
}

describe.each(TEAMS)('a reader of two teams sees in the wide views of team %i', (team) => {
  const nameOf = (view: string) => (team === 1 ? view : `${view}_2`)
  const linesIn = (login: Pick<Login, 'rows'>, text: string) => linesOf((each) => login.rows(each), text)

  it.each(Object.entries(VIEWS))('%s the values of each response or row', async (view, rows) => {
    const login = view.startsWith('intake.') ? clinician : analyst
    const lines = await linesIn(login, `select * from ${nameOf(view)}`)
    expect(lines.map((line) => named(line, ['ann', 'bob', 'nobody'], team)).sort()).toEqual(
      expectedOf(own(rows, team).replace(/IS_TWICE|TWICE|FILES/g, (word) => FILES[team]![word]!)).sort(),
    )
  })

  it.each(Object.entries(COLUMNS))(
    '%s columns in order, each with its type and meaning',
    async (view, rows) => {
      const columns = await linesIn(
        clinician,
        `select attname, case when attnum > 0 then format_type(atttypid, null) end, col_description(attrelid, attnum)
       from (
         select attrelid, attnum, attname, atttypid from pg_attribute where attnum > 0
         union all
         select oid, 0, null, null from pg_class
       ) own where attrelid = '${nameOf(view)}'::regclass order by attnum`,
      )
      expect(columns).toEqual(expectedOf(rows))
    },
  )

  it('which question each column is of', async () => {
    const rows = await linesIn(
      clinician,
      `select form_id, view_name, place, column_name, question_id, question_text, question_type, concept
       from intake.form_columns where team_id = ${team} and form_id = 'f' order by place`,
    )
    const types =
      'number slider checkbox yes_no date date datetime short_text long_text dropdown multiple_choice matrix file signature hologram matrix number - -'
    expect(rows).toEqual(
      expectedOf(ASKED).map((line, at) => {
        const [column, , text] = line.split(' ')
        const question = { question: 'odd', left_over: 'left', question_2: LONG }[column!] ?? column
        const asked = text!.startsWith('Question') ? '-' : text
        return `f ${nameOf('form_visit')} ${at + 1} ${column} ${question} ${asked} ${types.split(' ')[at]} -`
      }),
    )
  })
})

it('a view of a form without a name is of its own form only', async () => {
  const rows = (team: number) =>
    linesOf(
      (each) => clinician.rows(each),
      `select team_id, response_id, n1, file from intake.${team === 1 ? 'form' : 'form_2'}`,
    )
  for (const team of TEAMS) expect(await rows(team)).toEqual(expectedOf(own('# other #6 ["other#"]', team)))
})

it('a refresh that finds nothing new makes no view again', async () => {
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  expect(await refreshWideViews(session.db)).toEqual([])
})

it('an export whose question was named response_id by an older version keeps its view, and what others built on it', async () => {
  await using own = await openWarehouse()
  await using session = await openSession({ url: own.url, purpose: 'wide' })
  const run = (text: string) => session.client.query(text)
  await run(`
    insert into intake.teams (name) values ('north');
    insert into intake.forms (team_id, id, name, _version, _origin) values (1, 'f', 'Visit', now(), 'test');
    insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
      select 1, 'f', n, 'q' || n, 'number', 'Q' || n from generate_series(1, 3) n;
    insert into intake.exports (team_id, id, form_id, name, _version, _origin) values (1, 'e', 'f', 'Old', now(), 'test');
    insert into intake.export_columns (team_id, export_id, position, title, question_id) values (1, 'e', 8, 'Q1', 'q1'), (1, 'e', 9, 'Q2', 'q2')`)
  await refreshWideViews(session.db)
  // As the older version has left it.
  await run(`
    update intake_raw.wide_columns set column_name = 'response_id' where kind = 'export' and question_id = 'q1';
    update intake_raw.wide_views set signature = '' where kind = 'export';
    drop view intake_exports.export_old`)
  await refreshWideViews(session.db)
  await run('create view public.mine as select response_id from intake_exports.export_old')
  await run(
    `insert into intake.export_columns (team_id, export_id, position, title, question_id) values (1, 'e', 10, 'Q3', 'q3')`,
  )
  await refreshWideViews(session.db)
  const { rows } = await run(
    `select attname as name from pg_attribute where attrelid = 'intake_exports.export_old'::regclass and attnum > 0 order by attnum`,
  )
  expect(rows.map(({ name }) => name).slice(6)).toEqual(['response_id', 'q2', 'q3'])
})
