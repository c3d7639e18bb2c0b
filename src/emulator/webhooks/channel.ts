/**
 * The deliveries of one configuration: a queue of events, and the retries of those that failed.
 *
 * Invariant: attempts start in the order of their events, at most `IN_FLIGHT` at once, and wait for those of no other
 * configuration; a failed event is tried again after each of `RETRIES` and then given up; once the configuration is
 * deleted or switched off, nothing that was still to be sent is sent. An event of a packet response that was not sent
 * yet takes in the next one: it keeps its id and its place and gets the later timestamp.
 */
import { randomUUID } from 'node:crypto'
import PQueue from 'p-queue'
import { type FiredFaults, fireWebhook } from '../faults/fire.ts'
import { Draw, keyOf } from '../world/draw.ts'
import type { WorldEvent } from '../world/world.ts'
import { attempt, forge, type Office } from './attempt.ts'
import type { WebhookEvent } from './envelope.ts'
import { HeldBack } from './held-back.ts'
import type { Outcome } from './sender.ts'
import { type EventType, secretOf, type WebhookConfig } from './webhook-configs.ts'

export type Occurrence = Exclude<WorldEvent, { source: 'message' }>

const IN_FLIGHT = 8
/** Milliseconds of the service's time. */
const RETRIES = [5_000, 30_000, 120_000, 600_000, 3_600_000] as const

interface Delivery {
  readonly event: WebhookEvent
  readonly faults: FiredFaults
  /** Place among the events of this configuration. */
  readonly number: number
  /** The period of the configuration in which the event was made; it is not sent in a later one. */
  readonly period: number
  attempts: number
  retries: number
}

export class Channel {
  readonly #office: Office
  readonly #queue = new PQueue({ concurrency: IN_FLIGHT })
  readonly #unsent = new Map<string, Delivery>()
  readonly #retrying = new Map<Delivery, () => void>()
  readonly #heldBack: HeldBack
  #config: WebhookConfig
  #period = 0
  #events = 0
  /** Events since the configuration was last written, and whether a fault has switched it off since. */
  #recent = 0
  #off = false

  constructor(office: Office, config: WebhookConfig) {
    this.#office = office
    this.#config = config
    this.#heldBack = new HeldBack(office.clock, office.closing)
  }

  get retrying(): number {
    return this.#retrying.size
  }

  /** Takes the configuration as it is written now; switching it off drops what was still to be sent. */
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
    // The service tells of a packet response that it was updated, when it is set up too.
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
        subject: this.#office.subjects.hold(source, change.row),
        at: change.at,
      },
      ...{ faults, number: this.#events, period: this.#period, attempts: 0, retries: 0 },
    }
    if (mergeable) this.#unsent.set(change.id, delivery)
    void this.#deliver(delivery)
  }

  /** One try, and what faults make of it; ends one hold on the subject. */
  async #deliver(delivery: Delivery): Promise<void> {
    const { work, clock, closing, subjects } = this.#office
    const { faults } = delivery
    work.begin()
    if (delivery.attempts === 0) await this.#hold(delivery)
    const acknowledged = await this.#queue.add(() => this.#send(delivery))
    if (acknowledged && faults.has('webhook-rerender')) {
      await clock.sleep(Number(faults.get('webhook-rerender') ?? 500), closing)
      await this.#queue.add(() => this.#attempt(delivery, false))
    }
    subjects.release(delivery.event.subject)
    work.end()
  }

  async #hold({ faults, number }: Delivery): Promise<void> {
    const { clock, closing } = this.#office
    if (faults.has('webhook-delay')) await clock.sleep(Number(faults.get('webhook-delay') ?? 1000), closing)
    if (faults.has('webhook-reorder')) await this.#heldBack.hold(number)
  }

  async #send(delivery: Delivery): Promise<boolean> {
    // A handler that changes several records has made all its changes before the first event of them is written.
    await new Promise((resolve) => setImmediate(resolve))
    const { event, faults, number } = delivery
    const first = delivery.attempts === 0
    if (first && this.#unsent.get(event.subject.id) === delivery) this.#unsent.delete(event.subject.id)
    if (first && this.#lives(delivery) && faults.has('webhook-forge')) {
      const secret = secretOf(new Draw(keyOf(this.#config.id, 'forger'), number))
      await forge(this.#office, this.#config, event, secret)
    }
    const copies = first && faults.has('webhook-duplicate') ? 1 : 0
    const sent = [this.#attempt(delivery, true)]
    if (copies > 0) sent.push(this.#attempt(delivery, false))
    const [acknowledged = false] = await Promise.all(sent)
    if (first) this.#heldBack.release(number)
    return acknowledged
  }

  /** True when the receiver acknowledged. Only a `retried` attempt that fails is made again. */
  async #attempt(delivery: Delivery, retried: boolean): Promise<boolean> {
    if (!this.#lives(delivery)) return false
    delivery.attempts += 1
    const outcome = await attempt(this.#office, this.#config, delivery.event, delivery.attempts, (result) =>
      retried ? this.#retryAfter(delivery, result) : undefined,
    )
    return outcome.acknowledged
  }

  /** Sets the next retry, if there is one to come, and says how long it waits. */
  #retryAfter(delivery: Delivery, { acknowledged, final }: Outcome): number | undefined {
    const delay = RETRIES[delivery.retries]
    if (acknowledged || final || delay === undefined || this.#off || !this.#lives(delivery)) return undefined
    delivery.retries += 1
    const { source, last } = delivery.event.subject
    this.#office.subjects.hold(source, last)
    const forget = this.#office.world.timeline.after(delay, () => {
      this.#retrying.delete(delivery)
      void this.#deliver(delivery)
    })
    this.#retrying.set(delivery, forget)
    return delay
  }

  #lives({ period }: Delivery): boolean {
    return period === this.#period && !this.#office.closing.aborted
  }

  #dropRetries(): void {
    for (const [{ event }, forget] of this.#retrying) {
      forget()
      this.#office.subjects.release(event.subject)
    }
    this.#retrying.clear()
  }

  #draw(source: Occurrence['source']): FiredFaults {
    const { faults, seed } = this.#office.settings
    return fireWebhook(faults, `${seed}/${this.#config.id}`, this.#events, source)
  }

  /** True from the event on at which a fault switches the endpoint off; what is queued by then is still sent. */
  #isSwitchedOff(faults: FiredFaults): boolean {
    const after = Number(faults.get('webhook-off') ?? 0)
    this.#recent += 1
    if (!faults.has('webhook-off') || this.#recent <= after) return false
    this.#off = true
    this.#dropRetries()
    return true
  }
}
