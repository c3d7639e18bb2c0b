/** A few seeds of `npm run simulate`: `simulate.long.test.ts` plays more. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { type Lane, openLane } from './lane.ts'
import { simulate } from './simulate.ts'

/** Each finds one of the deliberate bugs of batches with several teams (test/mutations), and the first of all seeds. */
const SEEDS = [2, 3, 7, 11]
/** A short seed with workers and more than one team. A worker is paused there until another has its slice. */
const WORKERS = 165
/** A short one with a reader of the change feed, as every fourth has. */
const FOLLOWED = 16
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
  for (const seed of SEEDS) {
    const outcome = await simulate(seed, lane)
    expect(outcome.faults, `seed ${seed}\n${outcome.trace.join('\n')}`).toEqual([])
    choices += outcome.choices
    mixed += outcome.mixed
  }
  expect(choices).toBeGreaterThan(SEEDS.length * 50)
  // Batches of the drain with events of several teams.
  expect(mixed).toBeGreaterThanOrEqual(SEEDS.length)
})

it('a reader of the change feed that is ended again and again has an equal copy, during loads, drains, a verification and an erasure', {
  timeout: TIMEOUT,
}, async () => {
  const { faults, followed, trace } = await simulate(FOLLOWED, lane)
  expect(faults, trace.join('\n')).toEqual([])
  expect(followed.starts).toBeGreaterThan(3)
  expect(followed.rounds).toBeGreaterThan(5)
  for (const process of ['backfill', 'serve', 'verify', 'erase'])
    expect(
      trace.some((line) => line.startsWith(`${process} `)),
      process,
    ).toBe(true)
})

it('planned runs end, each slice settled once, while workers are paused and taken over; and a seed plays the same again', {
  timeout: TIMEOUT,
}, async () => {
  const once = await simulate(WORKERS, lane)
  expect(once.faults, once.trace.join('\n')).toEqual([])
  const again = await simulate(WORKERS, lane)
  expect(again.trace).toEqual(once.trace)
  expect(once.plan.teams).toBeGreaterThan(1)
  expect(once.plan.workers).toBeGreaterThan(1)
  for (const line of [/^worker \d+ (?:is stopped|is cut off)/, /the server ends a session/, /planned a run$/])
    expect(
      once.trace.some((each) => line.test(each.trim())),
      String(line),
    ).toBe(true)
})

it('Postgres collects no statistics of a table by itself, because an erasure does what they say', async () => {
  const collected = await lane.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class
     where relkind = 'r' and relnamespace::regnamespace::text like 'intake%'
       and not coalesce('autovacuum_enabled=off' = any (reloptions), false)`,
    [],
  )
  expect(collected).toEqual([])
})
