/**
 * Webhooks of one team: its configurations, and the delivery of what changes to each of them.
 *
 * Invariant: the engine subscribes to the world only while there is a configuration. Each configuration that selects a
 * change gets its own event; after `close` nothing is sent, recorded or scheduled.
 */
import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { Clock } from '../clock.ts'
import type { JsonRecord } from '../http/answer.ts'
import type { Settings } from '../options.ts'
import type { Change } from '../world/table.ts'
import type { World, WorldEvent } from '../world/world.ts'
import { AttemptLog, attempt, type DeliveryContext, Work } from './attempt.ts'
import { Channel } from './channel.ts'
import { Subjects } from './envelope.ts'
import { openSender, type SenderOptions } from './sender.ts'
import { Configs, type WebhookConfig } from './webhook-configs.ts'

export class Webhooks {
  readonly configs: Configs
  readonly attempts = new AttemptLog()
  readonly #context: DeliveryContext
  readonly #channels = new Map<string, Channel>()
  readonly #stop = new AbortController()
  #unsubscribe: (() => void) | null = null

  constructor(world: World, settings: Settings, clock: Clock, options: SenderOptions) {
    // Every delayed event listens for the end.
    setMaxListeners(0, this.#stop.signal)
    this.configs = new Configs(world, (change) => this.#configure(change))
    this.#context = {
      ...{ world, settings, clock },
      sender: openSender(options),
      subjects: new Subjects(world),
      log: this.attempts,
      work: new Work(),
      closing: this.#stop.signal,
    }
  }

  /** Events that are queued, delayed or in flight. */
  get pending(): number {
    return this.#context.work.pending
  }

  /** Failed events that wait for a retry. */
  get retrying(): number {
    return [...this.#channels.values()].reduce((sum, { retrying }) => sum + retrying, 0)
  }

  /** Resolves when nothing is pending except scheduled retries. */
  idle(): Promise<void> {
    return this.#context.work.idle()
  }

  /** Sends one simulated event, whether the configuration is active or not; it is not retried. */
  async test(config: WebhookConfig): Promise<JsonRecord> {
    const { subjects, world, work } = this.#context
    const { source, row } = subjects.example(config.sources)
    const subject = subjects.retain(source, row)
    const type = source === 'packet_response' ? 'updated' : 'created'
    const event = { id: randomUUID(), type, subject, at: world.clock.now() } as const
    work.begin()
    try {
      const { acknowledged, status, error } = await attempt(this.#context, config, event, 1, () => undefined)
      const outcome = acknowledged ? 'succeeded' : 'failed'
      return { id: event.id, status: outcome, response_status_code: status, error }
    } finally {
      work.end()
      subjects.release(subject)
    }
  }

  /** Aborts deliveries in flight. */
  async close(): Promise<void> {
    this.#stop.abort()
    this.#unsubscribe?.()
    await this.#context.sender.close()
  }

  #configure({ type, id, row }: Change<WebhookConfig>): void {
    if (type === 'created') this.#channels.set(id, new Channel(this.#context, row))
    else if (type === 'updated') this.#channels.get(id)?.reconfigure(row)
    else {
      this.#channels.get(id)?.drop()
      this.#channels.delete(id)
    }
    if (this.#channels.size === 0) {
      this.#unsubscribe?.()
      this.#unsubscribe = null
    } else this.#unsubscribe ??= this.#context.world.subscribe((change) => this.#offer(change))
  }

  #offer(change: WorldEvent): void {
    this.#context.subjects.note(change)
    if (change.source === 'message') return
    for (const channel of this.#channels.values()) channel.offer(change)
  }
}
