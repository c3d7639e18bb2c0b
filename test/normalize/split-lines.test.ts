/** The halves of a batch that Postgres refused have each of its lines once, and those of a record together. */
import { describe, expect, test } from 'vitest'
import { type BatchLines, linesOf } from '../../src/normalize/lines.ts'
import {
  bytesOf,
  idOf,
  keyOf,
  linesIn,
  onlyRecord,
  splitLines,
  teamsIn,
  unescaped,
  withoutRecords,
} from '../../src/normalize/split-lines.ts'
import { responses } from '../../src/streams/responses.ts'
import { at, recordEnvelope, tombstoneEnvelope } from '../support/envelopes.ts'

const made = (teamId: number) => ({
  teamId,
  stream: 'responses',
  observedAt: at(0),
  origin: 'run:1 page:1',
})

const response = (id: string, teamId: number) =>
  recordEnvelope(
    {
      id,
      is_skipped: 'perhaps',
      answers: [{ answer_text: `of\t${id}` }, { answer_text: 'more' }],
      files: [{ name: id }],
    },
    made(teamId),
  )

/** Two teams with the same ids, and a tombstone in each half. */
const batch = () =>
  linesOf(responses, [
    response('a', 2),
    response('a', 1),
    tombstoneEnvelope('b', made(2)),
    response('b', 1),
    tombstoneEnvelope('c', made(1)),
  ])

const keysIn = (bytes: Buffer) => linesIn(bytes).map(keyOf)
const tables = ({ records, root, children }: BatchLines) => [records, root, ...children].map(linesIn)

describe('the halves of a batch', () => {
  test('count their own records, tombstones and teams', () => {
    const [first, second] = splitLines(batch())
    expect([first.count, first.tombstones, first.teamIds]).toEqual([2, 0, [1, 2]])
    expect([second.count, second.tombstones, second.teamIds]).toEqual([3, 2, [1, 2]])
  })

  test('name the teams of their own records alone', () => {
    const [first, second] = splitLines(linesOf(responses, [response('a', 9), response('a', 10)]))
    expect([first.teamIds, second.teamIds]).toEqual([[9], [10]])
  })

  test('have each line of the batch once, in its order', () => {
    const [first, second] = splitLines(batch())
    const whole = tables(batch())
    const [ones, others] = [tables(first), tables(second)]
    expect(whole.map((_, table) => [...ones[table]!, ...others[table]!])).toEqual(whole)
  })

  test('have the children of their own records, also where a record of another team has the same id', () => {
    const [first, second] = splitLines(batch())
    for (const half of [first, second]) {
      const keys = new Set(keysIn(half.root))
      for (const child of half.children) for (const key of keysIn(child)) expect(keys).toContain(key)
    }
    expect(keysIn(first.children[0]!)).toEqual(['2\ta', '2\ta', '1\ta', '1\ta'])
    expect(keysIn(second.children[0]!)).toEqual(['1\tb', '1\tb'])
  })

  test('report the findings of the batch once', () => {
    const [first, second] = splitLines(batch())
    expect(first.findings.problems).toBe(3)
    expect(second.findings).toMatchObject({ problems: 0, problemsAt: new Map(), driftAt: new Map() })
  })
})

test('halving again and again ends with each record alone, and names it as received', () => {
  const alone: BatchLines[] = []
  const halve = (lines: BatchLines) => {
    if (lines.count === 1) alone.push(lines)
    else splitLines(lines).forEach(halve)
  }
  halve(batch())
  expect(alone.map((lines) => onlyRecord(lines).id)).toEqual(['a', 'a', 'b', 'b', 'c'])
  const { origin, body } = onlyRecord(alone[1]!)
  expect(origin).toBe('run:1 page:1')
  expect(JSON.parse(body)).toMatchObject({ id: 'a', answers: [{ answer_text: 'of\ta' }, {}] })
  expect(onlyRecord(alone[4]!)).toEqual({ id: 'c', origin: 'run:1 page:1', body: '' })
})

test('a batch without its records keeps its findings', () => {
  const whole = batch()
  const none = withoutRecords(whole)
  expect(none).toMatchObject({ count: 0, tombstones: 0, teamIds: [] })
  expect([none.records, none.root, ...none.children].map((bytes) => bytes.length)).toEqual([0, 0, 0, 0, 0, 0])
  expect(none.findings).toBe(whole.findings)
  expect(onlyRecord(none)).toEqual({ id: '', origin: '', body: '' })
})

test('lines are read back as they were written', () => {
  expect(linesIn(bytesOf(['a', '', 'é']))).toEqual(['a', '', 'é'])
  expect(linesIn(bytesOf([]))).toEqual([])
  expect(bytesOf(['a', 'b']).toString()).toBe('a\nb\n')
})

test('a line names its team and its record', () => {
  const line = '12\tan id\tmore\tcells'
  expect([keyOf(line), idOf(line)]).toEqual(['12\tan id', 'an id'])
  expect(teamsIn(['10\ta\tb', '9\ta\tb', '10\tc\td'])).toEqual([9, 10])
})

test.each([
  ['\\N', ''],
  ['a\\tb\\nc\\rd', 'a\tb\nc\rd'],
  ['a\\\\tb', 'a\\tb'],
  ['\\x00', 'x00'],
  ['plain', 'plain'],
])('the cell %j is %j', (cell, value) => {
  expect(unescaped(cell)).toBe(value)
})
