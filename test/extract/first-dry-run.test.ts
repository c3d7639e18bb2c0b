/** A dry run into an empty database: it has no tables to ask, and reports what the first run would. */
import { expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { backfill } from '../../src/extract/backfill.ts'
import { EVERYTHING } from '../../src/extract/reading/window.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { json } from '../api/support/service.ts'
import { littlePatients, startLittleService } from '../e2e/support/little-service.ts'
import { silent } from '../ingest/drain/scene.ts'
import { createTestDatabase } from '../support/database.ts'

const stamps = { created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-02T00:00:00Z' }
const answers = (id: string) => ({
  id,
  submitted_at: stamps.created_at,
  is_submitted: true,
  answers: [],
  ...stamps,
})

test('of every stream it counts and notes what the first run then does', async () => {
  await using service = await startLittleService(littlePatients(23))
  const { records } = service
  records.patients.push({ id: null as never, first_name: 'without an id' })
  records.patients.push({ id: 'odd', first_name: 7 as never, updated_at: 'yesterday' })
  records.forms.push({ id: 'f', name: 'F', questions: [], ...stamps })
  records.responses.push(...['r1', 'r2', 'gone', 'failing'].map(answers))
  records.exports.push({ id: 'e', name: 'E' }, { id: 'lost', name: 'L' })
  records.webhookDeliveries.push({ id: 'd', event_id: 'v', status: 'sent', created_at: stamps.created_at })
  service.interfere = ({ method, url, body }, response) => {
    const path = new URL(url, service.url).pathname
    if (method === 'POST') {
      if (body.includes('lost')) json(response, { detail: 'no' }, 404)
      else
        response
          .writeHead(200, { 'content-type': 'text/csv' })
          .end('Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived\n1,A,B,,,,False\n')
    } else if (path === '/v2/responses') {
      const results = records.responses.map((each) => ({
        ...each,
        answers: undefined,
        is_submitted: undefined,
      }))
      json(response, { count: results.length, next: null, previous: null, results })
    } else if (path.endsWith('/gone')) json(response, { detail: 'Not found.' }, 404)
    else if (path.endsWith('/failing')) json(response, { detail: 'no' }, 500)
    else return false
    return true
  }
  const run = async (url: string, dry: boolean) => {
    const source = { baseUrl: service.url, apiKey: 'k', apiSecret: 's', apiVersion: 'v2.1', concurrency: 4 }
    const { teams, ...summary } = await backfill({
      ...{ url, dry, migrated: !dry, streams: STREAMS, teams: [{ name: 'north', ...source }] },
      ...{ allowMassDelete: false, window: { ...EVERYTHING, full: false }, random: () => 0, logger: silent },
      ...{ signal: new AbortController().signal, onProgress: () => {} },
      clock: { ...systemClock, sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 20), signal) },
    })
    const reports = teams[0]!.streams.map(({ stream, report: { seconds, ...report } }) => {
      expect(seconds).toBeGreaterThan(0)
      return { stream, ...report }
    })
    return { ...summary, reports: reports.toSorted((a, b) => (a.stream < b.stream ? -1 : 1)) }
  }
  await using empty = await createTestDatabase({ empty: true })
  await using migrated = await createTestDatabase()
  const first = await run(migrated.url, false)
  const dry = await run(empty.url, true)
  expect(dry).toEqual({ ...first, runId: null })
  const reported = dry.reports.filter(({ fetched }) => fetched > 0)
  expect(
    reported.map(({ stream, status, fetched, changed, deadLetters }) => [
      stream,
      status,
      fetched,
      changed,
      deadLetters,
    ]),
  ).toEqual([
    ['exports', 'succeeded', 2, 2, 1],
    ['forms', 'succeeded', 1, 1, 0],
    ['patients', 'succeeded', 25, 24, 1],
    ['responses', 'needs_attention', 4, 2, 1],
    ['webhook_deliveries', 'succeeded', 1, 1, 0],
  ])
})
