/** A builder of lines goes on from batch to batch, and what it handed over is nobody else's until it is given back. */
import { describe, expect, test } from 'vitest'
import type { Instant } from '../../src/core/time.ts'
import { type BatchLines, linesOf, openLines } from '../../src/normalize/lines.ts'
import { readRecord } from '../../src/normalize/read-record.ts'
import { responses } from '../../src/streams/responses.ts'

/** Responses whose lines fill more than the first memory of a buffer. */
const batch = (name: string, count: number) =>
  Array.from({ length: count }, (_, at) => {
    const read = readRecord(
      {
        id: `${name} ${at}`,
        is_skipped: at % 2 === 0 ? false : 'perhaps',
        answers: [{ id: 'a', answer_text: `${name}\n"${'text '.repeat(50)}"` }, { answer_text: name }],
        matrix_cells: [{ row: 'r', column: 'c', answer_text: at % 3 === 0 ? 'a\\b' : 'plain' }],
      },
      {
        teamId: 1,
        stream: responses,
        origin: 'run:1 page:1',
        observedAt: '2026-01-01T00:00:00.000000Z' as Instant,
        invalidUtf8: false,
      },
    )
    if (read.kind !== 'record') throw new Error(read.deadLetter.reason)
    return read.envelope
  })

const texts = ({ records, root, children, ...others }: BatchLines) => ({
  ...others,
  lines: [records, root, ...children].map(String),
})

describe('a builder', () => {
  const lines = openLines(responses)
  const build = (name: string, count: number) => {
    for (const envelope of batch(name, count)) lines.add(envelope)
    return lines.build()
  }
  const alone = (name: string, count: number) => texts(linesOf(responses, batch(name, count)))

  test('starts again with each batch, and does not change earlier output', () => {
    const first = build('first', 400)
    const second = build('second', 300)
    expect(texts(first)).toEqual(alone('first', 400))
    expect(texts(second)).toEqual(alone('second', 300))
    expect(first.findings.problems).toBe(200)
    lines.release(first)
    const third = build('third', 500)
    expect(texts(third)).toEqual(alone('third', 500))
    expect(texts(second)).toEqual(alone('second', 300))
  })

  test('reuses memory that was given back, and allocates no more', () => {
    const before = build('before', 500)
    const { buffer } = before.records
    lines.release(before)
    expect(lines.count).toBe(0)
    const taken = [build('one', 500), build('two', 500)]
    expect(taken.some(({ records }) => records.buffer === buffer)).toBe(true)
    expect(taken.map(texts)).toEqual([alone('one', 500), alone('two', 500)])
  })
})

test('a cell is escaped for COPY wherever its record holds what has to be', () => {
  const { children } = linesOf(responses, batch('x', 2))
  const [answers, cells] = children.map((child) => String(child).split('\n'))
  expect(answers![0]).toContain('x\\n"text text')
  expect(cells!.map((line) => line.split('\t').at(-2))).toEqual(['a\\\\b', 'plain', undefined])
})

test('findings are counted for each team, even of a record that has only an unknown field', () => {
  const lines = openLines(responses)
  const add = (teamId: number, record: object) => {
    const read = readRecord(record, {
      ...{ teamId, stream: responses, origin: 'run:1 page:1', invalidUtf8: false },
      observedAt: '2026-01-01T00:00:00.000000Z' as Instant,
    })
    if (read.kind === 'record') lines.add(read.envelope)
  }
  add(10, { id: 'a', mood: 'x' })
  add(9, { id: 'a', mood: 1, is_skipped: 'perhaps', answers: [{ answer_text: [1] }, 7] })
  add(10, { id: 'b', mood: 'x', is_skipped: 2, is_archived: [], files: [1, { size: 'x' }, { size: 'y' }] })
  const { findings, teamIds, count, tombstones } = lines.build()
  expect([teamIds, count, tombstones, findings.problems]).toEqual([[9, 10], 3, 0, 6])
  expect([...findings.problemsAt].map(([key, times]) => `${key} ${times}`)).toEqual([
    '[9,"is_skipped","not true or false"] 1',
    '[10,"is_skipped","not true or false"] 1',
    '[10,"is_archived","not true or false"] 1',
    '[10,"files[]","not an object"] 1',
    '[10,"files[].size","not a whole number of eight bytes"] 2',
  ])
  expect([...findings.driftAt].map(([key, times]) => `${key} ${times}`)).toEqual([
    '[10,"mood","string"] 2',
    '[9,"mood","number"] 1',
    '[10,"is_skipped","number"] 1',
    '[10,"is_archived","array"] 1',
    '[10,"files[]","number"] 1',
  ])
  expect([lines.build().findings, lines.count, lines.build().teamIds]).toEqual([
    { problems: 0, problemsAt: new Map(), driftAt: new Map() },
    0,
    [],
  ])
})
