/** Cells in COPY's text format, for any content, and COPY through a login with row-level policies. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sendCopy } from '../../../src/load/merge/write-batch.ts'
import { copyCell, copyCells, openTextBuffer } from '../../../src/normalize/lines.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { naughtyText } from '../../core/naughty.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { rowsOf } from '../loading.ts'

let database: TestDatabase
let session: Session

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'copy' })
  await session.client.query('create temporary table copied (n int, a text, b text)')
})

afterAll(async () => {
  await session.close()
  await database.drop()
})

const cell = fc.option(
  fc.oneof(
    fc.constantFrom('', '\\N', '\\.', 'NULL', '\\\\N', 'a\tb', 'a\nb', 'a\rb', '\\n', '\\t', '\r\n', '\\'),
    naughtyText.filter((text) => !text.includes('\0') && text.isWellFormed()),
  ),
)

test('every cell is read back unchanged, and no neighbour changes', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(cell, cell), { minLength: 1, maxLength: 20 }), async (rows) => {
      await session.client.query('truncate copied')
      const lines = rows.map((row, at) => `${copyCells([String(at), ...row])}\n`).join('')
      await sendCopy(session.client, 'copy pg_temp.copied (n, a, b) from stdin', Buffer.from(lines))
      const back = await rowsOf<{ a: string; b: string }>(session, 'select a, b from copied order by n')
      expect(back.map(({ a, b }) => [a, b])).toEqual(rows)
    }),
    { numRuns: 150 },
  )
})

test.each<[string | null, string]>([
  [null, '\\N'],
  ['', ''],
  ['\\N', '\\\\N'],
  ['a\\b\tc\nd\re', 'a\\\\b\\tc\\nd\\re'],
  ['plain', 'plain'],
])('%j is written as %j', (value, text) => {
  expect(copyCell(value)).toBe(text)
})

test('cells are joined by one tab, and no cells make an empty line', () => {
  expect(copyCells(['a', null, ''])).toBe('a\t\\N\t')
  expect(copyCells(['a'])).toBe('a')
  expect(copyCells([])).toBe('')
})

test('without lines no statement runs', async () => {
  await sendCopy(session.client, 'copy nowhere (n) from stdin', Buffer.alloc(0))
})

test('a rejection by Postgres is its error, and the session stays usable', async () => {
  const sent = sendCopy(session.client, 'copy pg_temp.copied (n, a, b) from stdin', Buffer.from('x\ta\tb\n'))
  await expect(sent).rejects.toMatchObject({ code: '22P02' })
  expect(await rowsOf(session, 'select 1 as one')).toEqual([{ one: 1 }])
})

describe('a login with row-level policies', () => {
  test('writes the same rows, with the defaults of columns that no line contains, repeatedly', async () => {
    const name = `copy_loader_${process.pid}_${Date.now()}`
    await session.client.query(`create role ${name} login password 'x' in role intake_loader`)
    try {
      const url = new URL(database.url)
      Object.assign(url, { username: name, password: 'x' })
      await using bound = await openSession({ url: url.href, purpose: 'bound' })
      const statement = 'copy intake.patients (team_id, id, first_name, _version, _origin) from stdin'
      const line = (id: string, name: string) => `7\t${id}\t${name}\t2026-01-01\ttest\n`
      await sendCopy(bound.client, statement, Buffer.from(line('a', 'A\\tB') + line('b', '\\N')))
      await sendCopy(bound.client, statement, Buffer.from(line('c', 'C')))
      const rows = await rowsOf(
        session,
        `select id, first_name, _loaded_at is not null as dated from intake.patients where team_id = 7 order by id`,
      )
      expect(rows).toEqual([
        { id: 'a', first_name: 'A\tB', dated: true },
        { id: 'b', first_name: null, dated: true },
        { id: 'c', first_name: 'C', dated: true },
      ])
    } finally {
      await session.client.query(`drop role ${name}`)
    }
  })
})

describe('a text buffer', () => {
  test('returns what was appended, in order, and starts again, whatever is given back and when', () => {
    const piece = fc.oneof(
      naughtyText.filter((text) => text.isWellFormed()),
      fc.constant('x'.repeat(70_000)),
    )
    const step = fc.oneof(
      { weight: 5, arbitrary: piece.map((text) => ({ kind: 'append', text }) as const) },
      { weight: 2, arbitrary: fc.constant({ kind: 'take' } as const) },
      { weight: 1, arbitrary: fc.constant({ kind: 'release' } as const) },
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
        const buffer = openTextBuffer()
        let expected = ''
        const taken: { taken: Buffer; text: string }[] = []
        for (const each of steps) {
          if (each.kind === 'append') {
            buffer.append(each.text)
            expected += each.text
          } else if (each.kind === 'take') {
            taken.push({ taken: buffer.take(), text: expected })
            expected = ''
          } else if (taken.length > 0) buffer.release(taken.shift()!.taken)
          expect(buffer.length).toBe(Buffer.byteLength(expected))
          // A taken buffer does not change until it is given back.
          for (const each of taken) expect(each.taken.toString()).toBe(each.text)
        }
        expect(buffer.take().toString()).toBe(expected)
      }),
      { numRuns: 200 },
    )
  })

  test('in latin1 writes one byte per character', () => {
    const buffer = openTextBuffer('latin1')
    const text = Array.from({ length: 256 }, (_, code) => String.fromCharCode(code)).join('')
    buffer.append(text)
    buffer.append(text)
    expect(buffer.length).toBe(512)
    expect(buffer.take().toString('latin1')).toBe(text + text)
  })

  test('reuses memory that was given back', () => {
    const buffer = openTextBuffer()
    buffer.append('a')
    const first = buffer.take()
    buffer.append('b')
    expect(first.toString()).toBe('a')
    const second = buffer.take()
    buffer.release(first)
    // The memory of `first` follows that of the current text.
    buffer.append('c')
    buffer.take()
    buffer.append('d')
    expect(buffer.take().buffer).toBe(first.buffer)
    expect(second.toString()).toBe('b')
  })
})
