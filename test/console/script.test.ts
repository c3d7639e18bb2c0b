/** The script of the pages, in a page that consists of what it asks for: when it loads the content again, and when not. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createContext, runInContext } from 'node:vm'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'

const SCRIPT = readFileSync(join(import.meta.dirname, '../../src/console/assets/console.js'), 'utf8')

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 })
})
afterEach(() => {
  vi.useRealTimers()
})

interface Part {
  scrollLeft: number
  open: boolean
}

/** A page with this content, loaded. */
function openPage(
  attributes: readonly string[],
  parts: { scroll?: Part[]; details?: Part[]; samples?: object[] } = {},
) {
  const listeners = new Map<string, (() => void)[]>()
  const listen = (name: string, listener: () => void) =>
    void listeners.set(name, [...(listeners.get(name) ?? []), listener])
  const state = { attributes: new Set(attributes), hidden: false, active: null as object | null, loads: 0 }
  const drawn: { data: unknown[]; labels: (string | undefined)[] }[] = []
  const region = { clientWidth: 500, dataset: { samples: '/inbox/samples' }, replaceChildren: () => {} }
  const { scroll = [], details = [] } = parts
  const content = {
    hasAttribute: (name: string) => state.attributes.has(name),
    contains: (each: object | null) => each !== null && !('outside' in each),
    querySelectorAll: (name: string) => (name === 'details' ? details : scroll),
  }
  const document = {
    getElementById: () => content,
    get activeElement() {
      return state.active
    },
    get hidden() {
      return state.hidden
    },
    documentElement: {},
    body: { addEventListener: listen },
    addEventListener: listen,
    querySelector: () => (parts.samples === undefined ? null : region),
    querySelectorAll: () => [],
  }
  let isOpened = false
  class EventSource {
    constructor() {
      isOpened = true
    }
    addEventListener = listen
  }
  class uPlot {
    constructor(options: { series: { label?: string }[] }, data: unknown[]) {
      drawn.push({ data, labels: options.series.map(({ label }) => label) })
    }
  }
  /** The server's answer replaces the content. */
  const ajax = async () => {
    state.loads += 1
    for (const each of [...scroll, ...details]) Object.assign(each, { scrollLeft: 0, open: false })
  }
  const fetch = async () => ({ json: async () => ({ samples: parts.samples }) })
  const window = { htmx: { ajax }, uPlot }
  const getComputedStyle = () => ({ getPropertyValue: () => '' })
  const timers = { setTimeout, clearTimeout, setInterval, Date }
  runInContext(
    SCRIPT,
    createContext({
      document,
      window,
      location: { href: '/' },
      EventSource,
      fetch,
      getComputedStyle,
      ...timers,
    }),
  )
  const emit = (name: string) => {
    for (const listener of listeners.get(name) ?? []) listener()
  }
  emit('DOMContentLoaded')
  const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds)
  return { state, emit, pass, drawn, isLive: () => isOpened }
}

const link = { matches: () => true }

it('a page that waits is loaded again after a second, until it has everything', async () => {
  const { state, emit, pass } = openPage(['data-waits'])
  await pass(999)
  expect(state.loads).toBe(0)
  await pass(1)
  expect(state.loads).toBe(1)
  emit('htmx:afterSettle')
  state.attributes.delete('data-waits')
  await pass(1_000)
  expect(state.loads).toBe(2)
  emit('htmx:afterSettle')
  await pass(10_000)
  expect(state.loads).toBe(2)
})

it('a change loads a live page once, at most every two seconds; without a change every half minute', async () => {
  const { state, emit, pass, isLive } = openPage(['data-live'])
  expect(isLive()).toBe(true)
  for (let time = 0; time < 3; time++) emit('changed')
  await pass(0)
  expect(state.loads).toBe(1)
  emit('changed')
  await pass(1_999)
  expect(state.loads).toBe(1)
  await pass(1)
  expect(state.loads).toBe(2)
  await pass(30_000)
  expect(state.loads).toBe(3)
  // The content that came may be an error, which is not live.
  state.attributes.delete('data-live')
  emit('changed')
  await pass(60_000)
  expect(state.loads).toBe(3)
  const still = openPage([])
  still.emit('changed')
  await still.pass(60_000)
  expect([still.state.loads, still.isLive()]).toEqual([0, false])
})

it('nothing changes under the hands of a reader, or while nobody looks', async () => {
  const { state, emit, pass } = openPage(['data-live'])
  state.active = link
  emit('changed')
  await pass(4_000)
  expect(state.loads).toBe(0)
  state.active = { ...link, outside: true }
  await pass(2_000)
  expect(state.loads).toBe(1)
  state.active = { matches: () => false }
  emit('changed')
  await pass(2_000)
  expect(state.loads).toBe(2)
  state.hidden = true
  emit('changed')
  await pass(4_000)
  expect(state.loads).toBe(2)
  state.hidden = false
  await pass(2_000)
  expect(state.loads).toBe(3)
})

it('a reader finds scrolled and opened places as they were', async () => {
  const scroll = [1, 2].map((at) => ({ scrollLeft: at * 100, open: false, focus: () => {} }))
  const details = [true, false].map((open) => ({ scrollLeft: 0, open }))
  const { emit, pass } = openPage(['data-live'], { scroll, details })
  emit('changed')
  await pass(0)
  expect([scroll.map(({ scrollLeft }) => scrollLeft), details.map(({ open }) => open)]).toEqual([
    [100, 200],
    [true, false],
  ])
})

it('samples are drawn once there are two, each second series by its name, and none while nobody looks', async () => {
  const sample = (at: number) => ({ at, received: 1, stored: 2, drained: 3, p50: 4, p99: 5 })
  const samples = [sample(10)]
  const { state, pass, drawn } = openPage([], { samples })
  await pass(0)
  expect(drawn).toEqual([])
  samples.push(sample(12))
  await pass(2_000)
  expect(drawn).toHaveLength(1)
  expect(drawn[0]!.data.map((each) => (each as number[])[1])).toEqual([12, 1, 2, 3, 4, 5])
  expect(drawn[0]!.labels).toEqual([
    ...[undefined, 'received/s', 'stored/s', 'visible/s', '50 % visible within, s', '99 % visible within, s'],
  ])
  state.hidden = true
  await pass(2_000)
  expect(drawn).toHaveLength(1)
})
