/** Names of columns and views, derived from any question text: valid, unique, and the same the next time. */
import fc from 'fast-check'
import type pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { nameFor } from '../../src/analytics/wide/wide-columns.ts'
import { startLittleService } from '../e2e/support/little-service.ts'
import { connect, openWarehouse } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { holds, PATIENCE } from './budget.ts'
import { anyText, naughtyStrings } from './corpora.ts'

let warehouse: TestDatabase
let client: pg.Client

beforeAll(async () => {
  warehouse = await openWarehouse()
  client = await connect(warehouse.url)
})

afterAll(async () => {
  await client.end()
  await warehouse.drop()
})

/** Question texts: equal except for case and accents, long, in any script, or without any usable character. */
const question = fc.oneof(
  anyText,
  fc.constantFrom(
    'Weight',
    'weight',
    'WEIGHT?',
    'Wéight',
    'we\u0301ight',
    'Select',
    'order',
    '1',
    '1.',
    '',
    '???',
  ),
  fc
    .tuple(
      fc.constantFrom('體', '🧠', 'é', 'İ', 'ß', 'ﷺ', '\u0345', 'x', 'ŉ', '1'),
      fc.integer({ min: 1, max: 90 }),
    )
    .map(([unit, times]) => unit.repeat(times)),
  fc
    .tuple(fc.string({ minLength: 50, maxLength: 70, unit: 'grapheme' }), fc.nat(3))
    .map(([long, number]) => `${long}_${number}`),
)

const RESERVED = ['order', 'select', 'team_id']

function namesOf(texts: readonly string[]): readonly string[] {
  const taken = new Set(RESERVED)
  return texts.map((text) => {
    const name = nameFor(text, { empty: 'question', prefix: 'q_', taken })
    taken.add(name)
    return name
  })
}

it('a name has at most 63 bytes, is unique, and does not depend on later names', PATIENCE, async () => {
  await holds(
    fc.property(fc.array(question, { maxLength: 30 }), (texts) => {
      const names = namesOf(texts)
      expect(new Set([...names, ...RESERVED]).size).toBe(names.length + RESERVED.length)
      for (const name of names) {
        expect(Buffer.byteLength(name)).toBeGreaterThan(0)
        expect(Buffer.byteLength(name)).toBeLessThanOrEqual(63)
        expect(name.isWellFormed()).toBe(true)
        expect(name).not.toMatch(/[\s"'\\\0\p{C}]|^\p{N}/u)
      }
      expect(namesOf(texts.slice(0, 3))).toEqual(names.slice(0, 3))
    }),
    800,
  )
})

it('a name is the same for Postgres, and needs no quotes if it is in Latin script', PATIENCE, async () => {
  await holds(
    fc.asyncProperty(fc.array(question, { minLength: 10, maxLength: 60 }), async (texts) => {
      const names = namesOf(texts)
      const { rows } = await client.query<{ name: string; quoted: string }>(
        'select name, quote_ident(name) as quoted from unnest($1::name[]) with ordinality as given (name, place) order by place',
        [names],
      )
      expect(rows.map(({ name }) => name)).toEqual(names)
      for (const { name, quoted } of rows)
        if (/^[a-z]/.test(name) && /^[\x20-\x7e]*$/.test(name)) expect(quoted.replaceAll('"', '')).toBe(name)
    }),
    60,
  )
})

it('a form has one column per question, which another run leaves unchanged', PATIENCE, async () => {
  await using service = await startLittleService()
  const env = { ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'silent' }
  const stamps = { created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-01T00:00:00Z' }
  const questionOf = (text: string, place: number) => ({
    ...{ id: `q${place}`, text, help_text: '', order: place + 1, choices: [] },
    question_type: { question_type: 'text', question_subtype: null },
  })
  const columnsOf = async (form: string) => {
    const { rows } = await client.query<{ name: string; comment: string }>(
      `select a.attname as name, col_description(a.attrelid, a.attnum) as comment
       from intake_raw.wide_views v join pg_attribute a on a.attrelid = ('intake.' || quote_ident(v.view_name))::regclass
       where v.kind = 'form' and v.subject_id = $1 and a.attnum > 0 order by a.attnum`,
      [form],
    )
    return rows
  }
  let forms = 0
  const oneForm = async (name: string, texts: readonly string[]) => {
    const id = `f${++forms}`
    service.records.forms = [
      { ...{ id, name, text: '', enabled: true, ...stamps }, questions: texts.map(questionOf) },
    ]
    const run = await runCommand(['backfill', '--streams', 'forms', '--json'], env)
    expect(run.code).toBe(0)
    const columns = await columnsOf(id)
    const own = columns.slice(-texts.length || columns.length)
    expect(columns.length - texts.length).toBe(9)
    for (const { name: column } of columns) expect(Buffer.byteLength(column)).toBeLessThanOrEqual(63)
    expect(new Set(columns.map((column) => column.name)).size).toBe(columns.length)
    // The comment of the column is the question itself, whatever its name is.
    for (const [at, text] of texts.entries())
      if (text.isWellFormed() && !text.includes('\0') && text !== '') expect(own[at]!.comment).toContain(text)
    // In another order, with one more question: existing columns keep name and position.
    const reversed = texts.map(questionOf).reverse()
    service.records.forms = [
      {
        ...{ id, name: `${name}!`, text: '', enabled: true, ...stamps },
        questions: [questionOf('One more', 999), ...reversed],
      },
    ]
    expect((await runCommand(['backfill', '--streams', 'forms', '--full', '--json'], env)).code).toBe(0)
    expect((await columnsOf(id)).slice(0, columns.length)).toEqual(columns)
    service.records.forms = []
  }
  await oneForm('Naughty', naughtyStrings.length > 0 ? naughtyStrings.slice(0, 500) : ['', '1', 'x'])
  await holds(fc.asyncProperty(anyText, fc.array(question, { minLength: 1, maxLength: 40 }), oneForm), 3)
})
