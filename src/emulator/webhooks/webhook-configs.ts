/**
 * The webhook configurations of one team (specification, section 2.6).
 *
 * Invariant: the same seed and the same order of creation give the same ids and secrets; the secret of a
 * configuration never changes, and only `showCreated` returns it.
 */
import type { JsonRecord } from '../http/answer.ts'
import { Draw, IdSpace, keyOf } from '../world/draw.ts'
import { type Change, Table } from '../world/table.ts'
import { EVENT_SOURCES, type EventSource, type World } from '../world/world.ts'

export const EVENT_TYPES = ['created', 'updated', 'deleted'] as const
export type EventType = (typeof EVENT_TYPES)[number]

/** The fields that a caller can set. */
export interface ConfigFields {
  readonly target_url: string
  readonly event_types: readonly EventType[]
  readonly sources: readonly EventSource[]
  readonly is_active: boolean
}

export interface WebhookConfig extends ConfigFields {
  readonly id: string
  readonly created_at: string
  readonly updated_at: string
  readonly signature_secret: string
  /** `X-API-VERSION` of the request that created it, used for the `data` of its events. */
  readonly version: string
}

export const DEFAULTS: Omit<ConfigFields, 'target_url'> = {
  event_types: EVENT_TYPES,
  sources: EVENT_SOURCES,
  is_active: true,
}

export class Configs {
  readonly table: Table<WebhookConfig>
  readonly #world: World
  readonly #key

  constructor(world: World, onChange: (change: Change<WebhookConfig>) => void) {
    this.#world = world
    this.#key = keyOf(world.key.a, world.key.b, 'webhook')
    const make = (): never => {
      throw new RangeError('no configuration is seeded')
    }
    this.table = new Table<WebhookConfig>(new IdSpace(this.#key), 0, make, onChange)
  }

  create({ target_url, ...rest }: ConfigFields, version: string): WebhookConfig {
    const now = this.#world.now()
    return this.table.create((id, index) => ({
      ...{ id, target_url, ...rest },
      created_at: now,
      updated_at: now,
      signature_secret: secretOf(new Draw(this.#key, index)),
      version,
    }))
  }

  change(id: string, fields: Partial<ConfigFields>): WebhookConfig | undefined {
    return this.table.update(id, (old) => ({ ...old, ...fields, updated_at: this.#world.now() }))
  }
}

/** 64 hex digits. */
export function secretOf(draw: Draw): string {
  return Array.from({ length: 8 }, () => draw.word().toString(16).padStart(8, '0')).join('')
}

/** A configuration in every answer except that to its creation. */
export function showConfig({
  version: _version,
  signature_secret: _secret,
  ...shown
}: WebhookConfig): JsonRecord {
  return shown
}

export function showCreated({ version: _version, ...shown }: WebhookConfig): JsonRecord {
  return shown
}
