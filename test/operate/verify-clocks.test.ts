/** What is newer than a look at the source, whatever the clocks say, and what comes while a repair asks. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { instantOf } from '../../src/core/time.ts'
import { json } from '../api/support/service.ts'
import { type LittleService, startLittleService } from '../e2e/support/little-service.ts'
import { openScene, patient, patientEvent, type Scene } from '../ingest/drain/scene.ts'
import { runCommand } from '../support/run-command.ts'

let scene: Scene
let service: LittleService

beforeEach(async () => {
  scene = await openScene()
  service = await startLittleService([patient('p1', { last_name: 'first' }), patient('p2', {})])
})

afterEach(async () => {
  await service[Symbol.asyncDispose]()
  await scene[Symbol.asyncDispose]()
})

interface Found {
  readonly missing: readonly string[]
  readonly extra: readonly string[]
  readonly different: readonly { readonly id: string }[]
  readonly repaired: number
  readonly newer: number
}

const env = () => ({ ...service.env, DATABASE_URL: scene.url, LOG_LEVEL: 'error' })

const at = (milliseconds: number) => instantOf(systemClock.now() + milliseconds * 1000)

async function backfill(stream: string): Promise<void> {
  const ended = await runCommand(['backfill', '--streams', stream], env())
  expect(ended.code, ended.output).toBe(0)
}

async function verify(stream: string, ...words: string[]): Promise<{ code: number | null; found: Found }> {
  const ended = await runCommand(['verify', '--json', '--streams', stream, ...words], env())
  const { streams } = JSON.parse(ended.stdout) as { streams: Record<string, Found> }
  return { code: ended.code, found: streams[stream]! }
}

test('what an event brings while a repair asks for its record is not overruled by the answer', async () => {
  await backfill('patients')
  await scene.rows(`update intake_raw.records set hash = '\\x00' where id = 'p1'`)
  await scene.rows(`update intake.patients set last_name = 'damaged' where id = 'p1'`)
  let asked = 0
  service.interfere = ({ url }, response) => {
    if (!url.endsWith('/p1')) return false
    asked += 1
    // The first is the second look; what follows is the repair.
    if (asked !== 2) return false
    const stale = service.records.patients[0]
    service.records.patients[0] = patient('p1', { last_name: 'newer' })
    void (async () => {
      const event = patientEvent('p1', 0, { last_name: 'newer' }, { timestamp: at(0) })
      await scene.store([event], { receivedAt: at(0) })
      await scene.drain()
      json(response, stale)
    })()
    return true
  }
  const { code, found } = await verify('patients', '--repair')
  expect(asked).toBe(2)
  // What was fetched is not what is held: that is not said to be repaired.
  expect({ code, found }).toMatchObject({ code: 4, found: { different: [{ id: 'p1' }], repaired: 0 } })
  expect(await scene.rows(`select last_name from intake.patients where id = 'p1'`)).toEqual([
    { last_name: 'newer' },
  ])
  service.interfere = () => false
  expect(await verify('patients')).toMatchObject({ code: 0, found: { different: [] } })
})
