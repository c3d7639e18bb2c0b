/**
 * Reads the bodies of a webhook configuration (specification, section 2.6) and of a test, with the validation of the
 * service.
 *
 * Invariant: the result contains only fields of a configuration, each of its type and with known values; unknown fields
 * are ignored.
 */
import { type ConfigFields, EVENT_TYPES } from '../../webhooks/webhook-configs.ts'
import { EVENT_SOURCES } from '../../world/world.ts'
import { type Failure, failure } from '../answer.ts'
import type { Call } from '../call.ts'

const READERS: Readonly<Record<keyof ConfigFields, (value: unknown) => boolean>> = {
  target_url: isTarget,
  event_types: (value) => areOf(EVENT_TYPES, value),
  sources: (value) => areOf(EVENT_SOURCES, value),
  is_active: (value) => typeof value === 'boolean',
}

/** The fields of the body, or the failure to answer. */
export function readConfigFields({ body }: Call): Partial<ConfigFields> | Failure {
  const value = parsed(body)
  if (!isObject(value)) return failure(400, 'Validation error.', 'non_field_errors')
  const fields: Record<string, unknown> = {}
  for (const [name, fits] of Object.entries(READERS)) {
    if (!Object.hasOwn(value, name)) continue
    if (!fits(value[name])) return failure(400, 'Validation error.', name)
    fields[name] = value[name]
  }
  return fields as Partial<ConfigFields>
}

/** The id of the configuration to test as written, or the failure to answer. */
export function readTestedId({ body }: Call): string | Failure {
  const value = body.length === 0 ? {} : parsed(body)
  if (!isObject(value)) return failure(400, 'Validation error.', 'non_field_errors')
  const { id } = value
  if (typeof id === 'string' && id !== '') return id
  // The number can exceed the precision of a double: take its digits from the text.
  const digits = typeof id === 'number' ? /"id"\s*:\s*(\d+)/.exec(body.toString('utf8'))?.[1] : undefined
  return digits ?? failure(400, 'Webhook config ID is required.', 'id')
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isTarget(value: unknown): boolean {
  return typeof value === 'string' && /^https?:\/\//i.test(value) && URL.canParse(value)
}

function areOf(words: readonly string[], value: unknown): boolean {
  return Array.isArray(value) && value.every((word) => words.includes(word))
}
