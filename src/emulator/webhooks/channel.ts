/**
 * The deliveries of one configuration: a queue of events, and the retries of those that failed.
 *
 * Invariant: attempts start in the order of their events, at most `IN_FLIGHT` at once, and never wait for another
 * configuration. A failed event is retried after each of `RETRIES` and then given up. Once the configuration is deleted
 * or disabled, unsent events are dropped. An unsent event of a packet response absorbs the next one: it keeps its id
 * and position and gets the later timestamp.
 */
import { randomUUID } from 'node:crypto'
import PQueue from 'p-queue'
import type { Clock } from '../clock.ts'
import { type FiredFaults, fireWebhook } from '../faults.ts'
import { Draw, keyOf } from '../world/draw.ts'
import type { WorldEvent } from '../world/world.ts'
import { attempt, type DeliveryContext, forge } from './attempt.ts'
import type { WebhookEvent } from './envelope.ts'
import type { AttemptOutcome } from './sender.ts'
import { type EventType, secretOf, type WebhookConfig } from './webhook-configs.ts'

export type Occurrence = Exclude<WorldEvent, { source: 'message' }>

const IN_FLIGHT = 8
/** Milliseconds of the service's time. */
const RETRIES = [5_000, 30_000, 120_000, 600_000, 3_600_000] as const

interface Delivery {
  readonly event: WebhookEvent
  readonly faults: FiredFaults
  /** Number of the event in this configuration, from 1. */
  readonly number: number
  /** The period of the configuration that the event belongs to; it is not sent in a later one. */
  readonly period: number
  attempts: number
  retries: number
}

export class Channel {
  readonly #context: DeliveryContext
  readonly #queue = new PQueue({ concurrency: IN_FLIGHT })
  readonly #unsent = new Map<string, Delivery>()
  readonly #retrying = new Map<Delivery, () => void>()
  readonly #reorder: Reorder
  #config: WebhookConfig
  #period = 0
  #events = 0
  /** Events since the configuration was last written. */
  #recent = 0
  /** True if a fault has disabled the configuration since it was last written. */
  #off = false

  constructor(context: DeliveryContext, config: WebhookConfig) {
    this.#context = context
    this.#config = config
    this.#reorder = new Reorder(context.clock, context.closing)
  }

  get retrying(): number {
    return this.#retrying.size
  }

  /** Applies a changed configuration; disabling it drops unsent events. */
  reconfigure(config: WebhookConfig): void {
    this.#config = config
    this.#off = false
    this.#recent = 0
    if (!config.is_active) this.drop()
  }

  drop(): void {
    this.#period += 1
    this.#unsent.clear()
    this.#dropRetries()
  }

  offer(change: Occurrence): void {
    const { source } = change
    // The service reports the setup of a packet response as an update.
    const type: EventType =
      source === 'packet_response' && change.type === 'created' ? 'updated' : change.type
    const { is_active, sources, event_types } = this.#config
    if (this.#off || !is_active || !sources.includes(source) || !event_types.includes(type)) return
    const mergeable = source === 'packet_response' && type === 'updated'
    const before = mergeable ? this.#unsent.get(change.id) : undefined
    if (before !== undefined) {
      before.event.at = change.at
      return
    }
    this.#events += 1
    const faults = this.#draw(source)
    if (faults.has('webhook-drop') || this.#isSwitchedOff(faults)) return
    const delivery: Delivery = {
      event: {
        id: randomUUID(),
        type,
        subject: this.#context.subjects.retain(source, change.row),
        at: change.at,
      },
      ...{ faults, number: this.#events, period: this.#period, attempts: 0, retries: 0 },
    }
    if (mergeable) this.#unsent.set(change.id, delivery)
    void this.#deliver(delivery)
  }

  /** Sends an event, with its faults, and releases its subject. */
  async #deliver(delivery: Delivery): Promise<void> {
    const { work, clock, closing, subjects } = this.#context
    const { faults } = delivery
    work.begin()
    if (delivery.attempts === 0) await this.#delay(delivery)
    const acknowledged = await this.#queue.add(() => this.#send(delivery))
    if (acknowledged && faults.has('webhook-rerender')) {
      await clock.sleep(Number(faults.get('webhook-rerender') ?? 500), closing)
      await this.#queue.add(() => this.#attempt(delivery, false))
    }
    subjects.release(delivery.event.subject)
    work.end()
  }

  async #delay({ faults, number }: Delivery): Promise<void> {
    const { clock, closing } = this.#context
    if (faults.has('webhook-delay')) await clock.sleep(Number(faults.get('webhook-delay') ?? 1000), closing)
    if (faults.has('webhook-reorder')) await this.#reorder.wait(number)
  }

  async #send(delivery: Delivery): Promise<boolean> {
    // Let a handler that changes several records finish before the first of their events is rendered.
    await new Promise((resolve) => setImmediate(resolve))
    const { event, faults, number } = delivery
    const first = delivery.attempts === 0
    if (first && this.#unsent.get(event.subject.id) === delivery) this.#unsent.delete(event.subject.id)
    if (first && this.#isCurrent(delivery) && faults.has('webhook-forge')) {
      const secret = secretOf(new Draw(keyOf(this.#config.id, 'forger'), number))
      await forge(this.#context, this.#config, event, secret)
    }
    const copies = first && faults.has('webhook-duplicate') ? 1 : 0
    const sent = [this.#attempt(delivery, true)]
    if (copies > 0) sent.push(this.#attempt(delivery, false))
    const [acknowledged = false] = await Promise.all(sent)
    if (first) this.#reorder.release(number)
    return acknowledged
  }

  /** True if the receiver acknowledged. A failed attempt is retried only if `retried`. */
  async #attempt(delivery: Delivery, retried: boolean): Promise<boolean> {
    if (!this.#isCurrent(delivery)) return false
    delivery.attempts += 1
    const outcome = await attempt(this.#context, this.#config, delivery.event, delivery.attempts, (result) =>
      retried ? this.#retryAfter(delivery, result) : undefined,
    )
    return outcome.acknowledged
  }

  /** Schedules the next retry, if any, and returns its delay. */
  #retryAfter(delivery: Delivery, { acknowledged, final }: AttemptOutcome): number | undefined {
    const delay = RETRIES[delivery.retries]
    if (acknowledged || final || delay === undefined || this.#off || !this.#isCurrent(delivery))
      return undefined
    delivery.retries += 1
    const { source, last } = delivery.event.subject
    this.#context.subjects.retain(source, last)
    const forget = this.#context.world.timeline.after(delay, () => {
      this.#retrying.delete(delivery)
      void this.#deliver(delivery)
    })
    this.#retrying.set(delivery, forget)
    return delay
  }

  #isCurrent({ period }: Delivery): boolean {
    return period === this.#period && !this.#context.closing.aborted
  }

  #dropRetries(): void {
    for (const [{ event }, forget] of this.#retrying) {
      forget()
      this.#context.subjects.release(event.subject)
    }
    this.#retrying.clear()
  }

  #draw(source: Occurrence['source']): FiredFaults {
    const { faults, seed } = this.#context.settings
    return fireWebhook(faults, `${seed}/${this.#config.id}`, this.#events, source)
  }

  /** True from the event on at which a fault disables the endpoint; queued events are still sent. */
  #isSwitchedOff(faults: FiredFaults): boolean {
    const after = Number(faults.get('webhook-off') ?? 0)
    this.#recent += 1
    if (!faults.has('webhook-off') || this.#recent <= after) return false
    this.#off = true
    this.#dropRetries()
    return true
  }
}

/** Milliseconds of real time. */
const MAX_DELAY = 1000

/**
 * The fault `webhook-reorder`: delays an event until the next one was sent.
 *
 * Invariant: at most one event of a configuration is delayed at a time, and none longer than `MAX_DELAY`.
 */
class Reorder {
  readonly #clock: Clock
  readonly #closing: AbortSignal
  #delayed: { readonly number: number; readonly go: () => void } | null = null

  constructor(clock: Clock, closing: AbortSignal) {
    this.#clock = clock
    this.#closing = closing
  }

  /** Resolves when a later event was sent; at once if another one is delayed already. */
  async wait(number: number): Promise<void> {
    if (this.#delayed !== null) return
    const limit = new AbortController()
    this.#delayed = { number, go: () => limit.abort() }
    this.#closing.addEventListener('abort', this.#delayed.go, { once: true })
    await this.#clock.sleep(MAX_DELAY, limit.signal)
    this.#closing.removeEventListener('abort', this.#delayed.go)
    this.#delayed = null
  }

  /** Ends the delay of an event with a number below `number`. */
  release(number: number): void {
    if (this.#delayed !== null && number > this.#delayed.number) this.#delayed.go()
  }
}
