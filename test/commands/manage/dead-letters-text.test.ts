/** Dead letters as text: what the columns are, and what is said of content. */
import { expect, it } from 'vitest'
import {
  deadLetterDocument,
  deadLetterText,
  listText,
  retriedText,
} from '../../../src/commands/manage/dead-letters-text.ts'
import type { DeadLetterWithBody } from '../../../src/operate/dead-letters.ts'
import { contextOf } from '../output-context.ts'

const context = contextOf()

const stored = (more: Partial<DeadLetterWithBody> = {}): DeadLetterWithBody => ({
  ...{
    id: 1,
    team: 'north',
    stream: 'patients',
    record_id: 'p',
    origin: 'run:1 page:1',
    reason: 'has no id',
  },
  ...{ status: 'waiting', seen: 2, created_at: '2026-01-01T00:00:00Z', last_seen_at: '2026-01-02T03:04:05Z' },
  ...{ last_run_id: null, settled_at: null, body: Buffer.from('{"a":1}') },
  ...more,
})

it('the list has the team where there are several, the status where all are listed, and how many are not shown', () => {
  const one = listText(context, { deadLetters: [stored()], total: 1 }, 'waiting')
  expect(one).toBe(
    'id  stream    seen  last seen (UTC)   reason\n 1  patients     2  2026-01-02 03:04  has no id\n',
  )
  const two = [stored(), stored({ id: 12, team: 'south', status: 'discarded' })]
  expect(listText(context, { deadLetters: two, total: 7 }, 'all')).toBe(
    [
      'id  team   stream    status     seen  last seen (UTC)   reason',
      ' 1  north  patients  waiting       2  2026-01-02 03:04  has no id',
      '12  south  patients  discarded     2  2026-01-02 03:04  has no id',
      'the newest 2 of 7; --limit shows more\n',
    ].join('\n'),
  )
  const none = { deadLetters: [], total: 0 }
  expect([listText(context, none, 'all'), listText(context, none, 'discarded')]).toEqual([
    ...['no dead letters\n', 'no dead letter is discarded\n'],
  ])
})

it('one shows its run, when it was settled, and its content only on request, indented', () => {
  const settled = stored({ last_run_id: 7, settled_at: '2026-01-03T00:00:00Z', record_id: null })
  const facts = [
    ...['has no id', 'dead letter  1', 'status       waiting', 'team         north', 'stream       patients'],
    ...['record       -', 'origin       run:1 page:1', 'first seen   2026-01-01 00:00 UTC'],
    ...['last seen    2026-01-02 03:04 UTC, by run 7', 'seen         2', 'settled      2026-01-03 00:00 UTC'],
  ]
  const lines = (...more: string[]) => `${[...facts, ...more].join('\n')}\n`
  expect(deadLetterText(context, settled, false)).toBe(lines('content      7 bytes; --show-values prints it'))
  expect(deadLetterText(context, settled, true)).toBe(lines('content      7 bytes:', '{\n  "a": 1\n}'))
  const steering = { ...settled, body: Buffer.from('{"a":"\u009b2J","b\u202e":[1]}') }
  expect(deadLetterText(context, steering, true)).toBe(
    lines('content      23 bytes:', '{\n  "a": "\\x9b2J",\n  "b\\u{202e}": [\n    1\n  ]\n}'),
  )
  const broken = { ...settled, body: Buffer.from('{"a\u001b') }
  expect(deadLetterText(context, broken, true)).toBe(lines('content      4 bytes:', '{"a\\x1b'))
  expect(deadLetterText(context, { ...settled, body: null }, true)).toBe(
    lines('content      removed (INTAKE_INBOX_DAYS)'),
  )
  expect(deadLetterText(context, stored(), false)).not.toMatch(/by run|settled/)
  const once = stored({ last_run_id: 7, seen: 1 })
  expect(deadLetterText(context, once, false)).toContain('03:04 UTC, by run 7\nseen         1\n')
  expect(deadLetterDocument(settled, true)).toMatchObject({ id: 1, content: '{"a":1}', content_bytes: 7 })
  expect(deadLetterDocument(steering, true)).toMatchObject({ content_bytes: 23 })
  const removed = { ...settled, body: null }
  expect(deadLetterDocument(removed, true)).toMatchObject({ content: null, content_bytes: null })
  expect(deadLetterDocument(settled, false)).not.toHaveProperty('content')
})

it('a retry says of each what happens to it, and why one was not tried', () => {
  expect(retriedText(context, [])).toBe('no dead letter is waiting\n')
  const tried = [
    { id: 1, outcome: 'pending' },
    { id: 2, outcome: 'asked' },
    { id: 3, outcome: 'loaded' },
    { id: 4, outcome: 'not_possible', why: 'its team was removed' },
  ] as const
  expect(retriedText(context, tried)).toBe(
    [
      '1  back in the inbox: drained while serve runs\n2  scheduled to be fetched by id: fetched while serve runs',
      '3  loaded from the stored content\n4  not tried: its team was removed\n',
    ].join('\n'),
  )
})
