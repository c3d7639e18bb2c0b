/**
 * Determines the seeded responses, messages and packet responses by arithmetic.
 *
 * Invariant: the same plans and number of responses give the same places; a place is found in constant time and without
 * memory. Responses are in rounds of one length, each a clinic's typical mixture; the last round is cut, so that the
 * number of responses is exactly the requested one.
 */
import type { MessageStatus } from '../records.ts'

/** The result of a visit. `none`: its message was not sent. */
export type VisitOutcome = 'submitted' | 'archived' | 'open' | 'progress' | 'set-up' | 'none'

export interface VisitPlan {
  readonly target: 'form' | 'packet' | 'document'
  /** Index of a packet, or of a fixed form; other forms change from round to round. */
  readonly fixed?: number
  /** How many responses it has. */
  readonly responses: number
  readonly message: MessageStatus | null
  readonly method?: 'email' | 'sms'
  readonly outcome: VisitOutcome
  /** Uses the client of the round's first visit again. */
  readonly sameClient?: true
  /** Amount of answers: all, as few as possible, or mixed by default. */
  readonly answers?: 'full' | 'sparse'
  /** The last member is skipped by the packet's logic. */
  readonly skipsLast?: true
}

export interface Place {
  readonly plan: VisitPlan
  readonly round: number
  /** Position of the visit in its round. */
  readonly at: number
  /** Which of the visit's responses, from 0. */
  readonly member: number
}

/** The plans of one round, with the counts before each of them. */
class Round {
  readonly plans: readonly VisitPlan[]
  readonly responsesBefore: number[] = []
  readonly messagesBefore: number[] = []
  readonly packetsBefore: number[] = []
  readonly ofResponse: { at: number; member: number }[] = []
  readonly ofMessage: number[] = []
  readonly ofPacket: number[] = []

  constructor(plans: readonly VisitPlan[]) {
    this.plans = plans
    for (const [index, plan] of plans.entries()) {
      this.responsesBefore.push(this.ofResponse.length)
      this.messagesBefore.push(this.ofMessage.length)
      this.packetsBefore.push(this.ofPacket.length)
      for (let member = 0; member < plan.responses; member += 1) this.ofResponse.push({ at: index, member })
      if (plan.message !== null) this.ofMessage.push(index)
      if (plan.target === 'packet' && plan.responses > 0) this.ofPacket.push(index)
    }
  }
}

export class Visits {
  readonly responses: number
  readonly messages: number
  readonly packetResponses: number
  readonly #whole: Round
  readonly #rest: Round
  readonly #rounds: number

  constructor(plans: readonly VisitPlan[], responses: number) {
    this.#whole = new Round(plans)
    const length = this.#whole.ofResponse.length
    this.#rounds = length === 0 ? 0 : Math.floor(responses / length)
    this.#rest = new Round(
      cut(plans, length === 0 ? 0 : responses - this.#rounds * length, this.#rounds === 0),
    )
    const count = (of: (round: Round) => readonly unknown[]) =>
      this.#rounds * of(this.#whole).length + of(this.#rest).length
    this.responses = count((round) => round.ofResponse)
    this.messages = count((round) => round.ofMessage)
    this.packetResponses = count((round) => round.ofPacket)
  }

  /** A unique number of the visit, used for its draws. */
  numberOf({ round, at }: Place): number {
    return round * this.#whole.plans.length + at
  }

  ofResponse(index: number): Place {
    const { round, offset, of } = this.#split(index, (one) => one.ofResponse.length)
    return this.#place(of, round, of.ofResponse[offset]!.at, of.ofResponse[offset]!.member)
  }

  ofMessage(index: number): Place {
    const { round, offset, of } = this.#split(index, (one) => one.ofMessage.length)
    return this.#place(of, round, of.ofMessage[offset]!, 0)
  }

  ofPacketResponse(index: number): Place {
    const { round, offset, of } = this.#split(index, (one) => one.ofPacket.length)
    return this.#place(of, round, of.ofPacket[offset]!, 0)
  }

  firstResponse({ round, at }: Place): number {
    return round * this.#whole.ofResponse.length + this.#of(round).responsesBefore[at]!
  }

  message({ plan, round, at }: Place): number | null {
    if (plan.message === null) return null
    return round * this.#whole.ofMessage.length + this.#of(round).messagesBefore[at]!
  }

  packetResponse({ plan, round, at }: Place): number | null {
    if (plan.target !== 'packet' || plan.responses === 0) return null
    return round * this.#whole.ofPacket.length + this.#of(round).packetsBefore[at]!
  }

  #of(round: number): Round {
    return round < this.#rounds ? this.#whole : this.#rest
  }

  #place(of: Round, round: number, at: number, member: number): Place {
    return { plan: of.plans[at]!, round, at, member }
  }

  #split(index: number, length: (round: Round) => number): { round: number; offset: number; of: Round } {
    const each = length(this.#whole)
    const round = each === 0 ? 0 : Math.min(this.#rounds, Math.floor(index / each))
    return { round, offset: index - round * each, of: this.#of(round) }
  }
}

/** The plans that fit into `left` responses, in order, filled up with single forms. */
function cut(plans: readonly VisitPlan[], left: number, only: boolean): VisitPlan[] {
  const kept: VisitPlan[] = []
  let room = left
  for (const plan of plans) {
    const fits = plan.responses === 0 ? only || left > 0 : plan.responses <= room
    // Keep a plan that does not fit, but empty, so that visits have the same numbers as in a whole round.
    kept.push(fits ? plan : { ...plan, responses: 0, message: null, outcome: 'none' })
    if (fits) room -= plan.responses
  }
  const filler = plans.findLast(
    ({ target, responses, outcome }) => target !== 'packet' && responses === 1 && outcome === 'submitted',
  )
  for (; room > 0 && filler !== undefined; room -= 1) kept.push({ ...filler, message: null })
  return kept
}

const single = (
  outcome: VisitOutcome,
  message: MessageStatus | null,
  more: Partial<VisitPlan> = {},
): VisitPlan => ({ target: 'form', responses: 1, outcome, message, ...more })

const unsent = (
  message: MessageStatus,
  method: 'email' | 'sms',
  more: Partial<VisitPlan> = {},
): VisitPlan => ({
  target: 'form',
  method,
  message,
  responses: 0,
  outcome: 'none',
  ...more,
})

/** What a packet may be chosen by. */
export interface PacketSize {
  readonly index: number
  readonly members: number
}

/**
 * A round for a world with these records. The first visits use every feature of the service, so that a small world
 * contains all of them. `fullForm` is the form to answer in full.
 */
export function planRound(has: {
  readonly forms: number
  readonly documents: number
  readonly packets: readonly PacketSize[]
  readonly fullForm: number
}): VisitPlan[] {
  const several =
    has.packets.find(({ members }) => members >= 2) ?? has.packets.find(({ members }) => members > 0)
  const largest = has.packets.toSorted((a, b) => b.members - a.members).find(({ members }) => members > 0)
  const smallest = has.packets.findLast(({ members }) => members > 0)
  const packet = (
    of: PacketSize | undefined,
    outcome: VisitOutcome,
    more: Partial<VisitPlan> = {},
  ): VisitPlan[] =>
    of === undefined
      ? []
      : [{ target: 'packet', fixed: of.index, responses: of.members, message: 'sent', outcome, ...more }]
  const skipsLast = several !== undefined && several.members >= 2 ? { skipsLast: true as const } : {}
  const plans: VisitPlan[] = [
    unsent('pending', 'email'),
    unsent('scheduled', 'sms', several === undefined ? {} : { target: 'packet', fixed: several.index }),
    unsent('failed', 'email'),
    unsent('cancelled', 'email', has.documents > 0 ? { target: 'document' } : {}),
    ...packet(several, 'submitted', { answers: 'full', method: 'email', ...skipsLast }),
    ...(several === undefined ? [single('submitted', 'sent', { answers: 'full', fixed: has.fullForm })] : []),
    single('archived', null, { sameClient: true, answers: 'sparse', fixed: has.fullForm }),
    single('open', 'sent', { method: 'sms' }),
    { target: 'document', responses: 1, outcome: 'submitted', message: 'sent', method: 'email' },
    ...packet(largest, 'progress', { method: 'sms' }),
    ...packet(smallest, 'set-up'),
    single('submitted', 'sent', { method: 'email' }),
    single('submitted', 'sent', { method: 'sms' }),
    single('submitted', null),
    single('submitted', 'sent'),
    ...packet(several, 'submitted', skipsLast),
    single('submitted', 'sent'),
    single('archived', 'sent'),
    single('submitted', 'sent'),
    ...packet(smallest, 'submitted'),
    single('submitted', null),
    single('submitted', 'sent'),
    single('open', 'sent'),
  ]
  const available = { form: has.forms > 0, document: has.documents > 0, packet: several !== undefined }
  return plans.filter(({ target }) => available[target])
}
