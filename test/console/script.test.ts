/** The script of the pages: when it loads the content again, and when not. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { openPage } from './support/script-page.ts'

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 })
})
afterEach(() => {
  vi.useRealTimers()
})

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

it('what is loaded again is the same page with its query, and nothing but its content', async () => {
  const { state, emit, pass, asked } = openPage(['data-live'])
  emit('changed')
  await pass(0)
  const place = { target: '#content', select: '#content', swap: 'outerHTML' }
  expect(asked).toEqual([['GET', '/runs?of=north', place]])
  // A console that is away is asked again at the next change, or after half a minute.
  state.isAway = true
  emit('changed')
  await pass(2_000)
  state.isAway = false
  emit('changed')
  await pass(2_000)
  expect(state.loads).toBe(3)
})

it('who has the focus of a region that is scrolled keeps it', async () => {
  const focused: string[] = []
  const scroll = ['a', 'b'].map((name) => ({
    ...{ scrollLeft: 1, open: false, matches: () => false },
    focus: (how: object) => void focused.push(`${name} ${JSON.stringify(how)}`),
  }))
  const { state, emit, pass } = openPage(['data-live'], { scroll })
  state.active = scroll[1]!
  emit('changed')
  await pass(0)
  expect(focused).toEqual(['b {"preventScroll":true}'])
  state.active = null
  emit('changed')
  await pass(2_000)
  expect(focused).toHaveLength(1)
})
