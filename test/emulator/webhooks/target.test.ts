import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { startEmulator } from '../../../src/emulator/server.ts'
import { isLoopback, lookUpLoopback, openSender } from '../../../src/emulator/webhooks/sender.ts'
import { callerOf } from '../caller.ts'
import { type Receiver, startReceiver } from '../receiver.ts'

/** What names resolve to in these tests. */
const addresses = vi.hoisted(() => new Map<string, { address: string; family: number }[]>())
/** Names that cannot be resolved, and why. */
const codes = vi.hoisted(() => new Map<string, string>())
/** With which options names were resolved. */
const asked = vi.hoisted(() => [] as object[])
vi.mock('node:dns', async (original) => {
  const dns = await original<typeof import('node:dns')>()
  const lookup = (name: string, options: object, callback: (...found: unknown[]) => void) => {
    asked.push(options)
    const known = addresses.get(name)
    const code = codes.get(name)
    if (code !== undefined) {
      setImmediate(() => callback(Object.assign(new Error(`secret ${name}`), { code })))
      return
    }
    if (known === undefined) return dns.lookup(name, options, callback as never)
    setImmediate(() => callback(null, known))
  }
  return { ...dns, lookup, default: { ...dns, lookup } }
})

const HERE = { address: '127.0.0.1', family: 4 }
const THERE = { address: '192.0.2.1', family: 4 }
const REFUSED = 'target is not on loopback; start with --allow-remote-webhooks'

let receiver: Receiver
beforeEach(async () => {
  receiver = await startReceiver()
})
afterEach(() => receiver.close())

/** The record of the only attempt to tell `target` of a new patient. */
async function attemptAt(target: string, allowRemoteWebhooks = false) {
  await using emulator = await startEmulator({ port: 0, patients: 1, allowRemoteWebhooks })
  const caller = callerOf(emulator)
  expect((await caller.send('POST', '/v2/webhooks', { target_url: target })).status).toBe(201)
  emulator.control.createPatient({ first_name: 'A', last_name: 'B' })
  await emulator.control.webhooks().idle()
  expect(emulator.control.webhooks().retrying === 0 || allowRemoteWebhooks).toBe(true)
  const rows = await caller.rows('/v2/webhooks/events')
  expect(rows).toHaveLength(1)
  return rows[0]
}

describe('a target outside loopback', () => {
  it.each([
    'http://192.0.2.1/hooks',
    'https://192.0.2.1/hooks',
    'http://169.254.169.254/latest/meta-data',
    'http://0.0.0.0:9/',
    'http://3221225985/',
    'http://0300.0.2.1/',
    'http://[2001:db8::1]/',
    'http://[::]/',
    'http://[::ffff:192.0.2.1]/',
    'http://[fe80::1]/',
  ])('may be configured and is never sent to: %s', async (target) => {
    expect(await attemptAt(target)).toMatchObject({
      status: 'failed',
      response_status_code: null,
      error: REFUSED,
      next_retry_at: null,
    })
  })

  it('is checked by every address of a name, and by the one used when connecting', async () => {
    addresses.set('mixed.example', [HERE, THERE])
    addresses.set('inside.example', [HERE])
    const { port } = new URL(receiver.url)
    expect((await attemptAt(`http://mixed.example:${port}/hooks`)).error).toBe(REFUSED)
    expect(receiver.connections).toBe(0)
    expect((await attemptAt(`http://inside.example:${port}/hooks`)).status).toBe('succeeded')
    expect((await attemptAt(`http://localhost:${port}/hooks`)).status).toBe('succeeded')
  })

  it('gets events under a name elsewhere only if that is allowed', async () => {
    // The first address is this machine's, so that the event arrives.
    addresses.set('elsewhere.example', [HERE, THERE])
    const { port } = new URL(receiver.url)
    const error = (await attemptAt(`http://elsewhere.example:${port}/hooks`)).error
    expect([error, receiver.deliveries.length]).toEqual([REFUSED, 0])
    codes.set('gone.example', 'ENOTFOUND')
    expect((await attemptAt(`http://gone.example:${port}/hooks`, true)).error).toBe('name not found')
  })

  it('is none where its address is loopback, also in brackets', async () => {
    const sender = openSender({ allowRemote: false, timeoutMs: 5000 })
    const post = async (url: string) => (await sender.post(url, Buffer.from('{}'), 'x')).final
    expect([await post('http://[::1]:1/'), await post('http://[::ffff:127.0.0.1]:1/')]).toEqual([
      false,
      false,
    ])
    expect([await post('http://[::2]:1/'), await post('http://[::ffff:126.0.0.1]:1/')]).toEqual([true, true])
    await sender.close()
  })

  it('gets events if that is allowed', async () => {
    const target = receiver.url.replace('127.0.0.1', '0.0.0.0')
    expect((await attemptAt(target, true)).status).toBe('succeeded')
    expect(receiver.deliveries).toHaveLength(1)
  })

  it('does not include loopback in any spelling', () => {
    for (const address of ['127.0.0.1', '127.255.3.4', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1'])
      expect([address, isLoopback(address)]).toEqual([address, true])
    for (const address of ['128.0.0.1', '126.255.255.255', '::2', '::ffff:128.0.0.1', '::', '0.0.0.0'])
      expect([address, isLoopback(address)]).toEqual([address, false])
  })

  it('does not include a name on loopback: a caller gets one address, or all', async () => {
    addresses.set('both.example', [HERE, { address: '::1', family: 6 }])
    const found = (options: object) =>
      new Promise((resolve) => lookUpLoopback('both.example', options, (...all) => resolve(all)))
    expect(await found({})).toEqual([null, '127.0.0.1', 4])
    addresses.set('six.example', [{ address: '::1', family: 6 }])
    expect(
      await new Promise((resolve) => lookUpLoopback('six.example', {}, (...all) => resolve(all))),
    ).toEqual([...[null, '::1', 6]])
    expect(await found({ all: true })).toEqual([null, [HERE, { address: '::1', family: 6 }]])
    await found({ family: 4, hints: 1 })
    expect(asked.at(-1)).toEqual({ family: 4, hints: 1, all: true })
  })

  it('includes a name without an address', async () => {
    addresses.set('nowhere.example', [])
    const error = await new Promise((resolve) => lookUpLoopback('nowhere.example', {}, resolve))
    expect((error as Error).message).toBe(REFUSED)
  })
})

it.each([
  ['ENOTFOUND', 'name not found'],
  ['EAI_AGAIN', 'name not found'],
  ['ETIMEDOUT', 'timeout'],
  ['UND_ERR_CONNECT_TIMEOUT', 'timeout'],
  ['ECONNREFUSED', 'connection refused'],
  ['ECONNRESET', 'connection reset'],
  ['EPIPE', 'connection reset'],
  ['EHOSTUNREACH', 'connection failed'],
  ['', 'connection failed'],
])('a target that fails with the code %j is recorded as: %s', async (code, error) => {
  codes.set('failing.example', code)
  const sender = openSender({ allowRemote: false, timeoutMs: 5000 })
  const outcome = await sender.post('http://failing.example/hooks', Buffer.from('{}'), 'x')
  await sender.close()
  expect(outcome).toEqual({ acknowledged: false, status: null, error, final: false })
})

it.each(['end', 'resetAndDestroy'] as const)(
  'a target that closes the connection (%s) without an answer is reported as a reset connection',
  async (breakOff) => {
    const receiver = createServer((socket) => {
      socket.on('error', () => {}).once('data', () => socket[breakOff]())
    })
    await once(receiver.listen(0, '127.0.0.1'), 'listening')
    const { port } = receiver.address() as AddressInfo
    const sender = openSender({ allowRemote: false, timeoutMs: 5000 })
    const outcome = await sender.post(`http://127.0.0.1:${port}/hooks`, Buffer.from('{}'), 'x')
    await sender.close()
    receiver.close()
    expect(outcome).toEqual({ acknowledged: false, status: null, error: 'connection reset', final: false })
  },
)

it('an attempt leaves no timer, whether it succeeds, fails or is refused', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  codes.set('failing.example', 'ENOTFOUND')
  const sender = openSender({ allowRemote: false, timeoutMs: 600_000 })
  const before = timers()
  const outcomes: boolean[] = []
  for (const url of [receiver.url, 'http://failing.example/', 'http://192.0.2.1/'])
    outcomes.push((await sender.post(url, Buffer.from('{}'), 'x')).acknowledged)
  expect(outcomes).toEqual([true, false, false])
  expect(timers()).toBeLessThanOrEqual(before)
  await sender.close()
})
