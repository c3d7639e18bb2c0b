/** What a query of an export is read as: each type, each row in its portion, and each way in which it cannot run. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { beginSnapshot, openRows, type Query, type Row } from '../../../src/analytics/export/query.ts'
import { IntakeError, UsageError } from '../../../src/core/errors.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

let database: TestDatabase
let session: Session

beforeAll(async () => {
  database = await createTestDatabase({ empty: true })
  session = await openSession({ url: database.url, purpose: 'test' })
  await session.client.query(`
    create function public.fail(state text) returns int language plpgsql as
      $$ begin raise exception 'about Ada' using errcode = state; end $$;
    create table public.written (n int);
    create type public.mood as enum ('good')`)
})
afterAll(async () => {
  await session.close()
  await database.drop()
})

async function read(text: string, options: Partial<Query> = {}) {
  await beginSnapshot(session)
  try {
    const from = options.from ?? { text }
    const { columns, portions } = await openRows(session, {
      dayColumn: null,
      asJson: false,
      ...options,
      from,
    })
    const found: Row[][] = []
    for await (const portion of portions) found.push([...portion])
    return { columns, portions: found }
  } finally {
    await session.client.query('rollback')
  }
}

/** A value, its text, the name of its type and how files write it. */
const VALUES = [
  ['true', 't', 'boolean', 'boolean'],
  ['1::smallint', '1', 'smallint', 'int32'],
  ['2', '2', 'integer', 'int32'],
  ['9007199254740993', '9007199254740993', 'bigint', 'int64'],
  ['1.5::real', '1.5', 'real', 'double'],
  ['0.1::float8', '0.1', 'double precision', 'double'],
  ['12.30', '12.30', 'numeric', 'double'],
  ['12.3::numeric(10,2)', '12.30', 'numeric(10,2)', 'double'],
  [`date '2026-02-28'`, '2026-02-28', 'date', 'date'],
  [
    `timestamptz '2026-02-28 23:00:00.5+02'`,
    '2026-02-28 21:00:00.5+00',
    'timestamp with time zone',
    'timestamp',
  ],
  [
    `timestamptz '2026-02-28 23:00:00+00'::timestamptz(0)`,
    '2026-02-28 23:00:00+00',
    'timestamp(0) with time zone',
    'timestamp',
  ],
  [`timestamp '2026-02-28 23:00'`, '2026-02-28 23:00:00', 'timestamp without time zone', 'text'],
  [`time '23:00'`, '23:00:00', 'time without time zone', 'text'],
  [`interval '1 day 2 hours'`, '1 day 02:00:00', 'interval', 'text'],
  [`json '{"b":1, "a":2}'`, '{"b":1, "a":2}', 'json', 'json'],
  [`jsonb '{"b":1, "a":2}'`, '{"a": 2, "b": 1}', 'jsonb', 'json'],
  [`'x'::varchar(3)`, 'x', 'character varying(3)', 'text'],
  [`''`, '', 'text', 'text'],
  [`'{a,NULL}'::text[]`, '{a,NULL}', 'text[]', 'text'],
  [`'\\x00ff'::bytea`, '\\x00ff', 'bytea', 'text'],
  [`'good'::public.mood`, 'good', 'mood', 'text'],
  ['null::int', null, 'integer', 'int32'],
] as const

test('each type has the name, the text and the kind that Postgres gives it', async () => {
  const named = VALUES.map(([value], at) => `${value} as c${at}`)
  const { columns, portions } = await read(`select ${named.join(', ')}`)
  expect(columns).toEqual(VALUES.map(([, , type, kind], at) => ({ name: `c${at}`, type, kind })))
  expect(portions).toEqual([[{ values: VALUES.map(([, text]) => text), day: null, json: null }]])
})

test('rows come in portions of two thousand in the order of the query, and the last one is what is left', async () => {
  for (const [count, sizes] of [
    [0, []],
    [1, [1]],
    [2_000, [2_000]],
    [4_001, [2_000, 2_000, 1]],
  ] as const) {
    const { portions } = await read(`select n from generate_series(${count}, 1, -1) n`)
    expect(portions.map((portion) => portion.length)).toEqual(sizes)
    expect(portions.flat().map(({ values }) => Number(values[0]))).toEqual(
      Array.from({ length: count }, (_, at) => count - at),
    )
  }
})

test('with a column of days, rows are in the order of their days in UTC; as JSON, with each value', async () => {
  const text = `select * from (values (3, timestamptz '2026-03-02 00:30+01', null), (1, null, 'x'),
    (2, '2026-03-02 00:00+00', ''), (4, '2026-02-28 12:00+00', 'ü')) given (n, at, note) -- at the end`
  const { columns, portions } = await read(text, { dayColumn: 'at', asJson: true })
  expect(columns.map(({ name }) => name)).toEqual(['n', 'at', 'note'])
  const json = (n: number, at: string | null, note: string | null) => JSON.stringify({ n, at, note })
  expect(portions.flat()).toEqual([
    {
      ...{ values: ['4', '2026-02-28 12:00:00+00', 'ü'], day: '2026-02-28' },
      json: json(4, '2026-02-28T12:00:00+00:00', 'ü'),
    },
    {
      ...{ values: ['3', '2026-03-01 23:30:00+00', null], day: '2026-03-01' },
      json: json(3, '2026-03-01T23:30:00+00:00', null),
    },
    {
      ...{ values: ['2', '2026-03-02 00:00:00+00', ''], day: '2026-03-02' },
      json: json(2, '2026-03-02T00:00:00+00:00', ''),
    },
    { values: ['1', null, 'x'], day: null, json: json(1, null, 'x') },
  ])
})

test('a view is read by its name, whatever it is called; once read to its end, the next can be opened', async () => {
  await session.client.query('create view public."a ""view""" as select 1 as "a ""column"""')
  await beginSnapshot(session)
  try {
    for (const schema of ['public', 'public']) {
      const from = { schema, view: 'a "view"' }
      const { columns, portions } = await openRows(session, { from, dayColumn: null, asJson: false })
      expect(columns).toEqual([{ name: 'a "column"', type: 'integer', kind: 'int32' }])
      for await (const portion of portions) expect(portion).toHaveLength(1)
    }
  } finally {
    await session.client.query('rollback')
  }
})

const RIGHT = 'the reader has no right to it: see --as'
const TRY = 'try it in intake-sync psql'
const VALUE = 'a cast, a division or a date in the query does not fit every row'

test.each([
  ['select', 'the query has no columns', 'select at least one'],
  [
    'select 1 as a, 2 as b, 3 as a',
    'two columns have the name "a"',
    'give each column its own name with "as"',
  ],
  ["select public.fail('25006') as a", 'the query writes', 'an export only reads: write a select'],
  ["select public.fail('42501') as a", 'the query cannot run: about Ada', RIGHT],
  ['select x from nowhere', 'the query cannot run: relation "nowhere" does not exist', TRY],
  ["select public.fail('0A000') as a", 'the query cannot run: about Ada', TRY],
  [
    'select 1 as a) b; select (2',
    'the query cannot run: cannot insert multiple commands into a prepared statement',
    TRY,
  ],
])('%s is refused: %s', async (text, message, hint) => {
  const error = await read(text).then(
    () => null,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(UsageError)
  const { variable, code, verdict, ...rest } = error as UsageError
  expect({ variable, code, verdict, hint: rest.hint, message: (error as Error).message }).toEqual({
    ...{ variable: undefined, code: 'query_invalid', verdict: 'stop', hint, message },
  })
})

test.each([
  ['22012', 'query_value', 'stop', 'the query failed on a value (SQLSTATE 22012)', VALUE],
  ['22P02', 'query_value', 'stop', 'the query failed on a value (SQLSTATE 22P02)', VALUE],
  ['57014', 'canceled', 'retry', 'a statement of ours was canceled in the warehouse', expect.any(String)],
  ['53100', 'disk_full', 'stop', 'the disk of the warehouse is full', 'free space, then run again'],
])(
  'a query that fails with %s, at once or after its first rows, is no wrong usage: %s',
  async (state, code, verdict, message, hint) => {
    for (const first of [1, 2_500]) {
      const failing = `select case when n = ${first} then public.fail('${state}') end as a from generate_series(1, 3000) n`
      const error = await read(failing).then(
        () => null,
        (thrown: unknown) => thrown,
      )
      expect(error).toBeInstanceOf(IntakeError)
      expect(error).not.toBeInstanceOf(UsageError)
      const { message: said, code: own, verdict: what, hint: todo } = error as IntakeError
      expect([own, what, said, todo]).toEqual([code, verdict, message, hint])
    }
  },
)
