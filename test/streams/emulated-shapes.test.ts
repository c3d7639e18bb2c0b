/** Responses and messages of one world, served in each shape of theirs, leave the rows that the default shape leaves. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { JsonObject } from '../../src/core/json.ts'
import { instantOf } from '../../src/core/time.ts'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { mapRecord } from '../../src/normalize/map.ts'
import { readRecord } from '../../src/normalize/read-record.ts'
import { messages } from '../../src/streams/messages.ts'
import { responses } from '../../src/streams/responses.ts'
import type { Stream } from '../../src/streams/stream.ts'
import { callerOf } from '../emulator/caller.ts'

const SIZES = { port: 0, patients: 20, responses: 80 }

/** Read after whatever was written in the world. */
const READING = {
  teamId: 1,
  stream: responses,
  origin: 'test',
  observedAt: instantOf((Date.now() + 86_400_000) * 1000),
  invalidUtf8: false,
} as const

type Rows = Readonly<Record<string, readonly string[]>>

/** Each table's rows as text in some order, the columns `leftOut` aside; and whatever was not understood. */
function tablesOf(stream: Stream, records: readonly unknown[], leftOut: readonly string[]): Rows {
  const tables: Record<string, string[]> = { not_understood: [] }
  const columns = stream.columns.map((column) => column.name)
  const add = (table: string, names: readonly string[], cells: readonly unknown[]) => {
    const kept = names.flatMap((name, place) => (leftOut.includes(name) ? [] : [[name, cells[place]]]))
    tables[table] = [...(tables[table] ?? []), JSON.stringify(kept)]
  }
  for (const record of records) {
    const read = readRecord(record, { ...READING, stream })
    if (read.kind === 'dead') throw new Error(read.deadLetter.reason)
    const { id, content } = read.envelope
    const { root, children, extra, problems } = mapRecord(stream, content!.payload, content!.problems)
    add(stream.table, ['id', ...columns], [id, ...root])
    stream.children.forEach((child, place) => {
      for (const row of children[place]!) add(child.table, ['parent', ...child.columns], [id, ...row])
    })
    tables.not_understood!.push(...(extra === null ? [] : [extra]), ...problems.map(({ path }) => path))
  }
  return Object.fromEntries(Object.entries(tables).map(([table, rows]) => [table, rows.sort()]))
}

async function served(shape: string, stream: Stream): Promise<readonly JsonObject[]> {
  await using emulator = await startEmulator({ ...SIZES, shape })
  return await callerOf(emulator).rows(`/v2/${stream.name}`)
}

let plain: Emulator
const byDefault = new Map<Stream, readonly JsonObject[]>()

beforeAll(async () => {
  plain = await startEmulator(SIZES)
  for (const stream of [responses, messages])
    byDefault.set(stream, await callerOf(plain).rows(`/v2/${stream.name}`))
})

afterAll(() => plain.close())

test('the world contains every part that a response can have, and no unknown part', () => {
  const tables = tablesOf(responses, byDefault.get(responses)!, [])
  for (const child of responses.children) expect(tables[child.table]?.length, child.table).toBeGreaterThan(5)
  expect(tables.not_understood).toEqual([])
  expect(tablesOf(messages, byDefault.get(messages)!, []).not_understood).toEqual([])
})

/** Shapes, and the columns in which they cannot say what the default shape says. */
const SHAPES: readonly (readonly [Stream, string, ...string[]])[] = [
  [responses, 'uid-ids'],
  [responses, 'references-as-ids'],
  [responses, 'references-as-siblings'],
  [responses, 'null-optionals'],
  [responses, 'absent-optionals'],
  [responses, 'no-timestamps', 'created_at', 'updated_at'],
  [responses, 'other-part-names'],
  [responses, 'short-part-names'],
  // Parts and answers are served in another order.
  [responses, 'nested-parts', 'position'],
  [responses, 'answers-object', 'position'],
  [responses, 'nested-parts+answers-object+uid-ids', 'position'],
  [responses, 'heading-texts', 'row_id', 'column_id'],
  [responses, 'heading-ids', 'row_text', 'column_text'],
  [responses, 'heading-indexes', 'row_id', 'column_id', 'row_text', 'column_text'],
  [responses, 'answered-choice-texts', 'choice_id'],
  [messages, 'uid-ids'],
  [messages, 'references-as-ids'],
  [messages, 'references-as-siblings'],
  [messages, 'null-optionals'],
  [messages, 'absent-optionals'],
  [messages, 'no-timestamps', 'created_at', 'updated_at'],
  [messages, 'delivery-status'],
  [messages, 'status-object'],
  [messages, 'other-statuses', 'status'],
  [messages, 'nested-scheduled'],
  [messages, 'target-phone'],
  [messages, 'phone-number'],
]

describe('served otherwise, the same rows are read', () => {
  test.each(SHAPES.map(([stream, shape, ...leftOut]) => ({ name: stream.name, shape, stream, leftOut })))(
    '$name as $shape',
    async ({ stream, shape, leftOut }) => {
      const records = await served(shape, stream)
      const [found, expected] = [records, byDefault.get(stream)!].map((each) =>
        tablesOf(stream, each, leftOut),
      )
      expect(Object.keys(found!)).toEqual(Object.keys(expected!))
      for (const [table, rows] of Object.entries(expected!)) {
        const differing = rows.filter((row, place) => row !== found![table]![place])
        expect(differing.slice(0, 3), table).toEqual([])
        expect(found![table], table).toHaveLength(rows.length)
      }
    },
  )
})

test('a response rendered again two hours later, its addresses signed anew, is the same content', async () => {
  const hashes = (records: readonly unknown[]) =>
    new Map(
      records.map((record) => {
        const read = readRecord(record, READING)
        if (read.kind === 'dead') throw new Error(read.deadLetter.reason)
        return [read.envelope.id, read.envelope.content!.hash]
      }),
    )
  await using emulator = await startEmulator(SIZES)
  const { rows } = callerOf(emulator)
  const before = await rows('/v2/responses')
  emulator.control.advance(2 * 3_600_000)
  const after = await rows('/v2/responses')
  // What a message brought meanwhile is new.
  const still = after.filter(({ id }) => before.some((response) => response.id === id))
  const signed = (records: readonly unknown[]) => JSON.stringify(records).match(/signature=\w+/g)
  expect(signed(still)).not.toEqual(signed(before))
  expect(hashes(still)).toEqual(hashes(before))
})
