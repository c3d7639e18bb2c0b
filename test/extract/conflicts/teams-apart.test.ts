/** Failures of one team's service that are no failures of another team. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openRefetcher } from '../../../src/extract/conflicts/refetcher.ts'
import { requestRefetches } from '../../../src/load/refetches.ts'
import { json } from '../../api/support/service.ts'
import { type LittleService, startLittleService } from '../../e2e/support/little-service.ts'
import { silent } from '../../ingest/drain/scene.ts'
import { openRig, type Rig } from '../support/reading.ts'

let rig: Rig
let other: LittleService
beforeEach(async () => {
  rig = await openRig()
  other = await startLittleService()
})
afterEach(async () => {
  await other[Symbol.asyncDispose]()
  await rig[Symbol.asyncDispose]()
})

const ask = (teamId: number, ids: readonly string[]) =>
  requestRefetches(
    rig.session.db,
    ids.map((id) => ({ teamId, stream: 'patients', id, reason: 'partial', origin: 'event:e', since: null })),
  )
const failed = async (teamId: number) =>
  (
    await rig.rows<{ id: string }>(
      'select id from intake_ops.refetches where team_id = $1 and failures > 0 order by id',
      [teamId],
    )
  ).map(({ id }) => id)

test('records of a team are fetched, but for the one that fails, however many of another team have failed in a row', async () => {
  const clock = {
    ...systemClock,
    sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 5), signal),
  }
  const source = (name: string, teamId: number, baseUrl: string) => ({
    ...{ name, teamId, baseUrl, apiKey: 'k', apiSecret: 's', apiVersion: 'v2.1', concurrency: 4 },
  })
  await using refetcher = openRefetcher({
    ...{ url: rig.url, clock, random: Math.random, logger: silent, pollMs: 20 },
    teams: [source('default', rig.teamId, rig.service.url), source('other', rig.otherId, other.url)],
    watch: { refetched: () => {} },
  })
  const refuse = (ending: string) => (request: { url: string }, response: Parameters<typeof json>[0]) => {
    if (!request.url.includes(ending)) return false
    json(response, { detail: 'Sorry.' }, 500)
    return true
  }
  rig.service.interfere = refuse('/p')
  other.interfere = refuse('/bad')
  other.records.patients = ['a', 'b', 'c'].map((id) => ({ id, first_name: 'A' }))
  const ten = Array.from({ length: 10 }, (_, at) => `p${at}`)
  await ask(rig.teamId, ten)
  refetcher.wake()
  await expect.poll(() => failed(rig.teamId)).toEqual(ten)
  await ask(rig.otherId, ['a', 'b', 'bad', 'c'])
  refetcher.wake()
  await expect.poll(() => failed(rig.otherId)).not.toEqual([])
  expect(await failed(rig.otherId)).toEqual(['bad'])
  const stored = await rig.rows('select id from intake.patients where team_id = $1 order by id', [
    rig.otherId,
  ])
  expect(stored).toEqual([{ id: 'a' }, { id: 'b' }, { id: 'c' }])
})
