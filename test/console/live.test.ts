/** Open pages learn that something changed: a few at once, in turn, as long as their session is open. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { serveLive } from '../../src/console/live.ts'
import type { Shared } from '../../src/console/shared.ts'

const EVERY_MS = 2_000

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

interface Raw {
  readonly written: string[]
  ended: boolean
  writableNeedDrain: boolean
  close(): void
}

/** The route of open pages, without a server; `trace` is what the warehouse shows. */
function openScene() {
  const state = { trace: 'one' as string | Error, looks: 0, out: new Set<string>(), heads: [] as unknown[] }
  const stop = new AbortController()
  let open: (request: unknown, reply: unknown) => void = () => {}
  const app = {
    get: (_path: string, _options: unknown, handler: typeof open) => {
      open = handler
    },
  }
  const readings = {
    look: async () => {
      state.looks += 1
      if (state.trace instanceof Error) throw state.trace
      return state.trace
    },
  }
  const sessions = { isOpen: (id: string) => !state.out.has(id) }
  serveLive(app as never, { readings, signal: stop.signal, sessions } as unknown as Shared)
  const page = (id = 'reader'): Raw => {
    let closed = () => {}
    const raw = {
      ...{ written: [] as string[], ended: false, writableNeedDrain: false },
      writeHead: (...head: unknown[]) => void state.heads.push(head),
      write: (text: string) => void raw.written.push(text),
      end: () => {
        raw.ended = true
        closed()
      },
      on: (_event: string, listener: () => void) => {
        closed = listener
      },
      close: () => closed(),
    }
    open({ visitor: { id } }, { raw, hijack: () => {} })
    return raw
  }
  const pass = () => vi.advanceTimersByTimeAsync(EVERY_MS)
  const changes = (raw: Raw) => raw.written.filter((text) => text.startsWith('event: changed')).length
  return { state, stop, page, pass, changes }
}

it('one query in two seconds for all pages, none while none is open; a change is announced three times', async () => {
  const { state, page, pass, changes } = openScene()
  const [first, second] = [page(), page()]
  await pass()
  expect([state.looks, changes(first), changes(second)]).toEqual([1, 0, 0])
  const head = [200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' }]
  expect(state.heads).toEqual([head, head])
  expect(first.written).toEqual(['retry: 3000\n\n', ': same\n\n'])
  state.trace = 'two'
  for (const announced of [1, 2, 3, 3]) {
    await pass()
    expect([changes(first), changes(second)]).toEqual([announced, announced])
  }
  expect(state.looks).toBe(5)
  for (const each of [first, second]) each.close()
  await pass()
  await pass()
  expect([state.looks, vi.getTimerCount()]).toEqual([6, 0])
  // The next page begins it again; what changed meanwhile is announced.
  state.trace = 'three'
  const third = page()
  await pass()
  expect([state.looks, changes(third)]).toEqual([7, 1])
})

it('a warehouse that is away is a change, and its return another', async () => {
  const { state, page, pass, changes } = openScene()
  const raw = page()
  await pass()
  for (const [trace, announced] of [
    [new Error('away'), 1],
    [new Error('away'), 2],
    ['one', 3],
    ['one', 4],
    ['one', 5],
    ['one', 5],
  ] as const) {
    state.trace = trace
    await pass()
    expect(changes(raw)).toBe(announced)
  }
})

it('at most ten pages are asked to load again at once, in turn', async () => {
  const { state, page, pass, changes } = openScene()
  const pages = Array.from({ length: 12 }, () => page())
  await pass()
  state.trace = 'two'
  const counts = []
  for (let round = 0; round < 5; round++) {
    await pass()
    counts.push(pages.map(changes).join(''))
  }
  // The two that were left out are first in the next round.
  expect(counts).toEqual(['111111111100', '222222221111', '333333222222', '333333333333', '333333333333'])
})

it('a page whose session has ended is closed; one that does not read gets no more', async () => {
  const { state, stop, page, pass } = openScene()
  const [gone, slow, other] = [page('gone'), page('slow'), page('other')]
  state.out.add('gone')
  slow.writableNeedDrain = true
  await pass()
  expect([gone.ended, slow.ended, other.ended]).toEqual([true, false, false])
  expect([gone, slow, other].map(({ written }) => written.length)).toEqual([1, 1, 2])
  stop.abort()
  expect([slow.ended, other.ended, vi.getTimerCount()]).toEqual([true, true, 0])
})

it('five hundred pages may be open, and then no more', () => {
  const { page } = openScene()
  const pages = Array.from({ length: 500 }, () => page())
  expect(() => page()).toThrow('too many pages are open')
  pages[0]!.close()
  expect(() => page()).not.toThrow()
})
