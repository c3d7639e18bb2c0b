/** The sessions of loaders: how they are opened, which are used again, and what becomes of them in the end. */
import { setImmediate } from 'node:timers/promises'
import { beforeEach, expect, test, vi } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import { type LoadersOptions, openLoaders } from '../../../src/load/merge/loaders.ts'
import type { Session } from '../../../src/warehouse/connect.ts'

const net = vi.hoisted(() => ({ asked: [] as object[], events: [] as string[], opened: 0, refuses: 0 }))

vi.mock('../../../src/warehouse/connect.ts', async (original) => ({
  ...(await original<object>()),
  async openSession(options: object) {
    net.asked.push(options)
    if (net.refuses > 0) {
      net.refuses -= 1
      throw new IntakeError('refused', { code: 'warehouse_unreachable', verdict: 'retry' })
    }
    net.opened += 1
    const name = `${net.opened}`
    return { client: { name }, close: async () => void net.events.push(`closed ${name}`) }
  },
  destroySocket: ({ name }: { name: string }) => void net.events.push(`destroyed ${name}`),
}))

/** A pause ends when the test ends it, or is aborted. */
const pauses: { readonly milliseconds: number; readonly signal: AbortSignal | undefined; end(): void }[] = []
const clock: Clock = {
  now: () => 0,
  sleep: (milliseconds, signal) =>
    new Promise((end, fail) => {
      pauses.push({ milliseconds, signal, end })
      signal?.addEventListener('abort', () => fail(signal.reason))
    }),
}

beforeEach(() => {
  Object.assign(net, { asked: [], events: [], opened: 0, refuses: 0 })
  pauses.length = 0
})

const open = (options: Partial<LoadersOptions> = {}) =>
  openLoaders({ url: 'postgres://w', clock, ...options })
const nameOf = ({ client }: Session) => (client as unknown as { name: string }).name
/** Work that ends when the test ends it. */
function begun() {
  const ends: { resolve: (result: string) => void; reject: (error: Error) => void } = {
    resolve: () => {},
    reject: () => {},
  }
  const promise = new Promise<string>((resolve, reject) => Object.assign(ends, { resolve, reject }))
  return {
    work: () => promise,
    resolve: (result: string) => ends.resolve(result),
    reject: (error: Error) => ends.reject(error),
  }
}
const lost = () => Object.assign(new Error('lost'), { code: 'ECONNRESET' })

test('sessions are opened for loading, with the settings of their caller, and only when they are needed', async () => {
  const loaders = open()
  expect(net.asked).toEqual([])
  await loaders.run(async () => {})
  await open({ lockTimeoutMs: 70, worker: 'aaaaaaa1' }).run(async () => {})
  const same = { url: 'postgres://w', purpose: 'load', planner: ['enable_seqscan=off', 'jit=off'] }
  expect(net.asked).toEqual([same, { ...same, lockTimeoutMs: 70, worker: 'aaaaaaa1' }])
})

test('a session is used again after work that succeeded, and not after work that failed, whatever failed', async () => {
  const loaders = open()
  expect(await loaders.run(async (session) => nameOf(session))).toBe('1')
  expect(await loaders.run(async (session) => nameOf(session))).toBe('1')
  const failure = new IntakeError('no', { code: 'internal', verdict: 'stop' })
  await expect(loaders.run(() => Promise.reject(failure))).rejects.toBe(failure)
  expect(net.events).toEqual(['closed 1'])
  expect(await loaders.run(async (session) => nameOf(session))).toBe('2')
  await loaders.close()
  expect(net.events).toEqual(['closed 1', 'closed 2'])
})

test('work that lost its session is tried three times in all, after half a second and a second, and named by its team', async () => {
  const retries: unknown[] = []
  const loaders = open({ onRetry: (...retry) => retries.push(retry) })
  const used: string[] = []
  const working = loaders.ofTeam(7).run(async (session) => {
    used.push(nameOf(session))
    throw lost()
  })
  working.catch(() => {})
  for (const nth of [0, 1]) {
    await expect.poll(() => pauses.length).toBe(nth + 1)
    pauses[nth]!.end()
  }
  await expect(working).rejects.toMatchObject({ code: 'warehouse_unreachable', verdict: 'retry' })
  expect(used).toEqual(['1', '2', '3'])
  expect(pauses.map(({ milliseconds }) => milliseconds)).toEqual([500, 1_000])
  expect(retries).toEqual([
    ['warehouse_unreachable', 1, 7],
    ['warehouse_unreachable', 2, 7],
  ])
  expect(net.events).toEqual(['closed 1', 'closed 2', 'closed 3'])
})

test('a warehouse that refuses a connection once is asked again; work without a team has a negative number', async () => {
  const retries: unknown[] = []
  const loaders = open({ onRetry: (...retry) => retries.push(retry) })
  net.refuses = 1
  const working = loaders.run(async (session) => nameOf(session))
  await expect.poll(() => pauses.length).toBe(1)
  pauses[0]!.end()
  expect(await working).toBe('1')
  expect(retries).toEqual([['warehouse_unreachable', 1, -1]])
})

test('a team has two sessions unless more are permitted; by default all teams together have no more than one team may', async () => {
  const inUse = async (options: Partial<LoadersOptions>, teams: readonly number[]) => {
    const loaders = open(options)
    const running: ReturnType<typeof begun>[] = []
    const all = teams.map((teamId) => {
      return loaders.ofTeam(teamId).run(() => {
        const one = begun()
        running.push(one)
        return one.work()
      })
    })
    await setImmediate()
    const most = running.length
    while (running.length > 0) {
      running.shift()!.resolve('')
      await setImmediate()
    }
    await Promise.all(all)
    return most
  }
  expect(await inUse({}, [1, 1, 1, 1])).toBe(2)
  expect(await inUse({}, [1, 2, 3, 4])).toBe(2)
  expect(await inUse({ count: 3 }, [1, 1, 1, 2])).toBe(3)
  expect(await inUse({ count: 1, total: 3 }, [1, 1, 2, 3, 4])).toBe(3)
})

test('closing waits for what was begun, then closes every session, and leaves no timer', async () => {
  const loaders = open()
  const [one, other] = [begun(), begun()]
  const working = [loaders.run(one.work), loaders.run(other.work)]
  await setImmediate()
  let isClosed = false
  const closing = loaders.close().then(() => {
    isClosed = true
  })
  one.resolve('one')
  expect(await working[0]).toBe('one')
  await setImmediate()
  expect([isClosed, pauses.map(({ milliseconds }) => milliseconds)]).toEqual([false, [15_000]])
  other.resolve('other')
  await closing
  expect(await working[1]).toBe('other')
  expect(net.events.sort()).toEqual(['closed 1', 'closed 2'])
  // An unneeded timer would keep the process alive for fifteen seconds.
  expect(pauses[0]!.signal?.aborted).toBe(true)
})

test('work that does not end loses its sessions, all of them, while idle ones are closed as usual', async () => {
  const loaders = open({ count: 3 })
  const idle = begun()
  const hanging = [begun(), begun()]
  const working = [idle, ...hanging].map(({ work }) => loaders.run(work))
  for (const each of working) each.catch(() => {})
  await setImmediate()
  idle.resolve('idle')
  await working[0]
  const closing = loaders.close()
  await setImmediate()
  pauses[0]!.end()
  await setImmediate()
  expect(net.events).toEqual(['destroyed 2', 'destroyed 3'])
  for (const { reject } of hanging) reject(lost())
  await closing
  // Not tried again.
  expect([net.opened, pauses.length]).toEqual([3, 1])
  expect(net.events.slice(2).sort()).toEqual(['closed 1', 'closed 2', 'closed 3'])
})

test('work that begins after closing leaves no session behind', async () => {
  const loaders = open()
  await loaders.close()
  expect(await loaders.run(async (session) => nameOf(session))).toBe('1')
  await expect(loaders.run(() => Promise.reject(lost()))).rejects.toMatchObject({
    code: 'warehouse_unreachable',
  })
  expect([net.events, net.opened]).toEqual([['closed 1', 'closed 2'], 2])
})
