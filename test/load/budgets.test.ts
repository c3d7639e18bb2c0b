/** The request budget of a team in Postgres: several sessions change it, and none loses what another wrote. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Budgets, openBudgets, type TeamBudget } from '../../src/load/budgets.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { ask } from '../support/sessions.ts'

let warehouse: TestDatabase
const opened: Budgets[] = []

beforeAll(async () => {
  warehouse = await createTestDatabase()
})
afterAll(async () => {
  for (const budgets of opened) await budgets[Symbol.asyncDispose]()
  await warehouse?.drop()
})

/** As a process of its own. */
function budgetOf(teamId: number): TeamBudget {
  const budgets = openBudgets(warehouse.url)
  opened.push(budgets)
  return budgets.ofTeam(teamId)
}

interface Notes {
  readonly learned: { readonly count: number; readonly window: number } | null
  readonly pausedUntil: number
  readonly writes: number
}

const NOTHING: Notes = { learned: null, pausedUntil: 0, writes: 0 }

/** Adds a write, and returns how many there were, and the time of the store. */
async function write(budget: TeamBudget, change: Partial<Notes> = {}, notify = false) {
  let seen = { writes: 0, now: 0 }
  await budget.update((stored, now) => {
    const before = (stored as Notes | null) ?? NOTHING
    seen = { writes: before.writes, now }
    return { division: { ...before, ...change, writes: before.writes + 1 }, notify }
  })
  return seen
}

test('sessions that change it at the same time lose no change, and teams have one each', async () => {
  const sessions = [1, 1, 1, 1, 2].map(budgetOf)
  await Promise.all(
    sessions.map(async (session) => {
      for (let each = 0; each < 25; each++) await write(session)
    }),
  )
  expect(await write(sessions[0]!)).toMatchObject({ writes: 100 })
  expect(await write(sessions[4]!)).toMatchObject({ writes: 25 })
})

test('a change that is of note wakes the others of the team, and nobody else', async () => {
  const [own, other, stranger] = [3, 3, 33].map(budgetOf) as [TeamBudget, TeamBudget, TeamBudget]
  const woken: string[] = []
  for (const [name, budget] of Object.entries({ own, other, stranger })) {
    await write(budget)
    budget.listen(() => woken.push(name))
  }
  await write(own)
  await write(own, {}, true)
  await expect.poll(() => woken).toEqual(['other'])
  await write(stranger, {}, true)
  await write(other, {}, true)
  await expect.poll(() => woken).toEqual(['other', 'own'])
})

test('its time is that of Postgres, and a person reads limit, window and pause in columns', async () => {
  const budget = budgetOf(5)
  const { now } = await write(budget)
  const [clock] = await ask<{ micros: number }>(
    warehouse.url,
    'select (extract(epoch from now()) * 1000000)::float8 as micros',
  )
  expect(Math.abs(clock!.micros - now)).toBeLessThan(60_000_000)
  const read = async () => {
    const [row] = await ask<Record<string, unknown>>(
      warehouse.url,
      `select "limit", extract(epoch from "window")::int as "window", extract(epoch from learned_at)::float8 as learned_at,
         round(extract(epoch from paused_until - to_timestamp(${now / 1e6})))::int as pause
       from intake_ops.budgets where team_id = 5`,
    )
    return row!
  }
  expect(await read()).toEqual({ limit: null, window: null, learned_at: null, pause: null })
  await write(budget, { learned: { count: 20, window: 60_000_000 }, pausedUntil: now + 300_000_000 })
  const learned = await read()
  expect(learned).toMatchObject({ limit: 20, window: 60, pause: 300 })
  for (const pausedUntil of [0, now - 1_000_000]) {
    await write(budget, { pausedUntil })
    expect(await read()).toEqual({ ...learned, pause: null })
  }
  await write(budget, { learned: { count: 21, window: 60_000_000 } })
  const { learned_at: later } = await read()
  expect(Number(later)).toBeGreaterThan(Number(learned.learned_at))
  await write(budget, { learned: { count: 21, window: 120_000_000 } })
  const wider = await read()
  expect([wider.limit, wider.window]).toEqual([21, 120])
  expect(Number(wider.learned_at)).toBeGreaterThan(Number(later))
})

test('what another version of the program stored in another format is not read, and replaced', async () => {
  const budget = budgetOf(7)
  await write(budget, { learned: { count: 20, window: 60_000_000 } })
  const learnedAt = () =>
    ask(
      warehouse.url,
      'select learned_at is not null as dated, version::int from intake_ops.budgets where team_id = 7',
    )
  expect(await learnedAt()).toEqual([{ dated: true, version: 1 }])
  expect(await write(budget)).toMatchObject({ writes: 1 })
  await ask(
    warehouse.url,
    `update intake_ops.budgets set division = division || '{"format": 2}' where team_id = 7`,
  )
  expect(await write(budget)).toMatchObject({ writes: 0 })
  expect(await write(budget)).toMatchObject({ writes: 1 })
  expect(await learnedAt()).toEqual([{ dated: true, version: 4 }])
})

test('a change that others overtake again and again is given up, and changes nothing', async () => {
  const budget = budgetOf(9)
  await write(budget)
  await ask(
    warehouse.url,
    `create function overtaken() returns trigger language plpgsql as 'begin return null; end';
     create trigger overtaken before update on intake_ops.budgets for each row when (old.team_id = 9)
       execute function overtaken()`,
  )
  let times = 0
  const change = () => {
    times += 1
    return { division: { ...NOTHING, writes: 7 }, notify: false }
  }
  await expect(budget.update(change)).rejects.toThrow('changes all the time')
  await ask(warehouse.url, 'drop function overtaken cascade')
  expect([times, (await write(budget)).writes]).toEqual([20, 1])
})

test('one that is closed is woken no more, and the others of its process are', async () => {
  const budgets = openBudgets(warehouse.url)
  opened.push(budgets)
  const [closed, other] = [budgets.ofTeam(8), budgets.ofTeam(8)]
  const woken: string[] = []
  for (const [name, budget] of Object.entries({ closed, other })) {
    await write(budget)
    budget.listen(() => woken.push(name))
  }
  await closed.close()
  await write(budgetOf(8), {}, true)
  await expect.poll(() => woken).toEqual(['other'])
})

test('a connection that broke is replaced, and still wakes', async () => {
  const [broken, other] = [6, 6].map(budgetOf) as [TeamBudget, TeamBudget]
  let woken = 0
  broken.listen(() => {
    woken += 1
  })
  await write(broken)
  await ask(
    warehouse.url,
    `select pg_terminate_backend(pid) from pg_stat_activity
     where application_name = 'intake-sync request budget' and datname = current_database()`,
  )
  await expect.poll(() => write(broken).catch(() => null)).not.toBeNull()
  await expect.poll(() => write(other).catch(() => null)).not.toBeNull()
  await write(other, {}, true)
  await expect.poll(() => woken).toBe(1)
})

test('a connection that does not answer in time is replaced, and closed once it answers', async () => {
  const budget = budgetOf(40)
  const pids = async () => {
    const rows = await ask<{ pid: number }>(
      warehouse.url,
      `select pid from pg_stat_activity
       where application_name = 'intake-sync request budget' and datname = current_database() order by 1`,
    )
    return rows.map(({ pid }) => pid)
  }
  const others = await pids()
  await write(budget)
  const [own] = (await pids()).filter((pid) => !others.includes(pid))
  await using holder = await openSession({ url: warehouse.url, purpose: 'test' })
  await holder.client.query('begin; lock table intake_ops.budgets in access exclusive mode')
  await expect(write(budget)).rejects.toThrow('Query read timeout')
  await holder.client.query('rollback')
  await expect.poll(() => write(budget).catch(() => null)).toMatchObject({ writes: 1 })
  await expect.poll(pids).toHaveLength(others.length + 1)
  expect(await pids()).not.toContain(own)
})

test('a connection that broke while many teams use it is replaced by one, which is closed with the budgets', async () => {
  const connections = async () => {
    const rows = await ask<{ pid: number }>(
      warehouse.url,
      `select pid from pg_stat_activity
       where application_name = 'intake-sync request budget' and datname = current_database()`,
    )
    return rows.map(({ pid }) => pid)
  }
  const before = await connections()
  const budgets = openBudgets(warehouse.url)
  opened.push(budgets)
  const teams = Array.from({ length: 10 }, (_, at) => budgets.ofTeam(20 + at))
  const own = async () => (await connections()).filter((pid) => !before.includes(pid))
  for (const again of [false, true]) {
    const writes = teams.map(async (team) => {
      for (;;) {
        try {
          return await write(team)
        } catch {
          // Tried again at once.
        }
      }
    })
    if (!again) {
      await Promise.all(writes)
      const [pid] = await own()
      await ask(warehouse.url, 'select pg_terminate_backend($1)', [pid])
      await expect.poll(own).toEqual([])
      continue
    }
    for (const { writes: earlier } of await Promise.all(writes)) expect(earlier).toBe(1)
  }
  expect(await own()).toHaveLength(1)
  await budgets[Symbol.asyncDispose]()
  await expect.poll(own).toEqual([])
  // A limiter that is still in use opens none again.
  await expect(write(teams[0]!)).rejects.toThrow('the budgets are closed')
  expect(await own()).toEqual([])
})
