/** The visits of a seeded world: as many responses as asked for, each in one place, whatever packets there are. */
import { describe, expect, it } from 'vitest'
import { type PacketSize, planRound, Visits } from '../../../../src/emulator/world/seeded/visits.ts'

const sizes = (...members: number[]): PacketSize[] =>
  members.map((count, index) => ({ index, members: count }))
const round = (packets: readonly PacketSize[], documents = 2) =>
  planRound({ forms: 3, documents, packets, fullForm: 7 })

const ROUNDS = [
  ['no packets', sizes()],
  ['empty packets', sizes(0, 0)],
  ['small packets', sizes(1, 1)],
  ['packets of many sizes', sizes(0, 1, 3, 5, 2)],
  ['large packets', sizes(9, 11)],
] as const

describe.each(ROUNDS)('with %s', (_, packets) => {
  const plans = round(packets)
  const length = plans.reduce((sum, { responses }) => sum + responses, 0)

  it('there are as many responses as asked for, even if the last round is cut short', () => {
    const counts = Array.from({ length: 2 * length + 3 }, (_, count) => new Visits(plans, count).responses)
    expect(counts).toEqual(counts.map((_, count) => count))
  })

  it('each response, message and packet response belongs to one visit, and can be found from it', () => {
    for (const count of [1, 2, 7, length - 1, length, length + 1, 2 * length + 5]) {
      const visits = new Visits(plans, count)
      const places = Array.from({ length: visits.responses }, (_, index) => visits.ofResponse(index))
      const keys = new Set(places.map((place) => `${visits.numberOf(place)}/${place.member}`))
      expect(keys.size).toBe(count)
      for (const [index, place] of places.entries()) {
        const { plan, member } = place
        expect([visits.firstResponse(place) + member, member < plan.responses]).toEqual([index, true])
        const [message, packet] = [visits.message(place), visits.packetResponse(place)]
        const own = { ...place, member: 0 }
        expect(message === null).toBe(plan.message === null)
        if (message !== null) expect(visits.ofMessage(message)).toEqual(own)
        expect(packet === null).toBe(plan.target !== 'packet')
        if (packet !== null) expect(visits.ofPacketResponse(packet)).toEqual(own)
      }
      const [messages, packetResponses] = [visits.messages, visits.packetResponses].map(
        (size, which) =>
          new Set(
            Array.from({ length: size }, (_, index) =>
              visits.numberOf(which === 0 ? visits.ofMessage(index) : visits.ofPacketResponse(index)),
            ),
          ).size,
      )
      expect([messages, packetResponses]).toEqual([visits.messages, visits.packetResponses])
    }
  })
})

describe('the packets of a round', () => {
  const chosen = (packets: readonly PacketSize[]) =>
    round(packets)
      .filter(({ target }) => target === 'packet')
      .map(({ fixed, responses, outcome, skipsLast }) =>
        [outcome, fixed, responses, skipsLast === true ? 'skips' : ''].join(' ').trim(),
      )

  it('are the first of several members, the largest, and the last', () => {
    expect(chosen(sizes(0, 1, 2, 5, 3, 0))).toEqual([
      ...['none 2 0', 'submitted 2 2 skips', 'progress 3 5', 'set-up 4 3'],
      ...['submitted 2 2 skips', 'submitted 4 3'],
    ])
  })

  it('skip no member where they have one', () => {
    expect(chosen(sizes(1, 0))).toEqual([
      ...['none 0 0', 'submitted 0 1', 'progress 0 1', 'set-up 0 1', 'submitted 0 1', 'submitted 0 1'],
    ])
  })

  it('are none if all packets are empty; then a single form is answered in full', () => {
    expect(chosen(sizes(0, 0))).toEqual([])
    const full = round(sizes(0)).filter(({ answers }) => answers === 'full')
    expect(full).toEqual([
      { target: 'form', responses: 1, outcome: 'submitted', message: 'sent', answers: 'full', fixed: 7 },
    ])
    expect(round(sizes(2)).filter(({ answers }) => answers === 'full')).toMatchObject([{ target: 'packet' }])
  })
})

it('plans contain only kinds of records that the world has', () => {
  const targets = (forms: number, documents: number, ...members: number[]) =>
    [
      ...new Set(
        planRound({ forms, documents, packets: sizes(...members), fullForm: 0 }).map(({ target }) => target),
      ),
    ]
      .toSorted()
      .join(' ')
  expect([targets(1, 1, 1), targets(0, 1, 1), targets(1, 0, 1), targets(1, 1), targets(0, 0)]).toEqual([
    ...['document form packet', 'document packet', 'form packet', 'document form', ''],
  ])
})
