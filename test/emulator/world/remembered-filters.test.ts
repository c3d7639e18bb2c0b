/** Seeded responses never change: those that match a filter are looked for once, for the filters that were asked for last. */
import { expect, it, vi } from 'vitest'
import { ServiceClock, Timeline } from '../../../src/emulator/clock.ts'
import { findIndexes } from '../../../src/emulator/world/find-responses.ts'
import type * as OpenSeed from '../../../src/emulator/world/seeded/open-seed.ts'
import { World } from '../../../src/emulator/world/world.ts'
import { stillClock } from '../still-clock.ts'

let looks = 0
vi.mock('../../../src/emulator/world/seeded/open-seed.ts', async (original) => {
  const own = await original<typeof OpenSeed>()
  return {
    ...own,
    seededHead: (...words: Parameters<typeof own.seededHead>) => {
      looks += 1
      return own.seededHead(...words)
    },
  }
})

const SIZES = { patients: 5, forms: 2, packets: 1, documents: 1, responses: 30 }
const worldOf = (team: string) => {
  const clock = new ServiceClock(stillClock, 1)
  const nothing = { patients: [], forms: [], surveys: [] }
  return new World(['seed', team], SIZES, nothing, clock, new Timeline(clock, stillClock))
}

it('of each team the last sixty-four filters are remembered, the oldest is forgotten first', async () => {
  const [world, other] = [worldOf('one'), worldOf('other')]
  const all = world.seed.sizes.responses
  const searched = async (submittedFrom: number, of = world) => {
    looks = 0
    await findIndexes(of, { submittedFrom })
    return looks
  }
  expect([await searched(0), await searched(0), await searched(0, other)]).toEqual([all, 0, all])
  for (let from = 1; from < 64; from += 1) expect(await searched(from)).toBe(all)
  expect(await searched(0)).toBe(0)
  expect(await searched(64)).toBe(all)
  expect([await searched(1), await searched(63), await searched(0, other)]).toEqual([0, 0, 0])
  expect(await searched(0)).toBe(all)
})

it('what was remembered is found with what changed since', async () => {
  const world = worldOf('third')
  const { form } = world.responses.slice(0, 30).find((one) => one.form !== null)!
  const expected = () =>
    Array.from({ length: world.responses.end }, (_, at) => at).filter(
      (at) => world.responses.at(at)?.form === form,
    )
  const before = await findIndexes(world, { form: form! })
  expect(before).toEqual(expected())
  world.responses.remove(world.responses.at(before[0]!)!.id)
  world.responses.update(world.responses.at(before.at(-1)!)!.id, (old) => ({ ...old, form: null }))
  world.responses.create((id) => ({ ...world.responses.at(before[1]!)!, id }))
  looks = 0
  expect(await findIndexes(world, { form: form! })).toEqual(expected())
  expect([looks, expected().length]).toEqual([0, before.length - 1])
})
