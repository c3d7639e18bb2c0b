/** `serve` started without any flag of Node keeps the young generation of its heap small, at its start and under load. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sign } from '../../../src/core/signature.ts'
import { query } from '../../e2e/support/scene.ts'
import { type ServingProcess, startServing } from '../../e2e/support/serving.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'

const SECRET = 'a secret of the test'
const MEBIBYTE = 1024 * 1024
/** Loading the code of `serve` alone would take it to 24 to 32 MiB, whichever Node; newer ones need some above the 8. */
const MAX_BYTES = 20 * MEBIBYTE

let database: TestDatabase
let serving: ServingProcess
beforeAll(async () => {
  database = await createTestDatabase()
  const env = { DATABASE_URL: database.url, INTAKE_WEBHOOK_SECRETS: SECRET }
  serving = await startServing(env, '--no-drain', '--no-schedule')
})
afterAll(async () => {
  await serving?.stop()
  await database?.drop()
})

const youngGeneration = () => serving.metric('intake_nodejs_heap_space_size_total_bytes{space="new"}')

test('a running serve keeps to its young generation without a flag of Node, whatever it receives', async () => {
  expect(serving.running.process.spawnargs.filter((word) => word.startsWith('--max'))).toEqual([])
  expect(await youngGeneration()).toBeGreaterThan(4 * MEBIBYTE)
  expect(await youngGeneration()).toBeLessThan(MAX_BYTES)
  const send = async (number: number) => {
    const body = JSON.stringify({
      id: `e-${number}`,
      event_type: 'updated',
      source: 'patient',
      data: { id: 'p', note: 'x'.repeat(20_000) },
    })
    const headers = { 'x-service-signature': sign(Buffer.from(body), SECRET) }
    const response = await fetch(serving.document.webhooks!, { method: 'POST', body, headers })
    expect([response.status, await response.text()]).toMatchObject([200, expect.anything()])
  }
  for (let first = 0; first < 600; first += 50)
    await Promise.all(Array.from({ length: 50 }, (_, number) => send(first + number)))
  expect(await query(database.url, 'select count(*)::int from intake_raw.inbox')).toEqual([{ count: 600 }])
  expect(await youngGeneration()).toBeLessThan(MAX_BYTES)
})
