/** Some seeds of `npm run simulate`, and those that once found something. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { type Lane, openLane } from './lane.ts'
import { REGRESSIONS } from './regressions.ts'
import { simulate } from './simulate.ts'

const SEEDS = 8
/** A seed with more than one team. */
const SEVERAL_TEAMS = 4
const TIMEOUT = 600_000

let database: TestDatabase
let lane: Lane

beforeAll(async () => {
  database = await createTestDatabase()
  lane = await openLane(database.url)
})

afterAll(async () => {
  await lane?.[Symbol.asyncDispose]()
  await database?.drop()
})

it('no law is violated, whatever the order of statements, answers, events and faults of several teams', {
  timeout: TIMEOUT,
}, async () => {
  let [choices, mixed] = [0, 0]
  for (let seed = 1; seed <= SEEDS; seed++) {
    const outcome = await simulate(seed, lane)
    expect(outcome.faults, `seed ${seed}\n${outcome.trace.join('\n')}`).toEqual([])
    choices += outcome.choices
    mixed += outcome.mixed
  }
  expect(choices).toBeGreaterThan(SEEDS * 50)
  // Batches of the drain with events of several teams.
  expect(mixed).toBeGreaterThan(SEEDS / 2)
})

it('a seed plays the same again', { timeout: TIMEOUT }, async () => {
  const once = await simulate(SEVERAL_TEAMS, lane)
  const again = await simulate(SEVERAL_TEAMS, lane)
  expect(again.trace).toEqual(once.trace)
  expect(once.plan.teams).toBeGreaterThan(1)
  expect(once.trace.length).toBeGreaterThan(50)
})

it.each(REGRESSIONS)('seed $seed, which found: $found', { timeout: TIMEOUT }, async ({ seed }) => {
  const { faults, trace } = await simulate(seed, lane)
  expect(faults, trace.join('\n')).toEqual([])
})
