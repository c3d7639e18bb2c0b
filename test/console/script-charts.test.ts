/** Charts that the script of the pages draws: what, where, how wide, and when again. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { openPage } from './support/script-page.ts'

beforeEach(() => {
  vi.useFakeTimers({ now: 1_000_000 })
})
afterEach(() => {
  vi.useRealTimers()
})

const line = (label: string, colour: string, scale: string) => ({
  ...{ label, stroke: `of --${colour}`, width: 2, scale },
})
const axis = { stroke: 'of --soft', grid: { stroke: 'of --line', width: 1 } }

it('weeks are drawn by their days in UTC, when the page is loaded and when its content is', async () => {
  const weeks = [
    { week: '2026-01-05', asked: 1, submitted: 2, messages: 3 },
    { week: '2026-01-12', asked: 4, submitted: 5, messages: 6 },
  ]
  const { emit, drawn, region } = openPage([], { weeks })
  const drawing = {
    options: {
      ...{ width: 500, height: 220, scales: { x: { time: true } }, axes: [axis, axis] },
      series: [
        {},
        ...[line('asked', 'bar', 'y'), line('submitted', 'good', 'y'), line('messages', 'link', 'y')],
      ],
    },
    data: [
      [1_767_571_200, 1_768_176_000],
      ...[
        [1, 4],
        [2, 5],
        [3, 6],
      ],
    ],
    place: region,
  }
  expect([drawn, region.emptied]).toEqual([[drawing], 1])
  emit('htmx:afterSettle')
  expect([drawn, region.emptied]).toEqual([[drawing, drawing], 2])
})

it('durations have an axis of their own at the right; a chart is as wide as its place, within limits', async () => {
  const samples = [1, 2].map((at) => ({ at, received: 1, stored: 2, drained: 3, p50: 4, p99: 5 }))
  const { pass, drawn, asked, state } = openPage([], { samples })
  await pass(0)
  expect(asked).toEqual([['/inbox/samples']])
  expect(drawn[0]!.options).toEqual({
    ...{ width: 500, height: 220, scales: { x: { time: true } } },
    axes: [axis, axis, { ...axis, scale: 's', side: 1, grid: { show: false } }],
    series: [
      {},
      ...[line('received/s', 'bar', 'y'), line('stored/s', 'good', 'y'), line('visible/s', 'link', 'y')],
      ...[line('50 % visible within, s', 'warn', 's'), line('99 % visible within, s', 'bad', 's')],
    ],
  })
  // Samples that cannot be read now are read in the next round.
  state.isAway = true
  await pass(2_000)
  state.isAway = false
  await pass(2_000)
  expect(drawn).toHaveLength(2)
  const widths = []
  for (const width of [1, 280, 1_100, 5_000]) {
    const { drawn: own } = openPage([], { weeks: [], width })
    widths.push(own[0]!.options.width)
  }
  expect(widths).toEqual([280, 280, 1_100, 1_100])
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
  expect(drawn[0]!.options.series.map(({ label }) => label)).toEqual([
    ...[undefined, 'received/s', 'stored/s', 'visible/s', '50 % visible within, s', '99 % visible within, s'],
  ])
  state.hidden = true
  await pass(2_000)
  expect(drawn).toHaveLength(1)
})
