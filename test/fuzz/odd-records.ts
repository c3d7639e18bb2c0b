/**
 * Records of every list, most of them odd: fixtures of their streams with values changed, removed and added, under ids
 * that are difficult in a path or a key.
 *
 * Invariant: a record is a text, with its numbers unchanged; a record without an odd value is one of the fixtures of its
 * stream.
 */
import fc from 'fast-check'
import { stringify } from 'lossless-json'
import { isObject, type JsonObject, parseJson, parseText } from '../../src/core/json.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'
import type { Stream } from '../../src/streams/stream.ts'
import { naughtyJson } from '../core/naughty.ts'
import { FIXTURES } from '../streams/fixtures/all.ts'
import { anyText } from './corpora.ts'

export const anyValue = naughtyJson.map((text) => parseText(text))

export const READ = STREAMS.filter(({ list, name }) => list !== null && name !== 'exports')
const PATHS: Readonly<Record<string, string>> = {
  webhook_configs: '/v2/webhooks',
  webhook_deliveries: '/v2/webhooks/events',
}
export const pathOf = (name: string) => PATHS[name] ?? `/v2/${name}`

/** Complete records of each stream. */
const seeds = new Map(
  READ.map((stream) => {
    const records = FIXTURES[stream.name]!.flatMap(({ record, expected }) => {
      if ('dead' in expected) return []
      const value =
        isObject(record) && !Buffer.isBuffer(record) ? record : parseJson(Buffer.from(record as string)).value
      return isObject(value) && stringify(value)!.length < 4_000 ? [value] : []
    })
    return [stream.name, records] as const
  }),
)

interface Change {
  readonly where: number
  readonly does: 'replace' | 'remove' | 'add'
  readonly value: unknown
}

/** The record with one of its values, at any depth, changed. */
function changed(record: JsonObject, { where, does, value }: Change): JsonObject {
  const copy = structuredCloneOf(record) as Record<string, unknown>
  const places: [Record<string, unknown> | unknown[], string][] = []
  const walk = (part: unknown) => {
    if (!isObject(part) && !Array.isArray(part)) return
    for (const key of Object.keys(part)) {
      places.push([part as Record<string, unknown>, key])
      walk((part as Record<string, unknown>)[key])
    }
  }
  walk(copy)
  const place = places[where % Math.max(places.length, 1)]
  if (place === undefined) return { ...copy, added: value }
  const [part, key] = place as [Record<string, unknown>, string]
  if (does === 'replace') part[key] = value
  else if (does === 'add') part[Array.isArray(part) ? String(part.length) : `new ${where % 7}`] = value
  else if (Array.isArray(part)) part.splice(Number(key), 1)
  else delete part[key]
  return copy
}

/** Numbers that JavaScript would round stay as written. */
function structuredCloneOf(value: unknown): unknown {
  return parseText(stringify(value) ?? 'null')
}

const change: fc.Arbitrary<Change> = fc.record({
  where: fc.nat(10_000),
  does: fc.constantFrom('replace', 'replace', 'remove', 'add'),
  value: fc.oneof(
    anyValue,
    anyText,
    fc.constantFrom<unknown>(null, '', [], {}, true, 0, -1, '2026-02-30', '2026-01-01T25:00:00Z'),
  ),
})

/** Ids that are invalid, or difficult in a path or a key; most are ordinary. */
const ODD: readonly ((at: number) => string)[] = [
  () => 'null',
  () => '" "',
  () => 'true',
  () => '[]',
  () => '1.5',
  (at) => `${at}`,
  (at) => `-${at + 1}`,
  (at) => `115292150460684697${at + 10}`,
  (at) => `"../${at}"`,
  (at) => `"a/b?c=${at}#d"`,
  (at) => `"%2F%00${at}"`,
  (at) => `"\\u0000${at}"`,
  (at) => `"\\ud83d${at}"`,
  (at) => `"😀 ${at}\\t\\n"`,
  (at) => JSON.stringify(`${at}${'é'.repeat(600)}`),
  (at) => JSON.stringify(`'; drop table x; -- ${at}`),
]
const idText = fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, fc.constantFrom(...ODD))

function recordsOf(stream: Stream): fc.Arbitrary<readonly string[]> {
  const one = fc.record({
    seed: fc.constantFrom(...seeds.get(stream.name)!),
    id: idText,
    changes: fc.array(change, { maxLength: 3 }),
  })
  return fc.array(one, { minLength: 1, maxLength: 30 }).map((drawn) =>
    drawn.map(({ seed, id, changes }, at) => {
      const { id: _, uid: __, ...rest } = changes.reduce(changed, seed)
      const text = stringify(rest) ?? '{}'
      return `{"id":${id === null ? `"r${at}"` : id(at)}${text === '{}' ? '' : ','}${text.slice(1)}`
    }),
  )
}

export const world = fc.record(Object.fromEntries(READ.map((stream) => [stream.name, recordsOf(stream)])))

/** An id as the specification defines it, without the code that reads it; null if there is no usable one. */
export function keyOf(id: unknown): string | null {
  if (typeof id === 'number') return Number.isSafeInteger(id) ? String(id) : null
  if (typeof id !== 'string' || id.trim() === '' || id.includes('\0') || !id.isWellFormed()) return null
  return Buffer.byteLength(id) <= 1_000 ? id : null
}
