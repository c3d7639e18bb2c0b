/** Times of an export have no zone: they are read in the team's, to the microsecond, or are a problem. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { type FileService, HEADER, query, runExports, startFileService } from './run.ts'

let database: TestDatabase
let service: FileService

beforeAll(async () => {
  database = await createTestDatabase()
  service = await startFileService()
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await database.drop()
})

/** The instant of each time, in UTC. */
async function read(timezone: string, times: readonly string[]): Promise<readonly unknown[]> {
  service.put('e', `${HEADER}\n${times.map((time) => `p,,,,"${time}",,\n`).join('')}`)
  await runExports(service.url, database.url, { timezone })
  const rows = await query(
    database.url,
    `select to_char(sent_at, 'YYYY-MM-DD"T"HH24:MI:SS.US') as at from intake.export_rows order by row_number`,
  )
  return rows.map(({ at }) => at)
}

test.each([
  ['UTC', '2026-03-29 02:30:00', '2026-03-29T02:30:00.000000'],
  ['UTC', '2026-07-01 00:00:00.123456', '2026-07-01T00:00:00.123456'],
  ['UTC', '2026-07-01 00:00:00.1', '2026-07-01T00:00:00.100000'],
  ['Europe/Berlin', '2026-01-15 12:00:00', '2026-01-15T11:00:00.000000'],
  ['Europe/Berlin', '2026-07-15 12:00:00.000001', '2026-07-15T10:00:00.000001'],
  ['Europe/Berlin', '2026-03-29 01:59:59.999999', '2026-03-29T00:59:59.999999'],
  ['Europe/Berlin', '2026-03-29 03:00:00', '2026-03-29T01:00:00.000000'],
  ['Europe/Berlin', '2026-10-25 03:00:00', '2026-10-25T02:00:00.000000'],
  ['Europe/Berlin', '1970-01-01 00:00:00', '1969-12-31T23:00:00.000000'],
  ['America/New_York', '2026-03-08 01:59:59', '2026-03-08T06:59:59.000000'],
  ['America/New_York', '2026-03-08 03:00:00', '2026-03-08T07:00:00.000000'],
  ['America/New_York', '2026-11-01 02:00:00', '2026-11-01T07:00:00.000000'],
  ['Asia/Kathmandu', '2026-01-01 05:45:00', '2026-01-01T00:00:00.000000'],
  ['America/New_York', '2026-03-08T12:00:00Z', '2026-03-08T12:00:00.000000'],
  ['America/New_York', '2026-03-08 12:00:00+02:00', '2026-03-08T10:00:00.000000'],
  // Its end is no zone.
  ['America/New_York', '2026-03-07', '2026-03-07T05:00:00.000000'],
  ['America/New_York', ' 2026-03-08 12:00:00 ', '2026-03-08T16:00:00.000000'],
])('in %s %s is %s', async (zone, time, expected) => {
  expect(await read(zone, [time])).toEqual([expected])
})

test.each([
  ['Europe/Berlin', '2026-03-29 02:30:00', 'skips'],
  ['Europe/Berlin', '2026-10-25 02:30:00', 'shows twice'],
  ['America/New_York', '2026-03-08 02:30:00', 'skips'],
  ['America/New_York', '2026-11-01 01:30:00', 'shows twice'],
])('in %s %s, which the clock %s, is read as by Postgres', async (zone, time) => {
  const [row] = await query(
    database.url,
    `select to_char($1::timestamp at time zone $2, 'YYYY-MM-DD"T"HH24:MI:SS.US') as at`,
    [time, zone],
  )
  expect(await read(zone, [time])).toEqual([row?.at])
})

test('an unreadable time is null, and a problem that contains it', async () => {
  const bad = ['2026-02-30 10:00:00', '2026-01-01 24:00:00', 'gestern, im März', ' ', '01/02/2026 10:00']
  expect(await read('UTC', ['2026-01-01 10:00:00', ...bad])).toEqual([
    '2026-01-01T10:00:00.000000',
    ...bad.map(() => null),
  ])
  const [row] = await query(database.url, 'select _problems as problems from intake.exports')
  expect(row?.problems).toEqual(
    bad.map((original, at) => ({
      path: `raw_text.rows[${at + 2}].sent_at`,
      reason: 'not a time (YYYY-MM-DD HH:MM:SS.ffffff)',
      original,
    })),
  )
})

test('an unknown time zone stops with its name and the hint', async () => {
  service.put('e', `${HEADER}\n`)
  await expect(runExports(service.url, database.url, { timezone: 'Nowhere/Else' })).rejects.toMatchObject({
    code: 'unknown_zone',
    verdict: 'stop',
    hint: expect.stringContaining('INTAKE_TIMEZONE'),
  })
})
