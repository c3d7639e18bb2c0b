/** FHIR resources of records with every field, with blank ones, and with those that FHIR does not permit. */
import { createHash } from 'node:crypto'
import { put, putTeams, type Run, type World } from './tables.ts'

const SEXES =
  `female female F, F female F, Male male M, m male M, intersex other -, I other -, other other -, o other -, X other -,
  Unknown unknown UNK, u unknown UNK, undisclosed unknown UNK, not~specified unknown UNK, ~prefer~not~to~say~ unknown UNK, else - -`
    .split(',')
    .map((each) => each.trim().split(' ') as [written: string, gender: string, code: string])

async function fill(run: Run): Promise<void> {
  await putTeams(run)
  await put(
    run,
    'intake.patients',
    `id    external_id first_name last_name email phone_number date_birth provider address address2 city state zipcode updated_at        _version          _deleted_at
     whole E~1         Ann        Lee       a@b   555          1980-02-29 Dr.~Who  Road~1  Flat~2   Ede  MA    02139   2026-01-02T00:00Z 2026-01-03T00:00Z -
     bare  -           -          -         -     -            -          -        -       -        -    -     -       -                 2026-01-03T00:00Z -
     blank ~           ~          ~         ~     ~            -          ~        ~       ~        ~    ~     ~       -                 2026-01-03T00:00Z -
     part  -           Bob        -         c@d   -            -          -        -       Flat~3   -    NY    -       -                 2026-01-03T00:00Z -
     gone  -           Cyd        -         -     -            -          -        -       -        -    -     -       -                 2026-01-03T00:00Z 2026-01-04
     a_b   -           -          Dee       -     556          -          -        -       -        -    -     10001   -                 2026-01-03T00:00Z -`,
  )
  await put(
    run,
    'intake.patients',
    ['id sex_at_birth', ...SEXES.map(([written], at) => `sex-${at} ${written}`)].join('\n'),
  )
  await put(
    run,
    'intake.patient_tags',
    `patient_id position name
     whole      10       last
     whole      2        second
     whole      3        ~
     whole      4        -`,
  )
  await put(
    run,
    'intake.patient_emergency_contacts',
    `patient_id first_name last_name phone_number relationship address address2 city state zipcode
     whole      Eve        Lee       557          sister       Road~2  -        Ede  MA    02139
     bare       -          -         -            friend       -       -        -    -     -
     part       -          -         558          ~            -       -        -    -     -
     a_b        -          -         -            -            -       -        -    -     10001
     blank      Gil        -         -            -            -       -        -    -     -`,
  )
}

const meta = (lastUpdated: string) => ({ lastUpdated: `2026-01-0${lastUpdated}T00:00:00.000000Z` })
const patient = (id: string, more: object, updated = '3') => ({
  resourceType: 'Patient',
  id,
  meta: meta(updated),
  ...more,
})

export const RESOURCES: World = {
  name: 'patients as FHIR resources',
  ids: [],
  fill,
  promises: [
    {
      promise: 'have each field once, and none for what is blank',
      role: 'intake_clinical',
      query: `select id, patient_id, last_updated, resource from intake_fhir.patient where patient_id !~ '^sex' order by patient_id collate "C"`,
      rows: [
        [
          createHash('sha256').update('a_b').digest('hex'),
          'a_b',
          '2026-01-03T00:00:00+00:00',
          patient(createHash('sha256').update('a_b').digest('hex'), {
            name: [{ family: 'Dee' }],
            telecom: [{ system: 'phone', value: '556' }],
            address: [{ postalCode: '10001' }],
            contact: [{ address: { postalCode: '10001' } }],
          }),
        ],
        ['bare', 'bare', '2026-01-03T00:00:00+00:00', patient('bare', {})],
        [
          'blank',
          'blank',
          '2026-01-03T00:00:00+00:00',
          patient('blank', { contact: [{ name: { given: ['Gil'] } }] }),
        ],
        [
          'part',
          'part',
          '2026-01-03T00:00:00+00:00',
          patient('part', {
            name: [{ given: ['Bob'] }],
            telecom: [{ system: 'email', value: 'c@d' }],
            address: [{ line: ['Flat 3'], state: 'NY' }],
            contact: [{ telecom: [{ system: 'phone', value: '558' }] }],
          }),
        ],
        [
          'whole',
          'whole',
          '2026-01-02T00:00:00+00:00',
          patient(
            'whole',
            {
              meta: { ...meta('2'), tag: [{ display: 'second' }, { display: 'last' }] },
              identifier: [{ value: 'E 1' }],
              name: [{ family: 'Lee', given: ['Ann'] }],
              telecom: [
                { system: 'phone', value: '555' },
                { system: 'email', value: 'a@b' },
              ],
              birthDate: '1980-02-29',
              address: [{ line: ['Road 1', 'Flat 2'], city: 'Ede', state: 'MA', postalCode: '02139' }],
              contact: [
                {
                  relationship: [{ text: 'sister' }],
                  name: { family: 'Lee', given: ['Eve'] },
                  telecom: [{ system: 'phone', value: '557' }],
                  address: { line: ['Road 2'], city: 'Ede', state: 'MA', postalCode: '02139' },
                },
              ],
              generalPractitioner: [{ display: 'Dr. Who' }],
            },
            '2',
          ),
        ],
      ],
    },
    {
      promise: 'have a gender and a sex at birth of fixed lists',
      role: 'intake_clinical',
      query: `select patient_id, resource ->> 'gender' as gender, resource #>> '{extension,0,valueCode}' as code,
          resource #>> '{extension,0,url}' = 'http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex' as is_birth_sex
        from intake_fhir.patient where patient_id ~ '^sex'`,
      rows: SEXES.map(
        ([, gender, code], at) => `sex-${at} ${gender} ${code} ${code === '-' ? '-' : 'true'}`,
      ).join('\n'),
    },
  ],
}
