import { expect, test } from 'vitest'
import { makeMixture } from './mixture.ts'
import { MIXED_STREAMS } from './records.ts'

test('a mixture has some of each kind, in every team and stream', () => {
  const { kinds, deliveries, teams, records, lost } = makeMixture({ seed: 1, events: 4_000 })
  const few = Object.entries(kinds).filter(([, count]) => count < 50)
  expect(few).toEqual([])
  expect(deliveries.length).toBeGreaterThanOrEqual(4_000)
  const ids = teams.flatMap((team) =>
    MIXED_STREAMS.map((stream) => [...records.get(team)![stream].keys()].join()),
  )
  expect(new Set(ids).size).toBe(1)
  const gone = teams.flatMap((team) =>
    MIXED_STREAMS.map((stream) => [...records.get(team)![stream].values()].filter((state) => !state).length),
  )
  expect(Math.min(...gone, ...lost.values())).toBeGreaterThan(0)
})

test('the same seed makes the same events, another seed others', () => {
  const made = (seed: number) =>
    makeMixture({ seed, events: 300, endsAt: Date.UTC(2026, 0, 1) }).deliveries.map(({ body }) =>
      String(body),
    )
  expect(made(1)).toEqual(made(1))
  expect(made(1)).not.toEqual(made(2))
})
