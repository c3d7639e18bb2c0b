/**
 * No result depends on a time zone: neither of the analyst's session, nor of the database, the login and the process
 * that loaded.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type LittleService, startLittleService } from '../e2e/support/little-service.ts'
import { connect, openWarehouse, query } from '../e2e/support/scene.ts'
import { runCli } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { EXPORT, fillClinic } from './clinic.ts'

/** At any hour it is another day in the second and the third. */
const ZONES = ['UTC', 'Etc/GMT-14', 'Etc/GMT+12', 'Pacific/Auckland', 'America/St_Johns'] as const

/** One clinic, loaded into a database in UTC, and by another process into a database in other zones. */
let plain: TestDatabase
let elsewhere: TestDatabase
let service: LittleService

const variables = ({ url }: TestDatabase) => ({
  ...service.env,
  DATABASE_URL: url,
  INTAKE_ANALYTICS_KEY: 'a key that only this test has',
  LOG_LEVEL: 'error',
})

const CHANGED = 'a patient who changes'

beforeAll(async () => {
  plain = await openWarehouse()
  elsewhere = await openWarehouse()
  service = await startLittleService()
  fillClinic(service)
  service.interfere = ({ method }, response) => {
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end(EXPORT)
    return method === 'POST'
  }
  const [first, second] = service.records.responses
  const at = (created: string, submitted: string) => ({
    ...{ created_at: created, submitted_at: submitted, updated_at: submitted },
  })
  // On another day in half of the zones, at the change of a year, without a zone, and with another zone.
  service.records.responses.push(
    { ...first!, id: 'eve', ...at('2026-02-28T23:59:59.999999Z', '2026-03-01T00:00:00Z') },
    { ...second!, id: 'new year', ...at('2025-12-31T11:00:00Z', '2026-01-01T10:59:59Z') },
    {
      ...second!,
      id: 'of a packet',
      packet: { id: 'k' },
      ...at('2025-12-31T11:00:00Z', '2025-12-31T13:00:00Z'),
    },
    { ...second!, id: 'no zone', ...at('2026-03-29 01:30:00', '2026-04-05T02:30:00') },
    { ...second!, id: 'own zone', ...at('2026-03-08T02:30:00-03:30', '2026-03-08T23:30:00+13:00') },
  )
  const today = Date.now()
  for (const days of [-1, 0, 1]) {
    const birthday = new Date(today + days * 86_400_000)
    birthday.setUTCFullYear(birthday.getUTCFullYear() - 90)
    const date_birth = birthday.toISOString().slice(0, 10)
    service.records.patients.push({ id: `ninety ${days}`, date_birth, updated_at: '2026-01-01T00:00:00Z' })
  }
  service.records.patients.push({ id: CHANGED, city: 'once', updated_at: '2026-01-01T00:00:00Z' })
  const { pathname } = new URL(elsewhere.url)
  await query(elsewhere.url, `alter database ${pathname.slice(1)} set timezone to 'Pacific/Auckland'`)
  await query(elsewhere.url, `alter database ${pathname.slice(1)} set datestyle to 'SQL, DMY'`)
  const load = async (...words: string[]) => {
    const ends = [
      await runCommand(words, variables(plain)),
      await runCli(words, { ...variables(elsewhere), TZ: 'America/St_Johns' }),
    ]
    for (const { code, output } of ends) expect(code, output).toBe(0)
  }
  await load('backfill')
  await load('classify', 'set', 'story', 'visible')
  await load('classify', 'set', 'drugs', 'visible')
  await load('classify', 'set', 'born', 'visible')
  service.records.patients = service.records.patients.map((each) =>
    each.id === CHANGED ? { ...each, city: 'twice', updated_at: '2026-02-01T00:00:00Z' } : each,
  )
  await load('backfill', '--full')
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  for (const warehouse of [plain, elsewhere]) await warehouse.drop()
})

interface Column {
  readonly relation: string
  readonly name: string
  readonly type: string
}

/** When something was done, on the clocks of the two runs. */
const MOMENT =
  /^(_?version|_loaded_at|observed_at|superseded_at|valid_from|known_from|changed_at|removed_at|valid_to|first_seen_at|newest_record_at|last_run_at|last_event_at|lag|_deleted_at)$/

/** All rows that analysts and clinicians read, each time as a number; `isCounted` selects columns. */
async function rowsIn(
  url: string,
  zone: string,
  isCounted: (column: Column) => boolean,
): Promise<Readonly<Record<string, readonly string[]>>> {
  const client = await connect(url)
  try {
    const { rows: columns } = await client.query<Column>(
      `select format('%I.%I', n.nspname, c.relname) as relation, a.attname as name, a.atttypid::regtype::text as type
       from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
       where (n.nspname ~ '^intake(_analytics|_safe_harbor|_exports|_fhir)?$'
           -- The safe ones are what researchers see before small groups are hidden.
           or n.nspname = 'intake_raw' and (c.relname = 'records' or c.relname ~ '^safe_'))
         and c.relkind in ('r', 'p', 'v', 'm') and not c.relispartition and a.attnum > 0 and not a.attisdropped
         and c.relname <> 'changes' -- What they show depends on every open transaction of the server.
       order by 1, a.attnum`,
    )
    // Not only 'set time zone': a cached plan would not be made again for that.
    await client.query(`set timezone to '${zone}'`)
    const found: Record<string, readonly string[]> = {}
    for (const relation of new Set(columns.map((column) => column.relation))) {
      const own = columns.filter((column) => column.relation === relation && isCounted(column))
      const shown = own.map(({ name, type }) => {
        const moment = type === 'timestamp with time zone'
        return `'${name}', ${moment ? `extract(epoch from t."${name}")` : `t."${name}"`}`
      })
      const { rows } = await client.query<{ line: string }>(
        `select jsonb_build_object(${shown.join(', ')})::text as line from ${relation} t order by 1`,
      )
      found[relation] = rows.map(({ line }) => line)
    }
    return found
  } finally {
    await client.end()
  }
}

describe('in another session time zone', () => {
  it.each(ZONES.slice(1))('every view and table shows the same: %s', async (zone) => {
    // An interval since some time grows on its own.
    const isStill = ({ name }: Column) => name !== 'lag'
    const expected = await rowsIn(plain.url, 'UTC', isStill)
    expect(Object.values(expected).filter((rows) => rows.length > 0).length).toBeGreaterThan(30)
    expect(await rowsIn(plain.url, zone, isStill)).toEqual(expected)
  })

  it.each(ZONES)('a day of daily_volume is a day in UTC: %s', async (zone) => {
    const client = await connect(plain.url)
    try {
      await client.query(`set timezone to '${zone}'`)
      const { rows } = await client.query(
        `select day::text, responses_asked::int as asked, responses_submitted::int as submitted
         from intake_analytics.daily_volume where day between '2025-12-01' and '2026-12-31' and day <> '2026-01-01'
           and responses_asked + responses_submitted > 0 order by day`,
      )
      expect(rows).toEqual([
        { day: '2025-12-31', asked: 2, submitted: 1 },
        { day: '2026-01-02', asked: 0, submitted: 2 },
        { day: '2026-02-28', asked: 1, submitted: 0 },
        { day: '2026-03-01', asked: 0, submitted: 1 },
        { day: '2026-03-08', asked: 1, submitted: 1 },
        { day: '2026-03-29', asked: 1, submitted: 0 },
        { day: '2026-04-05', asked: 0, submitted: 1 },
      ])
    } finally {
      await client.end()
    }
  })

  it.each(ZONES)('a patient turns ninety when the day begins in UTC: %s', async (zone) => {
    const client = await connect(plain.url)
    try {
      await client.query(`set timezone to '${zone}'`)
      const { rows } = await client.query<{ band: string }>(
        `select seen.age_band as band from intake.patients p cross join intake_ops.analytics_key k
         join intake_analytics.patients seen on seen.patient = intake_ops.pseudonym(k.inner_pad, k.outer_pad, p.team_id, p.id)
         where p.id like 'ninety %' order by p.date_birth`,
      )
      expect(rows.map(({ band }) => band)).toEqual(['90+', '90+', '80-89'])
    } finally {
      await client.end()
    }
  })
})

it('a database and a process in other zones load the same rows', async () => {
  const isLoaded = ({ name, type }: Column) =>
    !/^(change_)?seq$/.test(name) && (!MOMENT.test(name) || !type.startsWith('timestamp'))
  const expected = await rowsIn(plain.url, 'UTC', (column) => isLoaded(column) && column.name !== 'lag')
  const found = await rowsIn(elsewhere.url, 'UTC', (column) => isLoaded(column) && column.name !== 'lag')
  expect(found).toEqual(expected)
})
