import { expect, it } from 'vitest'
import type { Context } from '../../../src/commands/context.ts'
import { openProgress, printPlanned } from '../../../src/commands/run/progress.ts'

function contextOf(isTTY: boolean): { context: Context; written: () => string } {
  let text = ''
  const output = {
    isTTY,
    columns: 120,
    write: (piece: string) => {
      text += piece
      return true
    },
    on: () => output,
  }
  const signal = new AbortController().signal
  const context = { env: {}, stdout: output, stderr: output, signal, version: '0' }
  return { context, written: () => text }
}

it('without a terminal nothing is drawn, and output is unchanged', () => {
  const { context, written } = contextOf(false)
  using progress = openProgress(context, false)
  progress.update('default', 'patients', { fetched: 1, expected: 2 })
  progress.stderr.write('{"msg":"a line"}\n')
  expect(written()).toBe('{"msg":"a line"}\n')
})

it('without a terminal a line of the log every ten seconds shows the rate and the time that is left', () => {
  const { context, written } = contextOf(false)
  let seconds = 0
  using progress = openProgress(context, true, () => seconds * 1000)
  const page = (at: number, stream: string, fetched: number, expected: number | null) => {
    seconds = at
    progress.update('north', stream, { fetched, expected })
  }
  page(1, 'patients', 100, 1000)
  page(2, 'forms', 5, null)
  page(9.9, 'patients', 200, 1000)
  expect(written()).toBe('')
  page(11, 'patients', 300, 1000)
  page(12, 'patients', 310, 1000)
  page(21, 'patients', 500, 1000)
  const lines = written()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  const common = { level: 30, time: expect.any(Number), team: 'north', msg: 'progress' }
  expect(lines).toEqual([
    { ...common, stream: 'patients', fetched: 300, expected: 1000, per_second: 20, seconds_left: 35 },
    { ...common, stream: 'forms', fetched: 5, expected: null, per_second: 0, seconds_left: null },
    { ...common, stream: 'patients', fetched: 500, expected: 1000, per_second: 20, seconds_left: 25 },
  ])
})

it('without a terminal there is no rate before a second page, and no time that is left without a total', () => {
  const { context, written } = contextOf(false)
  let seconds = 0
  using progress = openProgress(context, false, () => seconds * 1000)
  const figures = ([at, fetched, expected]: readonly [number, number, number | null]) => {
    const before = written().length
    seconds = at
    progress.update('north', 'forms', { fetched, expected })
    const { per_second, seconds_left } = JSON.parse(written().slice(before))
    return [per_second, seconds_left]
  }
  expect(
    (
      [
        [10, 7, 100],
        [20, 7, 100],
        [30, 37, null],
        [40, 40, 100],
        [50, 120, 100],
      ] as const
    ).map(figures),
  ).toEqual([
    [0, null],
    [0, null],
    [1.5, null],
    [1.1, 55],
    [2.8, 0],
  ])
})

it('without a terminal, streams of the same name have lines of their own, each with its own rate, for every team', () => {
  const { context, written } = contextOf(false)
  let seconds = 0
  using progress = openProgress({ ...context, env: {} }, true, () => seconds * 1000)
  for (const [at, team, stream, fetched] of [
    ...([
      [0, 'north', 'forms', 0],
      [0, 'south', 'forms', 100],
      [0, 'south', 'packets', 0],
    ] as const),
    ...([
      [9, 'south', 'forms', 200],
      [9, 'south', 'packets', 30],
      [10, 'north', 'forms', 52.7],
    ] as const),
  ]) {
    seconds = at
    progress.update(team, stream, { fetched, expected: 400 })
  }
  const lines = written()
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  expect(lines.map(({ team, stream, fetched, per_second }) => [team, stream, fetched, per_second])).toEqual([
    ...[
      ['north', 'forms', 52.7, 5.3],
      ['south', 'forms', 200, 10],
      ['south', 'packets', 30, 3],
    ],
  ])
})

it.each([
  ['trace', true],
  ['debug', true],
  ['info', true],
  ['error', false],
  ['silent', false],
])('without a terminal and with LOG_LEVEL=%s lines are written: %j', (level, isWritten) => {
  const { context, written } = contextOf(false)
  let seconds = 0
  using progress = openProgress({ ...context, env: { LOG_LEVEL: level } }, false, () => seconds * 1000)
  seconds = 10
  progress.update('default', 'patients', { fetched: 1, expected: 60 })
  expect(written() !== '').toBe(isWritten)
})

it('without a terminal and with LOG_LEVEL=warn nothing is written', () => {
  const { context, written } = contextOf(false)
  let seconds = 0
  using progress = openProgress({ ...context, env: { LOG_LEVEL: 'warn' } }, false, () => seconds * 1000)
  for (seconds = 0; seconds < 60; seconds++)
    progress.update('default', 'patients', { fetched: seconds, expected: 60 })
  expect(written()).toBe('')
})

it('on a terminal a line is complete, is above the bars, and leaves nothing of a bar behind it', async () => {
  const { context, written } = contextOf(true)
  const progress = openProgress(context, false)
  progress.update('default', 'patients', { fetched: 1, expected: 2 })
  progress.update('default', 'forms', { fetched: 3, expected: 3 })
  const bars = /patients .* 1\/2 records[\s\S]*forms .* 3\/3 records/
  await expect.poll(written).toMatch(bars)
  const before = written().length
  progress.stderr.write('first\nsecond\n')
  const lines = 'first\u001b[K\nsecond\u001b[K\n'
  await expect.poll(() => written().slice(before)).toContain(lines)
  // Both bars again, under the lines, though neither has changed.
  await expect.poll(() => written().slice(written().indexOf(lines, before))).toMatch(bars)
  progress[Symbol.dispose]()
})

it('on a terminal, a total grows with the records: beyond what was expected, and from the start if nothing was expected', async () => {
  const { context, written } = contextOf(true)
  const progress = openProgress(context, false)
  progress.update('default', 'patients', { fetched: 1, expected: 2 })
  progress.update('default', 'forms', { fetched: 4, expected: null })
  progress.update('default', 'patients', { fetched: 5, expected: 2 })
  progress.update('default', 'forms', { fetched: 7, expected: null })
  progress[Symbol.dispose]()
  expect(written()).toMatch(/patients .* 5\/5 records[\s\S]*forms .* 7\/7 records/)
})

it('a line written at the very end, or before the first bar, is not lost', () => {
  const { context, written } = contextOf(true)
  const progress = openProgress(context, true)
  progress.stderr.write('early\n')
  expect(written()).toBe('early\n')
  progress.update('clinic', 'patients', { fetched: 2, expected: null })
  progress.stderr.write('late\n')
  progress[Symbol.dispose]()
  expect(written()).toMatch(/late[\s\S]*clinic\/patients .* 2\/2 records/)
})

it('a planned run is named with what shows how far it is, and says where no worker would execute it', () => {
  const planned = { runId: '7', teams: ['north'], slices: 3, workers: 0 }
  const said = (workers: number, document: object | null) => {
    const { context, written } = contextOf(false)
    printPlanned(context, { ...planned, workers }, document)
    return written()
  }
  const first = 'run 7 is planned: 3 slices; intake-sync runs show 7 shows how far it is\n'
  expect(said(0, null)).toBe(`${first}no worker is running: start intake-sync work, or serve\n`)
  expect(said(2, null)).toBe(`${first}workers: 2\n`)
  expect(JSON.parse(said(2, { streams: {} }))).toEqual({
    ...{ run_id: 7, status: 'planned', streams: {}, slices: 3, workers: 2 },
  })
})
