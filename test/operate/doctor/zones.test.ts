/** The zones of all teams are looked up in the warehouse, which spells them in its own way. */
import pino from 'pino'
import { expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { runChecks } from '../../../src/operate/doctor/doctor.ts'
import { createTestDatabase } from '../../support/database.ts'

const port = { name: 'any port', variable: 'ANY', host: '127.0.0.1', port: 0 }
const access = {
  baseUrl: 'http://127.0.0.1:1',
  apiKey: 'k',
  apiSecret: 's',
  apiVersion: 'v2',
  concurrency: 1,
}

test('zones are those of all teams, each once; all that are unknown are named', async () => {
  await using database = await createTestDatabase()
  const zonesOf = async (...zones: readonly string[]) => {
    const checks = await runChecks({
      ...{ url: database.url, dataDir: null, ingestTeams: [], encryptionKey: null, cron: null },
      ...{ webhook: port, admin: port, clock: systemClock, logger: pino({ level: 'silent' }) },
      teams: zones.map((timezone, at) => ({ ...access, name: `team ${at}`, timezone })),
      signal: new AbortController().signal,
    })
    return checks.find(({ name }) => name === 'time zones')
  }
  const known = { name: 'time zones', status: 'ok', hint: null }
  expect(await zonesOf()).toEqual({ ...known, detail: 'none' })
  expect(await zonesOf('Europe/Paris', 'utc', 'Europe/Paris')).toEqual({
    ...known,
    detail: 'Europe/Paris, utc',
  })
  const { detail, ...unknown } = (await zonesOf('Moon/Sea', 'UTC', 'Mars/Olympus'))!
  expect(unknown).toEqual({
    ...{ name: 'time zones', status: 'failed', hint: 'set INTAKE_TIMEZONE to a name of pg_timezone_names' },
  })
  const [, named] = /^the warehouse does not know (.*)$/.exec(detail)!
  expect(named!.split(', ').toSorted()).toEqual(['Mars/Olympus', 'Moon/Sea'])
})
