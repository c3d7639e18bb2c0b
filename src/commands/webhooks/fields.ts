/**
 * Fields of webhook configurations, from options and from records (specification, section 2.6; it shows only the names
 * of the id, the URL and the secret, so the other fields are read tolerantly).
 *
 * Invariant: never reads a signature secret.
 */
import { Option } from 'commander'
import type { WebhookConfigFields } from '../../api/resources/webhooks.ts'
import { UsageError } from '../../core/errors.ts'
import { recordId } from '../../core/identifiers.ts'
import { isObject, type JsonObject } from '../../core/json.ts'
import { shown } from '../printable.ts'

export interface FieldOptions {
  readonly url?: string
  readonly events?: string
  readonly sources?: string
  readonly active?: 'true' | 'false'
}

export const eventsOption = () =>
  new Option('--events <names>', 'event types, comma-separated: created, updated, deleted')
export const sourcesOption = () =>
  new Option(
    '--sources <names>',
    'sources of events, comma-separated: document, form, packet, patient, response, packet_response',
  )

/** The fields given as options, and no others. Throws `UsageError`. */
export function fieldsOf(options: FieldOptions): Partial<WebhookConfigFields> {
  const { url, events, sources, active } = options
  return {
    ...(url === undefined ? {} : { target_url: checkedUrl(url) }),
    ...(events === undefined ? {} : { event_types: namesIn('--events', events) }),
    ...(sources === undefined ? {} : { sources: namesIn('--sources', sources) }),
    ...(active === undefined ? {} : { is_active: active === 'true' }),
  }
}

function checkedUrl(text: string): string {
  if (URL.canParse(text) && /^https?:\/\//i.test(text)) return text
  throw new UsageError('--url is not an http(s) URL', 'write it as https://host/webhooks', '--url')
}

/** Accepts unknown names, since the service may add some. */
function namesIn(option: string, text: string): readonly string[] {
  const names = text.split(',').map((name) => name.trim())
  if (names.every((name) => /^[\w.-]+$/.test(name))) return [...new Set(names)]
  throw new UsageError(
    `${option} is not a list of names`,
    'separate the names with commas: created,updated',
    option,
  )
}

/** A configuration for output; null for a field that the service does not return. */
export interface ShownConfig {
  readonly id: string | null
  readonly target_url: string | null
  readonly event_types: readonly string[] | null
  readonly sources: readonly string[] | null
  readonly is_active: boolean | null
  readonly created_at: string | null
}

export function shownConfig(record: JsonObject): ShownConfig {
  const reading = recordId(record)
  const active = record.is_active ?? record.active ?? record.enabled
  return {
    id: reading.kind === 'id' ? reading.id : null,
    target_url: shown(record.target_url ?? record.url) || null,
    event_types: wordsOf(record.event_types ?? record.events),
    sources: wordsOf(record.sources ?? record.source_entities),
    is_active: typeof active === 'boolean' ? active : null,
    created_at: shown(record.created_at) || null,
  }
}

/** `["created"]`, `[{"name": "created"}]`, `"created,updated"`, `{"created": true}`. */
function wordsOf(value: unknown): readonly string[] | null {
  if (typeof value === 'string') return value.split(',').map((word) => shown(word.trim()))
  if (Array.isArray(value)) return value.map((each) => shown(isObject(each) ? (each.name ?? each.id) : each))
  if (!isObject(value)) return null
  return Object.keys(value).flatMap((name) => (value[name] === true ? [shown(name)] : []))
}

/** Cells of a table: id, URL, events, sources, active. */
export function cellsOf(config: ShownConfig): string[] {
  const { id, target_url, event_types, sources, is_active } = config
  return [
    id === null ? '-' : shown(id),
    target_url ?? '-',
    event_types?.join(',') ?? '-',
    sources?.join(',') ?? '-',
    is_active === null ? '-' : is_active ? 'yes' : 'no',
  ]
}

/** One line per field, for a single configuration. */
export function linesOf(config: ShownConfig): string[][] {
  const names = ['id', 'url', 'events', 'sources', 'active']
  return cellsOf(config).map((cell, at) => [names[at]!, cell])
}
