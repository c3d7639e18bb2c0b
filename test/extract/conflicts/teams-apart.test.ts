/** Failures of one team's service that are no failures of another team. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openRefetcher } from '../../../src/extract/conflicts/refetcher.ts'
import { requestRefetches } from '../../../src/load/refetches.ts'
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
const deadLetters = async (teamId: number) =>
  (
    await rig.rows<{ id: string }>(
      'select record_id as id from intake_ops.dead_letters where team_id = $1 order by record_id',
      [teamId],
    )
  ).map(({ id }) => id)

test('a record that cannot be read is a dead letter and stops nothing, however many of another team could not be read in a row', async () => {
  const clock = {
    ...systemClock,
    sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 5), signal),
  }
  const source = (name: string, teamId: number, baseUrl: string) => ({
    ...{ name, teamId, baseUrl, apiKey: 'k', apiSecret: 's', apiVersion: 'v2.1', concurrency: 4 },
  })
  for (const service of [rig.service, other])
    service.interfere = (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' }).end('{')
      return true
    }
  await using refetcher = openRefetcher({
    ...{ url: rig.url, clock, random: Math.random, logger: silent, pollMs: 20 },
    teams: [source('default', rig.teamId, rig.service.url), source('other', rig.otherId, other.url)],
    watch: { refetched: () => {}, defect: () => {} },
  })
  const ten = Array.from({ length: 10 }, (_, at) => `p${at}`)
  await ask(rig.teamId, ten)
  refetcher.wake()
  await expect.poll(() => deadLetters(rig.teamId)).toEqual(ten)
  await ask(rig.otherId, ['bad'])
  refetcher.wake()
  const isOver = async () => refetcher.trouble() !== null || (await deadLetters(rig.otherId)).length > 0
  await expect.poll(isOver).toBe(true)
  expect([refetcher.trouble(), await deadLetters(rig.otherId)]).toEqual([null, ['bad']])
})
