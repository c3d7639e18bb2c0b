/** Patients: each word of each list, and both sides of each bound. */
import { codeOf, put, putTeams, type Run, type World } from './tables.ts'

const BORN = [
  ['unborn', 0, 1, '- false'],
  ['newborn', 0, 0, '0-9 true'],
  ['nine', 10, 1, '0-9 true'],
  ['ten', 10, 0, '10-19 true'],
  ['eighty-nine', 90, 1, '80-89 true'],
  ['ninety', 90, 0, '90+ false'],
  ['hundred', 100, 0, '90+ false'],
] as const

const ZIPS = [
  ...['12345 123', '123456789 123', '12345-6789 123', '~12345~ 123', '03699-0001 000', '1234 -', '123456 -'],
  ...['12345-678 -', 'x12345 -', '12345-6789x -'],
]

const STATES =
  `Alabama AL, Alaska AK, Arizona AZ, Arkansas AR, California CA, Colorado CO, Connecticut CT, Delaware DE,
  District~of~Columbia DC, Florida FL, Georgia GA, Hawaii HI, Idaho ID, Illinois IL, Indiana IN, Iowa IA, Kansas KS,
  Kentucky KY, Louisiana LA, Maine ME, Maryland MD, Massachusetts MA, Michigan MI, Minnesota MN, Mississippi MS,
  Missouri MO, Montana MT, Nebraska NE, Nevada NV, New~Hampshire NH, New~Jersey NJ, New~Mexico NM, New~York NY,
  North~Carolina NC, North~Dakota ND, Ohio OH, Oklahoma OK, Oregon OR, Pennsylvania PA, Rhode~Island RI,
  South~Carolina SC, South~Dakota SD, Tennessee TN, Texas TX, Utah UT, Vermont VT, Virginia VA, Washington WA,
  West~Virginia WV, Wisconsin WI, Wyoming WY, Puerto~Rico PR, Guam GU, Virgin~Islands VI, American~Samoa AS,
  Northern~Mariana~Islands MP`
    .split(',')
    .map((each) => each.trim().split(' ') as [name: string, code: string])
    .flatMap(([name, code]) => [
      `~${name} ${code}`,
      `${name.toUpperCase()}~ ${code}`,
      `~${code.toLowerCase()} ${code}`,
    ])

const SEXES = [
  ...['Female Female', 'F Female', 'Male Male', 'm Male', 'INTERSEX Intersex', 'i Intersex', 'Other Other'],
  ...['O Other', 'X Other', 'Unknown Unknown', 'u Unknown', 'Undisclosed Unknown', 'Not~Specified Unknown'],
  ...['~prefer~not~to~say~ Unknown', 'it~depends -', "'' -"],
]

const UUID = '6F0d2c11-93a4-4d7e-8f10-2b3c4d5e6f70'
const PROVIDERS = [
  ...[`${UUID} ${UUID}`, '~ -', "'' -", `Dr.~Who ${codeOf('provider Dr. Who')}`],
  `${UUID.slice(1)} ${codeOf(`provider ${UUID.slice(1)}`)}`,
]

/** Written and shown, of one column. */
const COLUMNS = { zipcode: ZIPS, state: [...STATES, 'Bavaria -'], sex_at_birth: SEXES, provider: PROVIDERS }
const idsOf = (column: string, pairs: readonly string[]) => pairs.map((_, at) => `${column}-${at}`)

async function fill(run: Run): Promise<void> {
  await putTeams(run)
  await run(
    `insert into intake.patients (team_id, id, date_birth, _version, _origin)
     select team_id, id, (now() at time zone 'UTC')::date - years * interval '1 year' + days * interval '1 day', now(), 'test'
     from intake.teams, unnest($1::text[], $2::int[], $3::int[]) born (id, years, days)`,
    [BORN.map(([id]) => id), BORN.map(([, years]) => years), BORN.map(([, , days]) => days)],
  )
  await put(
    run,
    'intake.patients',
    `id      date_birth  _deleted_at
     later   infinity    -
     earlier -infinity   -
     gone    1980-01-01  2026-01-01`,
  )
  for (const [column, pairs] of Object.entries(COLUMNS))
    await put(
      run,
      'intake.patients',
      [`id ${column}`, ...pairs.map((pair, at) => `${column}-${at} ${pair.split(' ')[0]}`)].join('\n'),
    )
  await put(
    run,
    'intake.patient_tags',
    `patient_id position name
     ten        2        first
     ten        10       last
     ten        3        -
     nine       1        -
     gone       1        gone`,
  )
  await put(run, 'intake.patient_tags', `patient_id position name\nnewborn 1 theirs`, [2])
}

const only = (at: number, shown: string) =>
  [0, 1, 2, 3].map((place) => (place === at ? shown : '-')).join(' ')

export const PATIENTS: World = {
  name: 'patients',
  ids: [
    ...BORN.map(([id]) => id),
    ...['later', 'earlier', 'gone'],
    ...Object.entries(COLUMNS).flatMap(([column, pairs]) => idsOf(column, pairs)),
  ],
  fill,
  promises: [
    {
      promise:
        'have a band of ages, a year of birth until they are ninety, an area, a state, a sex and a provider of fixed lists, and tags in their order',
      query: `select patient, age_band, birth_year is not null as has_year, zip3, state, sex_at_birth, provider, array_to_string(tags, ',') as tags
        from intake_analytics.patients`,
      rows: [
        ...BORN.map(([id, , , shown]) => `${id} ${shown} - - - - ${id === 'ten' ? 'first,last' : "''"}`),
        ...['later', 'earlier'].map((id) => `${id} - false - - - - ''`),
        ...Object.entries(COLUMNS).flatMap(([column, pairs], at) =>
          pairs.map((pair, place) => `${column}-${place} - false ${only(at, pair.split(' ')[1]!)} ''`),
        ),
      ].join('\n'),
    },
  ],
}
