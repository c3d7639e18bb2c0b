/** The lines of a batch, read as Postgres reads them: each table receives its columns, whatever the records contain. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { canonicalText } from '../../src/core/canonical.ts'
import type { Envelope } from '../../src/core/envelope.ts'
import { parseText } from '../../src/core/json.ts'
import { linesOf, openLines } from '../../src/normalize/lines.ts'
import { mapRecord } from '../../src/normalize/map.ts'
import type { Cell } from '../../src/streams/parts/cell.ts'
import { responses } from '../../src/streams/responses.ts'
import { webhookConfigs } from '../../src/streams/webhook-configs.ts'
import { naughtyText } from '../core/naughty.ts'
import { at, recordEnvelope, tombstoneEnvelope } from '../support/envelopes.ts'

const PLAIN: Readonly<Record<string, string>> = { t: '\t', n: '\n', r: '\r', '\\': '\\' }

/** The rows of COPY's text format, as its documentation describes it. */
function rowsOf(bytes: Buffer): readonly (readonly Cell[])[] {
  const text = bytes.toString()
  if (text === '') return []
  expect(text.endsWith('\n')).toBe(true)
  return text
    .slice(0, -1)
    .split('\n')
    .map((line) =>
      line.split('\t').map((cell) => {
        if (cell === '\\N') return null
        return cell.replace(/\\(.?)/gs, (_, character: string) => {
          expect(Object.keys(PLAIN)).toContain(character)
          return PLAIN[character]!
        })
      }),
    )
}

const problemsText = (problems: readonly unknown[]) =>
  problems.length === 0 ? null : canonicalText(problems)

/** The columns of `intake_raw.records`, and of a root table after the stream's own. */
function expectedRows(envelope: Envelope, stream = responses) {
  const { teamId, id, version, observedAt, updatedAt, origin, content } = envelope
  const key = [String(teamId), id]
  const record = [String(teamId), envelope.stream, id, version, observedAt, updatedAt]
  if (content === null) {
    return {
      record: [...record, 't', '\\x', origin, null, null, null],
      root: [...key, ...stream.columns.map(() => null), version, version, origin, null, null, null],
      children: stream.children.map(() => [] as (readonly Cell[])[]),
    }
  }
  const hash = `\\x${content.hash}`
  const { root, children, extra, problems } = mapRecord(stream, content.payload, content.problems)
  const { text, asReceived } = content
  return {
    record: [...record, 'f', hash, origin, text, asReceived, problemsText(content.problems)],
    root: [...key, ...root, version, null, origin, hash, extra, problemsText(problems)],
    children: children.map((rows) => rows.map((row) => [...key, ...row])),
  }
}

function check(envelopes: readonly Envelope[], stream = responses): void {
  const lines = linesOf(stream, envelopes)
  const expected = envelopes.map((envelope) => expectedRows(envelope, stream))
  expect(rowsOf(lines.records)).toEqual(expected.map(({ record }) => record))
  expect(rowsOf(lines.root)).toEqual(expected.map(({ root }) => root))
  expect(lines.children.map(rowsOf)).toEqual(
    stream.children.map((_, child) => expected.flatMap(({ children }) => children[child]!)),
  )
}

const made = { teamId: 7, stream: 'responses', observedAt: at(0), origin: 'event:a\tb\\c' }

const full = {
  id: 'r\t\\1',
  updated_at: '2025-12-31T10:00:00Z',
  patient: { id: 'p' },
  is_submitted: 'maybe',
  invented: { by: ['the\tservice', '\\'] },
  answers: [{ question: { id: 'q', text: 'How\nmany?' }, answer_text: '7' }, null, { answer_text: 'a\\b' }],
  matrix_cells: [{ row: 'r', column: 'c', answer_text: '\\N' }],
  files: [{ id: 'f', name: 'x\r\n', url: 'https://a.example.com/x' }],
  e_signatures: [{ id: 's', signer_name: 'Ann', image: 'data:image/png;base64,AAAA' }],
}

describe('the lines of a batch', () => {
  test('are the columns of every table, for records with and without what COPY escapes, and for tombstones', () => {
    const withoutBackslash = {
      ...full,
      id: 'r2',
      invented: 1,
      answers: [{ answer_text: 'plain' }],
      files: [],
    }
    check([
      recordEnvelope(full, made),
      tombstoneEnvelope('gone\n', { ...made, teamId: 3 }),
      recordEnvelope({ ...withoutBackslash, matrix_cells: null }, made),
      recordEnvelope({ id: 'alone' }, made),
      // Whose keys count in their order, and whose stamp does not count.
      recordEnvelope({ id: 'keyed', updated_at: '2027-01-01', answers: { b: 'x', a: '\\' } }, made),
      recordEnvelope({ id: 'nul', form_name: 'a\u0000b\\' }, made),
    ])
  })

  test('are those of its root table alone where a stream has no children, lists of texts included', () => {
    const config = { id: 'w', event_types: ['a"b', 'c\\d'], sources: ['x'], target_url: 'https://x', old: 1 }
    check([recordEnvelope(config, { ...made, stream: 'webhook_configs' })], webhookConfigs)
  })

  test('have each cell as it was, whatever texts the records contain', () => {
    const text = fc.oneof(naughtyText, fc.constantFrom('plain', '\\N', ''))
    const record = fc.record({
      id: fc.constantFrom('a', 'b\\', 'c\td'),
      form_name: text,
      is_submitted: fc.oneof(fc.boolean(), text),
      unknown: text,
      answers: fc.oneof(fc.array(fc.record({ answer_text: text }), { maxLength: 3 }), fc.constant(null)),
      matrix_cells: fc.array(fc.record({ row: text, value: text }), { maxLength: 2 }),
    })
    fc.assert(
      fc.property(fc.array(record, { maxLength: 3 }), (records) => {
        check(records.map((each) => recordEnvelope(each, made)))
      }),
      { numRuns: 60 },
    )
  })

  test('count records, tombstones, teams and findings by team and place, without any value', () => {
    const other = { ...made, teamId: 12 }
    const wrong = { id: 'x', is_submitted: 'CANARY', files: [{ id: ['CANARY'] }, { id: ['CANARY'] }] }
    const lines = linesOf(responses, [
      recordEnvelope(wrong, other),
      recordEnvelope({ ...wrong, unheard: 'CANARY', submitted_at: 7 }, made),
      tombstoneEnvelope('y', made),
    ])
    expect([lines.count, lines.tombstones, lines.teamIds]).toEqual([3, 1, [7, 12]])
    const { problems, problemsAt, driftAt } = lines.findings
    expect(problems).toBe(7)
    expect([...problemsAt].map(([key, count]) => [...(JSON.parse(key) as unknown[]), count])).toEqual([
      [12, 'is_submitted', 'not true or false', 1],
      [12, 'files[].id', 'not an id', 2],
      [7, 'is_submitted', 'not true or false', 1],
      [7, 'submitted_at', 'not an ISO 8601 time', 1],
      [7, 'files[].id', 'not an id', 2],
    ])
    // A text that cannot be read as its type has no other type; a list has.
    expect([...driftAt].map(([key, count]) => [...(JSON.parse(key) as unknown[]), count])).toEqual([
      [12, 'files[].id', 'array', 2],
      [7, 'unheard', 'string', 1],
      [7, 'submitted_at', 'number', 1],
      [7, 'files[].id', 'array', 2],
    ])
    expect(JSON.stringify([...problemsAt, ...driftAt])).not.toContain('CANARY')
  })

  test('say how much text they are so far, and begin at nothing after each batch', () => {
    const lines = openLines(responses)
    expect([lines.count, lines.bytes]).toEqual([0, 0])
    lines.add(recordEnvelope({ id: 'é' }, made))
    const { count, bytes } = lines
    const built = lines.build()
    expect([count, bytes]).toEqual([1, built.records.length])
    expect([lines.count, lines.bytes]).toEqual([0, 0])
    lines.add(tombstoneEnvelope('gone', made))
    expect(lines.build()).toMatchObject({ count: 1, tombstones: 1 })
    expect(lines.build()).toMatchObject({ count: 0, tombstones: 0, teamIds: [] })
  })

  test('hold a problem with a part of the record at the greatest depth that a record may have', () => {
    // Two levels above the part, and one for the record itself.
    const deepest = JSON.parse(`${'['.repeat(400)}1${']'.repeat(400)}`) as unknown
    const envelope = recordEnvelope({ id: 'r', is_submitted: deepest }, made)
    const { root } = linesOf(responses, [envelope])
    const problems = parseText(rowsOf(root)[0]!.at(-1)!) as { readonly original: unknown }[]
    expect(JSON.stringify(problems[0]!.original)).toBe(JSON.stringify(deepest))
  })
})
