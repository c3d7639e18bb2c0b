/** Alternative notations of ids. Each maps the UUIDs of the default shape one to one. */
import type { JsonRecord } from '../http/answer.ts'
import type { ShapePart } from './shape.ts'

/** Renames every `id` to `name`, at any depth, and rewrites it and each reference with `write`. */
function withIds(value: unknown, name: string, write: (id: string) => unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => withIds(item, name, write))
  if (typeof value !== 'object' || value === null) return value
  const changed: Record<string, unknown> = {}
  for (const [key, item] of Object.entries(value)) {
    if (key === 'id' && typeof item === 'string') changed[name] = write(item)
    else if (key === 'answers' && !Array.isArray(item)) changed[key] = keysRewritten(item, name, write)
    else if (typeof item === 'string' && refers(key, item)) changed[key] = write(item)
    else if (key === 'responses' && Array.isArray(item)) changed[key] = item.map((id) => write(String(id)))
    else if (key === 'custom_fields') changed[key] = item
    else changed[key] = withIds(item, name, write)
  }
  return changed
}

/** Fields that contain the id of another record of the service. */
const REFERRING = new Set([
  'block',
  'patient',
  'form',
  'packet',
  'document',
  'row',
  'column',
  'webhook_config',
])
const OWN = /^(?:patient|form|packet|document|question|choice)_id$/

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

function refers(key: string, value: string): boolean {
  return UUID.test(value) && (REFERRING.has(key) || OWN.test(key))
}

/** An object by id. */
function keysRewritten(value: unknown, name: string, write: (id: string) => unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      UUID.test(key) ? String(write(key)) : key,
      withIds(item, name, write),
    ]),
  )
}

const prefix = (id: string, digits: number) => id.replaceAll('-', '').slice(0, digits)
const small = (id: string) => Number.parseInt(prefix(id, 12), 16)
const huge = (id: string) => String(BigInt(`0x1${prefix(id, 15)}`))

/** JSON.stringify cannot write integers beyond 2^53, so they are inserted into its result. */
const BIG = /"#number:(\d+)#"/g

export const IDS = {
  'uid-ids': {
    matter: 'ids',
    summary: 'identifiers are named `uid`',
    record: (record) => withIds(record, 'uid', (id) => id) as JsonRecord,
  },
  'numeric-ids': {
    matter: 'ids',
    summary: 'identifiers are JSON numbers',
    record: (record) => withIds(record, 'id', small) as JsonRecord,
    idText: (id) => String(small(id)),
    id: (text, ids) =>
      /^\d{1,16}$/.test(text) ? ids.withPrefix(Number(text).toString(16).padStart(12, '0')) : undefined,
  },
  'huge-ids': {
    matter: 'ids',
    summary: 'identifiers are JSON numbers beyond 2^53, which most readers round',
    record: (record) => withIds(record, 'id', (id) => `#number:${huge(id)}#`) as JsonRecord,
    idText: huge,
    text: (json) => json.replace(BIG, '$1'),
    id: (text, ids) => {
      const hex = /^\d{1,20}$/.test(text) ? BigInt(text).toString(16) : ''
      return hex.length === 16 && hex.startsWith('1') ? ids.withPrefix(hex.slice(1)) : undefined
    },
  },
} satisfies Record<string, ShapePart>
