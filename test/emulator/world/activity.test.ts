/** How often background activity looks at its clock, and when it ends. */
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { ServiceClock, Timeline } from '../../../src/emulator/clock.ts'
import { startActivity } from '../../../src/emulator/world/clinic-changes.ts'
import { World } from '../../../src/emulator/world/world.ts'

const SIZES = { patients: 5, forms: 2, packets: 1, documents: 1, responses: 6 }

it.each([
  [1_000, 10],
  [100, 10],
  [50, 20],
  [0.5, 2_000],
])(
  'at a rate of %s a second it looks every %d ms, and changes nothing once it was ended',
  async (rate, pause) => {
    let now = 0
    let wake = () => {}
    const pauses: number[] = []
    const signals: (AbortSignal | undefined)[] = []
    const clock = {
      now: () => now,
      sleep: (milliseconds: number, signal?: AbortSignal) => {
        pauses.push(milliseconds)
        signals.push(signal)
        return new Promise<void>((resolve) => {
          wake = resolve
        })
      },
    }
    const service = new ServiceClock(clock, 1)
    const nothing = { patients: [], forms: [], surveys: [] }
    const world = new World(['seed'], SIZES, nothing, service, new Timeline(service, clock))
    const ended = new AbortController()
    startActivity(world, rate, 'seed', clock, ended.signal)
    for (let round = 0; round < 3; round += 1) {
      now += pause * 1_000
      wake()
      await turn()
    }
    const own = signals.flatMap((signal, at) => (signal === ended.signal ? [pauses[at]] : []))
    expect(own).toEqual(Array(4).fill(pause))
    let changes = 0
    world.subscribe(() => (changes += 1))
    ended.abort()
    now += 60_000_000
    wake()
    await turn()
    expect(changes).toBe(0)
  },
)
