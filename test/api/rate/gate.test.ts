import pino from 'pino'
import { describe, expect, test } from 'vitest'
import { openGate, type Pass, TOO_LONG } from '../../../src/api/rate/gate.ts'
import { systemClock } from '../../../src/core/clock.ts'

const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('a body under way keeps its place', () => {
  function crowd(concurrency: number) {
    const gate = openGate({ concurrency, clock: systemClock, logger: pino({ level: 'silent' }) })
    const passes: Pass[] = []
    const enter = async () => {
      passes.push(await gate.enter([], false))
    }
    return { passes, enter }
  }

  test('until it is given up, and frees one place only, however often that is said', async () => {
    const { passes, enter } = crowd(2)
    await enter()
    await enter()
    const [first, second] = passes.map((pass) => pass.streaming())
    for (let more = 0; more < 4; more++) void enter()
    await settled()
    expect(passes).toHaveLength(2)
    first!()
    first!()
    await settled()
    expect(passes).toHaveLength(3)
    passes[2]!.accepted()
    await settled()
    expect(passes).toHaveLength(4)
    second!()
    await settled()
    expect(passes).toHaveLength(5)
  })

  test('and one whose pass was given back before keeps none', async () => {
    const { passes, enter } = crowd(1)
    await enter()
    passes[0]!.lost()
    passes[0]!.streaming()()
    await enter()
    void enter()
    await settled()
    expect(passes).toHaveLength(2)
  })
})

test('all who wait are turned away when the service asks for hours, and whoever comes meanwhile', async () => {
  const gate = openGate({ concurrency: 2, clock: systemClock, logger: pino({ level: 'silent' }) })
  const [first, second] = [await gate.enter([], false), await gate.enter([], false)]
  const waiting = [false, true, false].map((again) =>
    gate.enter([], again).catch((reason: unknown) => reason),
  )
  first.throttled(7_200_000)
  second.accepted()
  expect(await Promise.all(waiting)).toEqual([TOO_LONG, TOO_LONG, TOO_LONG])
  await expect(gate.enter([], false)).rejects.toBe(TOO_LONG)
})
