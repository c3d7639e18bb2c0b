/** A warehouse that stops, hangs and returns: 503 in time, every acknowledged event stored, no intervention needed. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { LIMITS } from '../../../src/ingest/http/in-flight.ts'
import { type Ingester, openIngester } from '../../../src/ingest/http/server.ts'
import { startOwnTime } from '../../support/own-time.ts'
import { eventOf, known, openRecorder, post, query, type Recorded, SECRET } from '../support/ingest.ts'
import { type OwnServer, openOwnServer } from '../support/own-server.ts'

let server: OwnServer

beforeAll(async () => {
  server = await openOwnServer()
})

afterAll(() => server[Symbol.asyncDispose]())

async function open(): Promise<Ingester & { readonly recorded: Recorded }> {
  const { recorded, watch, logger } = openRecorder()
  const teams = [{ name: 'clinic', teamId: 1, secrets: known(SECRET) }]
  const ingester = await openIngester({
    ...{ url: server.url, host: '127.0.0.1', port: 0, teams, clock: systemClock, logger, watch },
  })
  return Object.assign(ingester, { recorded })
}

/** Ten senders until `stop`; returns the acknowledged events, and the slowest answer in milliseconds. */
function sendTo(url: string) {
  const acknowledged = new Set<string>()
  const refused: number[] = []
  const failed: Error[] = []
  let slowest = 0
  let sending = true
  const send = async (sender: number) => {
    for (let number = 0; sending; number += 1) {
      const id = `${sender}-${number}-${Math.random()}`
      using time = startOwnTime()
      const answer = await post(url, eventOf({ id })).catch((error: Error) => error)
      if (answer instanceof Error) return void failed.push(answer)
      const { status, headers } = answer
      slowest = Math.max(slowest, time.milliseconds)
      if (status === 200) acknowledged.add(id)
      else {
        refused.push(status)
        expect(status).toBe(503)
        expect(headers.get('retry-after')).toMatch(/^\d+$/)
        await sleep(20)
      }
    }
  }
  const senders = Promise.all(Array.from({ length: 10 }, (_, sender) => send(sender)))
  return {
    acknowledged,
    refused,
    get slowest() {
      return slowest
    },
    async stop() {
      sending = false
      await senders
      expect(failed).toEqual([])
    },
  }
}

async function missingOf(acknowledged: ReadonlySet<string>): Promise<readonly string[]> {
  const rows = await query<{ event_id: string }>(server.url, 'select event_id from intake_raw.inbox')
  const stored = new Set(rows.map((row) => row.event_id))
  return [...acknowledged].filter((id) => !stored.has(id))
}

it('a warehouse that is killed, stopped and killed again under load loses no acknowledged event', async () => {
  await using ingester = await open()
  const sent = sendTo(ingester.url)
  for (const leave of ['kill', 'stop', 'kill'] as const) {
    await sleep(300)
    await server[leave]()
    await expect.poll(() => ingester.trouble(), { interval: 5 }).not.toBeNull()
    if (leave === 'stop') {
      await sleep(500)
      await server.start()
    }
    // Events acknowledged during the outage were stored before it.
    await expect.poll(() => ingester.trouble()).toBeNull()
    const before = sent.acknowledged.size
    await expect.poll(() => sent.acknowledged.size).toBeGreaterThan(before)
    expect(ingester.trouble()).toBeNull()
  }
  await sent.stop()
  expect(sent.refused.length).toBeGreaterThan(0)
  expect(sent.slowest).toBeLessThan(2_000)
  expect(await missingOf(sent.acknowledged)).toEqual([])
  expect(ingester.recorded.logged.join('')).toContain('the warehouse is back')
})

it('while a warehouse hangs, answers come within two seconds, then at once, until it responds again', async () => {
  await using ingester = await open()
  const sent = sendTo(ingester.url)
  await sleep(200)
  const release = server.hang()
  try {
    await expect.poll(() => ingester.trouble()).not.toBeNull()
    using time = startOwnTime()
    expect((await post(ingester.url, eventOf())).status).toBe(503)
    // No statement was waited for.
    expect(time.milliseconds).toBeLessThan(LIMITS.statementMs / 2)
  } finally {
    release()
  }
  const before = sent.acknowledged.size
  await expect.poll(() => sent.acknowledged.size).toBeGreaterThan(before)
  await sent.stop()
  expect(sent.slowest).toBeLessThan(2_000)
  expect(await missingOf(sent.acknowledged)).toEqual([])
})

it('an ingester that starts without the warehouse answers 503, and stores once it is reachable', async () => {
  await server.stop()
  const ingester = await open()
  try {
    expect((await post(ingester.url, eventOf())).status).toBe(503)
    expect(ingester.trouble()).toContain('cannot reach the warehouse')
    await server.start()
    await expect.poll(async () => (await post(ingester.url, eventOf())).status).toBe(200)
  } finally {
    await ingester.close()
  }
})

it('an ingester closes also while the warehouse hangs', async () => {
  const ingester = await open()
  const release = server.hang()
  using time = startOwnTime()
  const answer = post(ingester.url, eventOf())
  await expect.poll(() => ingester.inFlight.events).toBe(1)
  await ingester.close()
  expect(time.milliseconds).toBeLessThan(5_000)
  expect((await answer).status).toBe(503)
  release()
})
