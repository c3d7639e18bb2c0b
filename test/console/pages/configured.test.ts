/** Pages over teams with credentials: what depends on a team's configuration, and on what its service answers. */
import { expect, it } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { json } from '../../api/support/service.ts'
import { startLittleService } from '../../e2e/support/little-service.ts'
import { query } from '../../e2e/support/scene.ts'
import { createTestDatabase } from '../../support/database.ts'
import { plain, startConsole, whole } from '../support/console.ts'

it('an event is read with the version that its own team requests, and the time that a verification took stays', async () => {
  await using warehouse = await createTestDatabase()
  await using service = await startLittleService()
  service.interfere = (_request, response) => {
    json(response, { detail: 'No.' }, 401)
    return true
  }
  const data = { id: 'd', name: 'HIPAA', text: '', created_at: '2026-01-01T00:00:00Z' }
  const body = { id: 'e', timestamp: '2026-01-01T00:00:00Z', event_type: 'updated', source: 'document', data }
  await query(warehouse.url, `insert into intake.teams (name) values ('north'), ('south')`)
  await query(
    warehouse.url,
    `insert into intake_raw.inbox
       (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body, status, settled_at)
     select team_id, 'e', '', current_date, now(), 'updated', 'document', 'd', convert_to($1, 'UTF8'), 'done', now()
     from intake.teams`,
    [JSON.stringify(body)],
  )
  const access = { baseUrl: service.url, apiKey: 'k', apiSecret: 's', concurrency: 1 }
  let later = 0
  await using console_ = await startConsole(warehouse.url, {
    clock: { ...systemClock, now: () => systemClock.now() + later },
    teams: ['north', 'south'].map((name, at) => ({ ...access, name, apiVersion: ['v2.1', ''][at]! })),
  })
  const reader = await console_.enter('operator')
  const record = async (team: string) =>
    plain(await whole(reader, `/records?${new URLSearchParams({ team, stream: 'documents', id: 'd' })}`))
  expect(await record('north')).toContain('did not settle the state (partial)')
  const south = await record('south')
  expect([south.includes('updated, e :'), south.includes('did not settle')]).toEqual([true, false])

  expect((await reader.post('/verify', { team: 'north' })).status).toBe(303)
  const took = async () => /failed, after ([\d.]+ s)/.exec(await whole(reader, '/verify'))?.[1]
  const first = await took()
  expect(first).toBeDefined()
  later += 3_600_000_000
  expect(await took()).toBe(first)
})
