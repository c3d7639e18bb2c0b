/**
 * What an alternative shape of the service may change, and how several are worn together.
 *
 * Invariant: a shape changes how things are written, never what is true: the same records, in the same number, can be
 * read from every shape (but for what its name takes away).
 */
import type { Failure, JsonRecord, Page, Resource } from '../http/answer.ts'

export interface Paging {
  /** `whole`: everything in one answer unless the caller asks for a page. */
  readonly style: 'page' | 'limit-offset' | 'cursor' | 'whole'
  readonly pastEnd: 'not-found' | 'empty'
  readonly pageSize: 'capped' | 'ignored'
  readonly unknownParameters: 'ignored' | 'refused'
  readonly newestFirst: boolean
  readonly badCursor: 404 | 400
}

export interface Body {
  /** Anything that JSON can hold. */
  readonly value: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface RecordContext {
  readonly resource: Resource
  readonly inList: boolean
}

/** One alternative. */
export interface ShapePart {
  /** Of the parts with one matter, `random` takes one at most. */
  readonly matter: string
  readonly summary: string
  readonly paging?: Partial<Paging>
  readonly next?: (url: string) => string
  readonly record?: (record: JsonRecord, context: RecordContext) => JsonRecord
  readonly envelope?: (page: Page) => Body
  /** The envelope of a webhook event. */
  readonly event?: (event: JsonRecord) => JsonRecord
  readonly failure?: (failure: Failure) => Body & { readonly type?: string }
  /** The text of an answer after it was written. */
  readonly text?: (json: string) => string
  /** The id of a path as the default shape writes it; undefined when it is none. */
  readonly id?: (
    text: string,
    ids: { readonly withPrefix: (hex: string) => string | undefined },
  ) => string | undefined
  /** An id of the default shape where it stands in a text that is not JSON: a cell of an export. */
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

/** Everything the server asks about shape. */
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

export function wear(parts: Readonly<Record<string, ShapePart>>): Shape {
  const worn = Object.values(parts)
  const records = worn.flatMap((part) => part.record ?? [])
  const flags = new Set(worn.flatMap((part) => part.flags ?? []))
  const last = <K extends keyof ShapePart>(key: K) => worn.findLast((part) => part[key] !== undefined)?.[key]
  return {
    names: Object.keys(parts),
    paging: Object.assign({ ...DEFAULT_PAGING }, ...worn.map((part) => part.paging ?? {})),
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
