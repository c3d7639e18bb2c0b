/** As many seeds as fit into two minutes; `npm run simulate` runs any number. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { type Lane, openLane } from './lane.ts'
import { simulate } from './simulate.ts'

const FIRST = 1_000
const SEEDS = 150

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

it('no law is violated in a hundred and fifty more seeds', { timeout: 1_200_000 }, async () => {
  const violated: string[] = []
  for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
    const { faults } = await simulate(seed, lane)
    for (const fault of faults) violated.push(`seed ${seed}: ${fault}`)
  }
  expect(violated, 'npm run simulate -- --seeds 1 --seed N prints each choice').toEqual([])
})
