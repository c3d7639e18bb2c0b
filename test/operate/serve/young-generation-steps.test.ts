/** How the young generation of the heap is kept at its size; V8 and the time are played here. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { keepYoungGenerationSmall } from '../../../src/operate/serve/young-generation.ts'

const MEBIBYTE = 1024 * 1024
const world = vi.hoisted(() => ({
  steps: [] as string[],
  /** Bytes of the young generation, and by how much each look finds it larger; null: V8 knows no such space. */
  size: 0 as number | null,
  growth: 0,
  observed: [] as unknown[],
  collect: (_: number) => {},
}))
vi.mock('node:v8', () => ({
  setFlagsFromString: (flag: string) => void world.steps.push(flag),
  getHeapSpaceStatistics() {
    if (world.steps.at(-1)?.startsWith('look') === true) world.steps[world.steps.length - 1] += '.'
    else world.steps.push('look')
    const old = { space_name: 'old_space', space_size: 999 * 1024 * 1024 }
    if (world.size === null) return [old]
    world.size += world.growth
    return [old, { space_name: 'new_space', space_size: world.size - world.growth }]
  },
}))
vi.mock('node:perf_hooks', () => ({
  PerformanceObserver: class {
    constructor(seen: (list: object) => void) {
      world.collect = (count) => seen({ getEntries: () => Array(count).fill({}) })
    }
    observe(options: object) {
      world.observed.push(options)
    }
  },
}))

const GROW = '--semi-space-growth-factor=2'
const STAY = '--semi-space-growth-factor=1'
const taken = () => world.steps.splice(0)
const enlarged = (looks: number) => [GROW, `look${'.'.repeat(looks - 1)}`, STAY]

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  Object.assign(world, { steps: [], size: 2 * MEBIBYTE, growth: MEBIBYTE, observed: [] })
})
afterEach(() => void vi.useRealTimers())

test('it is enlarged at the start to eight mebibytes, and may not grow on its own after that', () => {
  keepYoungGenerationSmall()
  expect(taken()).toEqual(enlarged(7))
  expect(world.observed).toEqual([{ entryTypes: ['gc'] }])
  expect(world.size).toBe(9 * MEBIBYTE)
})

test('it is enlarged again after a second with twenty collections, and not after one with fewer', () => {
  keepYoungGenerationSmall()
  taken()
  const second = () => {
    vi.advanceTimersByTime(1_000)
    return taken()
  }
  world.growth = 0
  world.collect(19)
  expect(second()).toEqual([])
  // Those of the second before do not count.
  world.collect(10)
  expect(second()).toEqual([])
  world.collect(10)
  expect(second()).toEqual([])
  world.collect(15)
  world.collect(5)
  expect(second()).toEqual(enlarged(1))
  expect(second()).toEqual([])
  Object.assign(world, { size: 7 * MEBIBYTE, growth: MEBIBYTE })
  world.collect(100)
  vi.advanceTimersByTime(999)
  expect(taken()).toEqual([])
  vi.advanceTimersByTime(1)
  expect(taken()).toEqual(enlarged(2))
})

test('what does not grow is given up after a thousand portions, and a V8 without such a space is left alone', () => {
  world.growth = 0
  keepYoungGenerationSmall()
  expect(taken()).toEqual(enlarged(1_000))
  world.size = null
  keepYoungGenerationSmall()
  expect(taken()).toEqual(enlarged(1))
})

test('no process waits for the next look', () => {
  vi.useRealTimers()
  const set = vi.spyOn(globalThis, 'setInterval')
  keepYoungGenerationSmall()
  const timers = set.mock.results.map(({ value }) => value as NodeJS.Timeout)
  expect(timers.map((timer) => timer.hasRef())).toEqual([false])
  for (const timer of timers) clearInterval(timer)
  set.mockRestore()
})
