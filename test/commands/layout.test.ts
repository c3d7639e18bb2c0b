/** Layout of text output: on a terminal nothing is wider than it; in a pipe nothing is changed. */
import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import type { Context } from '../../src/commands/context.ts'
import {
  agrees,
  colored,
  fittedTable,
  formatSeconds,
  minute,
  paragraph,
  reflowed,
  widthOf,
} from '../../src/commands/terminal.ts'

const output = (columns?: number) => ({ write: () => true, isTTY: true, ...(columns ? { columns } : {}) })
const at = (columns?: number) => ({ stdout: output(columns) })
const PIPE = { stdout: { write: () => true } }

it('the width is that of the terminal, at least 40, 80 where it is not known, and none in a pipe', () => {
  expect([at(100), at(10), at(), PIPE].map(widthOf)).toEqual([100, 40, 80, null])
})

it('colours are for terminals that show them, unless NO_COLOR has a value', () => {
  const say = (env: NodeJS.ProcessEnv, place: typeof PIPE = at(80)) => colored({ ...place, env }, 'red', 'x')
  const red = '\u001b[31mx\u001b[39m'
  expect([say({}), say({ NO_COLOR: '' }), say({ TERM: 'xterm' })]).toEqual([red, red, red])
  expect([say({ NO_COLOR: '1' }), say({ TERM: 'dumb' }), say({}, PIPE)]).toEqual(['x', 'x', 'x'])
})

describe('a table', () => {
  const rows = [
    ['stream', 'idle', 'used', 'more', 'reason'],
    ['patients', 0, 12, 3, 'a reason that is long'],
    ['forms', '-', 7, '', 'short'],
  ]

  it('that fits, or is piped, has everything', () => {
    const whole = fittedTable(PIPE, rows, 4, [2, 1])
    expect(fittedTable(at(49), rows, 4, [2, 1])).toBe(whole)
    expect(Math.max(...whole.split('\n').map((line) => line.length))).toBe(49)
  })

  it('that does not, first loses spare columns without content, without a note', () => {
    for (const width of [48, 43])
      expect(fittedTable(at(width), rows, 4, [2, 1])).toBe(
        'stream    used  more  reason\npatients    12     3  a reason that is long\nforms        7        short\n',
      )
  })

  it('loses spare columns with content only when it must, and names them', () => {
    const long = [...rows, ['x', 0, 1, 1, 'y'.repeat(21)]].map((row) => ['n'.repeat(6), ...row])
    const text = fittedTable(at(45), long, 5, [3, 2])
    expect(text.split('\n').at(-2)).toBe('(not shown here, but with --json: used)')
    expect(text).not.toContain('idle')
    expect(text).toContain('more')
  })

  it('cuts the flexible column last, and never below eight characters', () => {
    const texts = fittedTable(
      at(40),
      [
        ['a', 'b'],
        ['x'.repeat(30), 'y'.repeat(20)],
      ],
      1,
    ).split('\n')
    expect(texts[1]).toBe(`${'x'.repeat(30)}  ${'y'.repeat(7)}…`)
    const narrow = fittedTable(
      at(40),
      [
        ['a', 'b'],
        ['x'.repeat(36), 'y'.repeat(20)],
      ],
      1,
    ).split('\n')
    expect(narrow[1]).toBe(`${'x'.repeat(36)}  y…`)
  })
})

it('a paragraph is wrapped between words, and inside a word that is longer than a line', () => {
  const words = `${'a'.repeat(18)} ${'b'.repeat(19)} ${'c'.repeat(45)} d`
  expect(paragraph(at(40), words, 2)).toBe(
    `  ${'a'.repeat(18)} ${'b'.repeat(19)}\n  ${'c'.repeat(38)}\n  ${'c'.repeat(7)} d\n`,
  )
  expect(paragraph(PIPE, words, 2)).toBe(`  ${words}\n`)
  // An emoji counts as one character, though terminals give it two columns; it is never cut in half.
  expect(paragraph(at(40), '😀'.repeat(45), 2)).toBe(`  ${'😀'.repeat(38)}\n  ${'😀'.repeat(7)}\n`)
})

it('help keeps its indented lines, and its paragraphs are wrapped', () => {
  const text = `One sentence that is longer\nthan forty characters here.\n\n  indented ${'x'.repeat(40)}\nEnd`
  expect(reflowed(at(40), text)).toBe(
    `One sentence that is longer than forty\ncharacters here.\n\n  indented ${'x'.repeat(40)}\nEnd`,
  )
  expect(reflowed(PIPE, text)).toBe(text)
})

it('times are to the minute in UTC, durations in the largest two units', () => {
  expect([null, '2026-01-05T02:11:59Z', new Date('2026-01-05T23:59:59+02:00')].map(minute)).toEqual([
    ...['-', '2026-01-05 02:11', '2026-01-05 21:59'],
  ])
  expect([0.04, 9.94, 9.99, 10, 59.4, 59.5, 3_599, 3_600, 7_325].map(formatSeconds)).toEqual([
    ...['0 s', '9.9 s', '10 s', '10 s', '59 s', '1 min 0 s', '59 min 59 s', '1 h 0 min', '2 h 2 min'],
  ])
  // Minutes that are not over do not count.
  expect([3_659, 7_199].map(formatSeconds)).toEqual(['1 h 0 min', '1 h 59 min'])
})

describe('a question', () => {
  const keyboard = () => Object.assign(new PassThrough(), { isTTY: true })
  const context = (signal: AbortSignal): Context => ({
    ...{ env: {}, stdout: output(), stderr: output(), signal, version: '' },
  })

  it.each([
    ['y', true],
    [' Yes ', true],
    ['yess', false],
    ['ay', false],
    ['', false],
  ])('answered with %j is %s', async (typed, agreed) => {
    const input = keyboard()
    input.write(`${typed}\n`)
    expect(await agrees(context(new AbortController().signal), input, 'Sure?')).toBe(agreed)
  })

  it('ends with the reason of a signal, and fails where nobody can answer', async () => {
    const stop = new AbortController()
    const asked = agrees(context(stop.signal), keyboard(), 'Sure?')
    stop.abort('SIGINT')
    await expect(asked).rejects.toBe('SIGINT')
    // A signal that came before: nothing is asked.
    const late = context(AbortSignal.abort('SIGTERM'))
    let said = ''
    late.stderr.write = (text) => (said += String(text))
    await expect(agrees(late, keyboard(), 'Sure?')).rejects.toBe('SIGTERM')
    expect(said).toBe('')
    const nobody = agrees(context(new AbortController().signal), new PassThrough(), 'Sure?')
    await expect(nobody).rejects.toMatchObject({ code: 'confirmation_missing', hint: 'add --yes' })
  })
})
