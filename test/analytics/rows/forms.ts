/** Forms and responses as FHIR resources: links, blocks, tables, options and values. */
import { put, putTeams, type Run, type World } from './tables.ts'

const CONTROLS =
  'drop-down radio-button check-box slider autocomplete lookup spinner text-box help flyover page list table htable gtable atable header footer'.split(
    ' ',
  )

const form = (part: object) => JSON.stringify(part).replaceAll(' ', '~')

async function fill(run: Run): Promise<void> {
  await putTeams(run)
  await put(
    run,
    'intake.forms',
    `id      name  text  enabled updated_at        _version          _deleted_at
     f       Form  About t       2026-01-02T00:00Z 2026-01-03T00:00Z -
     retired ~     ~     f       -                 2026-01-03T00:00Z -
     unknown -     -     -       -                 2026-01-03T00:00Z -
     gone    Gone  -     t       -                 2026-01-03T00:00Z 2026-01-04`,
  )
  await put(
    run,
    'intake.form_questions',
    `form_id position question_id question_type   question_subtype text       link_id block_id
     f       1        q1          dropdown        drop-down        One        L1      -
     f       2        q2          short_text      -                Two        same    -
     f       3        q3          short_text      footer           Three      same    -
     f       4        q4          number          integer          Four       ''      -
     f       5        q4          number          decimal          Four,~too  -       -
     f       6        -           Display_only    unheard          Six        -       -
     f       7        b1          repeated_block  -                Block      -       -
     f       8        b2          matrix          htable           Inner      -       b1
     f       9        m1          multiple_choice -                Member     -       b2
     f       10       m2          REPEATED_BLOCK  -                Innermost  -       b2
     f       11       m3          long_text       -                Deep       -       b2
     f       12       grid        matrix          -                Grid       -       -
     f       13       lone        matrix          -                Lone       -       -
     f       14       self        repeated_block  -                Itself     -       self
     f       15       lost        short_text      -                ~          -       q1
     f       16       b1          short_text      -                Again      -       b1`,
  )
  // Another form with the same ids.
  await put(run, 'intake.forms', `id enabled _version\ncontrols t 2026-01-03T00:00Z`)
  await put(
    run,
    'intake.form_questions',
    [
      'form_id position question_id question_type question_subtype block_id',
      ...CONTROLS.map((control, at) => `controls ${at + 1} ${control} short_text ${control} -`),
      'controls 21 m2 Multi_Select - b1',
      'controls 22 b1 Repeated_block - -',
      'controls 23 q1 Multiple_select - self',
    ].join('\n'),
  )
  await put(
    run,
    'intake.question_choices',
    `form_id question_position position question_id choice_id text  code points
     f       1                 2        q1          c2        Two   -    -
     f       1                 1        q1          c1        One   C1   1.5
     f       1                 3        q1          c3        ~     C3   -
     f       1                 4        q1          c4        ~     -    4
     f       1                 5        q1          c5        Five  a~~b -
     f       4                 1        q4          -         7     -    0
     f       4                 2        q4          -         07    -    -
     f       4                 3        q4          -         -7    -    -
     f       4                 4        q4          -         -0    -    -
     f       4                 5        q4          -         0     -    -
     f       4                 6        q4          -         90    -    -
     f       4                 7        q4          -         123456789  - -
     f       4                 8        q4          -         1234567890 - -
     f       6                 1        -           -         none  -    -
     f       7                 1        b1          -         none  -    -`,
  )
  await put(
    run,
    'intake_raw.records',
    [
      'stream id version observed_at hash origin payload',
      `forms f 2026-01-03T00:00Z 2026-01-03T00:00Z \\x01 page ${form({
        questions: [
          ...Array.from({ length: 11 }, (_, at) => ({ id: `q${at}` })),
          {
            id: 'grid',
            rows: [{ id: 'r1', text: 'First' }, { text: 'Second' }, 'Third'],
            columns: [{ id: 'c1', text: 'Am' }, 'Pm'],
          },
          { id: 'lone', rows: [], columns: ['Am'] },
        ],
      })}`,
    ].join('\n'),
  )
}

const control = (code: string) => [
  {
    url: 'http://hl7.org/fhir/StructureDefinition/questionnaire-itemControl',
    valueCodeableConcept: { coding: [{ system: 'http://hl7.org/fhir/questionnaire-item-control', code }] },
  },
]
const points = (valueDecimal: number) => [
  { url: 'http://hl7.org/fhir/StructureDefinition/ordinalValue', valueDecimal },
]
const cell = (linkId: string, text: string) => ({ linkId, text, type: 'string' })

export const FORMS: World = {
  name: 'forms as FHIR resources',
  ids: [],
  fill,
  promises: [
    {
      promise: 'have a status, and dates and texts where there are any',
      role: 'intake_clinical',
      query: `select form_id, id, last_updated, resource - 'item' as resource from intake_fhir.questionnaire where form_id <> 'controls' order by form_id`,
      rows: [
        [
          ...['f', 'f', '2026-01-02T00:00:00+00:00'],
          {
            ...{
              resourceType: 'Questionnaire',
              id: 'f',
              meta: { lastUpdated: '2026-01-02T00:00:00.000000Z' },
            },
            ...{ title: 'Form', status: 'active', subjectType: ['Patient'] },
            ...{ date: '2026-01-02T00:00:00.000000Z', description: 'About' },
          },
        ],
        ...(['retired', 'unknown'] as const).map((status) => [
          ...[status, status, '2026-01-03T00:00:00+00:00'],
          {
            ...{
              resourceType: 'Questionnaire',
              id: status,
              meta: { lastUpdated: '2026-01-03T00:00:00.000000Z' },
            },
            ...{ status, subjectType: ['Patient'] },
          },
        ]),
      ],
    },
    {
      promise: 'have the controls of their questions, and only questions of their own',
      role: 'intake_clinical',
      query: `select item.value ->> 'linkId' as link, item.value #>> '{extension,0,valueCodeableConcept,coding,0,code}' as control,
          item.value ->> 'type' as type, item.value -> 'repeats' as repeats, item.value #> '{item,0}' as part
        from intake_fhir.questionnaire, jsonb_array_elements(resource -> 'item') item where form_id = 'controls'`,
      rows: [
        ...CONTROLS.map((control) => [control, control, 'string', null, null]),
        ['b1', null, 'group', true, { linkId: 'm2', type: 'choice', repeats: true }],
        ['q1', null, 'choice', true, null],
      ],
    },
    {
      promise: 'have each question once: by a link of its own, in its block, with its options and its table',
      role: 'intake_clinical',
      query: `select item.value from intake_fhir.questionnaire, jsonb_array_elements(resource -> 'item') with ordinality item where form_id = 'f' order by ordinality`,
      rows: [
        [
          {
            ...{ linkId: 'L1', text: 'One', type: 'choice', extension: control('drop-down') },
            answerOption: [
              { extension: points(1.5), valueCoding: { code: 'C1', display: 'One' } },
              { valueString: 'Two' },
              { valueCoding: { code: 'C3' } },
              { valueString: 'Five' },
            ],
          },
        ],
        [{ linkId: 'q2', text: 'Two', type: 'string' }],
        [{ linkId: 'q3', text: 'Three', type: 'string', extension: control('footer') }],
        [
          {
            ...{ linkId: 'q4.4', text: 'Four', type: 'integer' },
            answerOption: [
              { extension: points(0), valueInteger: 7 },
              { valueString: '07' },
              { valueInteger: -7 },
              { valueString: '-0' },
              { valueInteger: 0 },
              { valueInteger: 90 },
              { valueInteger: 123456789 },
              { valueString: '1234567890' },
            ],
          },
        ],
        [{ linkId: 'q4.5', text: 'Four, too', type: 'decimal' }],
        [{ linkId: '6', text: 'Six', type: 'display' }],
        [
          {
            ...{ linkId: 'b1.7', text: 'Block', type: 'group', repeats: true },
            item: [
              {
                ...{ linkId: 'b2', text: 'Inner', type: 'group', extension: control('table') },
                item: [
                  { linkId: 'm1', text: 'Member', type: 'choice', repeats: true },
                  { linkId: 'm2', text: 'Innermost', type: 'display' },
                  { linkId: 'm3', text: 'Deep', type: 'text' },
                ],
              },
              { linkId: 'b1.16', text: 'Again', type: 'string' },
            ],
          },
        ],
        [
          {
            ...{ linkId: 'grid', text: 'Grid', type: 'group', extension: control('table') },
            item: ['r1 First', 'Second Second', 'Third Third'].map((row) => {
              const [key, text] = row.split(' ')
              const item = [cell(`grid.${key}.c1`, 'Am'), cell(`grid.${key}.Pm`, 'Pm')]
              return { linkId: `grid.${key}`, text, type: 'group', item }
            }),
          },
        ],
        [{ linkId: 'lone', text: 'Lone', type: 'string' }],
        [{ linkId: 'self', text: 'Itself', type: 'display' }],
        [{ linkId: 'lost', type: 'string' }],
      ],
    },
  ],
}
