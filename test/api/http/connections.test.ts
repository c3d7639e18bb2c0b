/** The connections to a service: how many, how long each part of an answer may take, and how they end. */
import { expect, test, vi } from 'vitest'
import { openClient } from '../../../src/api/client.ts'
import { DEFAULT_TIMEOUTS, openWire } from '../../../src/api/http/wire.ts'
import { systemClock } from '../../../src/core/clock.ts'

const pools = vi.hoisted(() => ({ opened: [] as unknown[], ended: [] as string[] }))

vi.mock('undici', async (original) => ({
  ...(await original<object>()),
  Pool: class {
    constructor(...options: unknown[]) {
      pools.opened.push(options)
    }
    destroy = async () => void pools.ended.push('destroyed')
    close = async () => void pools.ended.push('closed')
  },
}))

const opened = () => pools.opened.splice(0)

test('a wire has so many connections to one origin, with a limit for each part of an answer, and ends them at once', async () => {
  const wire = openWire(
    'https://forms.example.com',
    3,
    { connect: 1, headers: 2, bodyIdle: 3, attempt: 4 },
    5,
  )
  expect(opened()).toEqual([
    [
      'https://forms.example.com',
      {
        ...{ connections: 3, pipelining: 1, connect: { timeout: 1 }, headersTimeout: 2, bodyTimeout: 3 },
        keepAliveTimeout: 10_000,
      },
    ],
  ])
  await wire.close()
  expect(pools.ended.splice(0)).toEqual(['destroyed'])
})

test('a client has the usual limits, those of its caller instead, and waits for no answer longer than its team waits', async () => {
  const optionsOf = async (more: object) => {
    const client = openClient({
      ...{ baseUrl: 'http://forms.example.com:8080/intake', apiKey: 'k', apiSecret: 's', apiVersion: '' },
      ...{ concurrency: 4, clock: systemClock, random: () => 0, logger: {} as never },
      ...more,
    })
    await client.close()
    const [[origin, options]] = opened() as [[string, Record<string, unknown>]]
    expect(origin).toBe('http://forms.example.com:8080')
    const { connections, connect, headersTimeout, bodyTimeout } = options
    return { connections, connect, headersTimeout, bodyTimeout }
  }
  const usual = { connections: 4, connect: { timeout: 10_000 }, headersTimeout: 60_000, bodyTimeout: 30_000 }
  expect(await optionsOf({})).toEqual(usual)
  expect(await optionsOf({ concurrency: 2, giveUpAfterMs: 5_000 })).toEqual({
    ...{ ...usual, connections: 2, headersTimeout: 5_000 },
  })
  expect(await optionsOf({ timeouts: { headers: 70_000, connect: 5 } })).toEqual({
    ...{ ...usual, connect: { timeout: 5 }, headersTimeout: 70_000 },
  })
  expect(pools.ended).toEqual(['destroyed', 'destroyed', 'destroyed'])
  expect(DEFAULT_TIMEOUTS).toEqual({ connect: 10_000, headers: 60_000, bodyIdle: 30_000, attempt: 600_000 })
})
