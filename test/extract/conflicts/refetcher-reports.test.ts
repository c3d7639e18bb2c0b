/** What a refetcher says and counts while a service fails, answers, and fails again. */
import pino from 'pino'
import { expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openRefetcher } from '../../../src/extract/conflicts/refetcher.ts'
import { requestRefetches } from '../../../src/load/refetches.ts'
import { json } from '../../api/support/service.ts'
import { openRig } from '../support/reading.ts'

test('a service that fails is logged once until it answers, and every request is counted, repeated ones too', async () => {
  await using rig = await openRig()
  const said: unknown[] = []
  const counted: unknown[] = []
  let isFailing = true
  rig.service.records.patients = [{ id: 'here', first_name: 'A' }]
  rig.service.interfere = (_, response) => {
    if (isFailing) json(response, {}, 500)
    return isFailing
  }
  const source = { baseUrl: rig.service.url, apiKey: 'k', apiSecret: 's', apiVersion: 'v2.1', concurrency: 4 }
  await using refetcher = openRefetcher({
    url: rig.url,
    teams: [{ name: 'default', teamId: rig.teamId, ...source }],
    clock: {
      ...systemClock,
      sleep: (ms, signal) => systemClock.sleep(Math.min(ms, 20), signal),
    },
    random: Math.random,
    logger: pino(
      { level: 'warn', base: null, timestamp: false },
      { write: (line) => void said.push(JSON.parse(line)) },
    ),
    watch: { refetched: (...each) => void counted.push(each), defect: () => {} },
    pollMs: 60_000,
  })
  const asked = (id: string) =>
    ({
      teamId: rig.teamId,
      stream: 'patients',
      id,
      reason: 'partial',
      origin: 'event:e',
      since: null,
    }) as const
  await requestRefetches(rig.session.db, ['here', 'gone'].map(asked))
  const round = async (after: number) => {
    await rig.rows('update intake_ops.refetches set due_at = now()')
    refetcher.wake()
    await expect.poll(() => counted.length).toBe(after)
  }
  await round(1)
  await round(2)
  isFailing = false
  await round(3)
  isFailing = true
  await round(4)
  expect(counted).toEqual([
    ['default', 12, 0],
    ['default', 12, 0],
    ['default', 2, 1],
    ['default', 6, 0],
  ])
  const msg = 'records cannot be fetched: GET /v2/patients/{id}: the service failed (500), after 6 tries'
  const line = { level: 40, team: 'default', msg }
  expect(said).toEqual([line, line])
})
