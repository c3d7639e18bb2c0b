/**
 * Alternative shapes of the service, and their combination.
 *
 * Invariant: a shape changes notation only: every shape contains the same records, except for parts that its name says
 * it removes.
 */
import type { Failure, JsonRecord, Page, Resource } from '../http/answer.ts'

export interface Paging {
  /** `whole`: all rows in one answer unless the caller requests a page. */
  readonly style: 'page' | 'limit-offset' | 'cursor' | 'whole'
  readonly pastEnd: 'not-found' | 'empty'
  readonly pageSize: 'capped' | 'ignored'
  readonly unknownParameters: 'ignored' | 'refused'
  readonly newestFirst: boolean
  readonly badCursor: 404 | 400
}

export interface Body {
  /** Any JSON value. */
  readonly value: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface RecordContext {
  readonly resource: Resource
  readonly inList: boolean
}

/** One alternative. */
export interface ShapePart {
  /** `random` takes at most one part of each matter. */
  readonly matter: string
  readonly summary: string
  readonly paging?: Partial<Paging>
  readonly next?: (url: string) => string
  readonly record?: (record: JsonRecord, context: RecordContext) => JsonRecord
  readonly envelope?: (page: Page) => Body
  /** The envelope of a webhook event. */
  readonly event?: (event: JsonRecord) => JsonRecord
  readonly failure?: (failure: Failure) => Body & { readonly type?: string }
  /** Rewrites the JSON text of an answer. */
  readonly text?: (json: string) => string
  /** Converts the id in a path to the default shape; undefined if it is not an id. */
  readonly id?: (
    text: string,
    ids: { readonly withPrefix: (hex: string) => string | undefined },
  ) => string | undefined
  /** Formats an id of the default shape outside JSON, in a cell of an export. */
  readonly idText?: (id: string) => string
  readonly flags?: readonly ShapeFlag[]
}

export type ShapeFlag =
  | 'nested-forms'
  | 'trailing-slash'
  | 'empty-success'
  | 'bounds-exclusive'
  | 'bounds-zone'
  | 'filters-ignored'
  | 'export-json-data'
  | 'export-json-rows'
  | 'raw-text-csv'
  | 'raw-text-quoted'
  | 'raw-text-bom'

/** The combined shape that the server uses. */
export interface Shape {
  readonly names: readonly string[]
  readonly paging: Paging
  readonly next: (url: string) => string
  readonly record: (record: JsonRecord, context: RecordContext) => JsonRecord
  readonly envelope: (page: Page) => Body
  readonly event: (event: JsonRecord) => JsonRecord
  readonly failure: (failure: Failure) => Body & { readonly type?: string }
  readonly text: (json: string) => string
  readonly id: NonNullable<ShapePart['id']>
  readonly idText: NonNullable<ShapePart['idText']>
  readonly has: (flag: ShapeFlag) => boolean
}

export function combine(parts: Readonly<Record<string, ShapePart>>): Shape {
  const chosen = Object.values(parts)
  const records = chosen.flatMap((part) => part.record ?? [])
  const flags = new Set(chosen.flatMap((part) => part.flags ?? []))
  const last = <K extends keyof ShapePart>(key: K) =>
    chosen.findLast((part) => part[key] !== undefined)?.[key]
  return {
    names: Object.keys(parts),
    paging: Object.assign({ ...DEFAULT_PAGING }, ...chosen.map((part) => part.paging ?? {})),
    next: last('next') ?? ((url) => url),
    record: (record, context) => records.reduce((value, change) => change(value, context), record),
    envelope: last('envelope') ?? defaultEnvelope,
    event: last('event') ?? ((event) => event),
    failure: last('failure') ?? (({ detail }) => ({ value: { detail } })),
    text: last('text') ?? ((json) => json),
    id: last('id') ?? ((text) => text),
    idText: last('idText') ?? ((id) => id),
    has: (flag) => flags.has(flag),
  }
}

const DEFAULT_PAGING: Paging = {
  style: 'page',
  pastEnd: 'not-found',
  pageSize: 'capped',
  unknownParameters: 'ignored',
  newestFirst: false,
  badCursor: 404,
}

function defaultEnvelope({ count, next, previous, rows }: Page): Body {
  return { value: { count, next, previous, results: rows } }
}

/** Copies of records with fields removed or changed. */
export const without = (record: JsonRecord, ...names: string[]): JsonRecord =>
  Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name)))

/** Changes each question of a record, also in its forms and its packet. */
export function withQuestions(record: JsonRecord, change: (question: JsonRecord) => JsonRecord): JsonRecord {
  const one = (form: JsonRecord): JsonRecord =>
    Array.isArray(form.questions) ? { ...form, questions: form.questions.map(change) } : form
  const { packet } = record
  if (typeof packet === 'object' && packet !== null && 'forms' in packet) {
    return { ...record, packet: withQuestions(packet as JsonRecord, change) }
  }
  return Array.isArray(record.forms) ? { ...record, forms: record.forms.map(one) } : one(record)
}

/** Groups items by `keyOf`; groups are in the order of their first items. */
export function groupBy<K, T>(items: readonly T[], keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>()
  for (const item of items) {
    const key = keyOf(item)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [item])
    else group.push(item)
  }
  return groups
}
