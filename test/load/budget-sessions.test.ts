/** The connection on which a process shares the budgets of its teams, and the statements that it sends on it. */
import { EventEmitter } from 'node:events'
import { setImmediate } from 'node:timers/promises'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { openBudgets, type TeamBudget } from '../../src/load/budgets.ts'

interface Asked {
  readonly text: string
  readonly values: readonly unknown[]
  readonly query_timeout: number
}

const net = vi.hoisted(() => ({
  asked: [] as object[],
  opened: [] as { client: EventEmitter; queries: unknown[]; isClosed: boolean }[],
  refuses: false,
  reply: (async () => ({ rows: [], rowCount: 1 })) as (query: never) => Promise<object>,
  pauses: [] as number[],
}))

vi.mock('../../src/warehouse/connect.ts', async (original) => ({
  ...(await original<object>()),
  async openSession(options: object) {
    net.asked.push(options)
    if (net.refuses) throw new Error('refused')
    const queries: unknown[] = []
    const query = async (asked: unknown) => {
      queries.push(asked)
      return typeof asked === 'string' ? { rows: [] } : await net.reply(asked as never)
    }
    const session = { client: Object.assign(new EventEmitter(), { query }), queries, isClosed: false }
    net.opened.push(session)
    const close = async () => {
      session.isClosed = true
    }
    return { client: session.client, close }
  },
}))

vi.mock('node:timers/promises', async (original) => ({
  ...(await original<object>()),
  setTimeout: async (milliseconds: number) => void net.pauses.push(milliseconds),
}))

const isRead = ({ text }: Asked) => text.startsWith('select')
const NOW = 1_700_000_000_000_000
const division = (more: object = {}) => ({ learned: null, pausedUntil: 0, ...more })
/** Postgres has this division, and stores each write that `isWritten`. */
function serves(stored: object | null = null, version: string | null = null, isWritten = () => true): void {
  net.reply = async (query) =>
    isRead(query) ? { rows: [{ division: stored, version, now: NOW }] } : { rowCount: isWritten() ? 1 : 0 }
}
const change = (budget: TeamBudget, more: object = {}, notify = false) =>
  budget.update((stored) => ({ division: division({ before: stored, ...more }), notify }))
const queries = () => net.opened.flatMap((session) => session.queries as Asked[])
const writes = () => queries().filter((query) => typeof query !== 'string' && !isRead(query))

beforeEach(() => {
  Object.assign(net, { asked: [], opened: [], refuses: false, pauses: [] })
  serves()
})

describe('a process', () => {
  test('opens one connection for all teams when it is needed, listens on it, and waits three seconds for any answer', async () => {
    const budgets = openBudgets('postgres://w')
    const teams = [7, 8].map((teamId) => budgets.ofTeam(teamId))
    expect(net.asked).toEqual([])
    await Promise.all(teams.map((team) => change(team)))
    expect(net.asked).toEqual([{ url: 'postgres://w', purpose: 'request budget', connectTimeoutMs: 3_000 }])
    const [listens, ...others] = queries()
    expect(listens).toBe('listen intake_budgets')
    expect(others.map((query) => query.query_timeout)).toEqual([3_000, 3_000, 3_000, 3_000])
    expect(others.filter(isRead).map(({ values }) => values)).toEqual([[7], [8]])
    await budgets[Symbol.asyncDispose]()
    expect(net.opened.map(({ isClosed }) => isClosed)).toEqual([true])
  })

  test('has one statement under way at a time, of whichever team', async () => {
    let [underWay, most] = [0, 0]
    net.reply = async (query) => {
      underWay += 1
      most = Math.max(most, underWay)
      await setImmediate()
      underWay -= 1
      return isRead(query) ? { rows: [{ division: null, version: null, now: NOW }] } : { rowCount: 1 }
    }
    const budgets = openBudgets('postgres://w')
    await Promise.all([1, 2, 3].map((teamId) => change(budgets.ofTeam(teamId))))
    expect(most).toBe(1)
  })

  test('that never used a budget closes nothing; one that could not connect tries anew, and closes without an error', async () => {
    await openBudgets('postgres://w')[Symbol.asyncDispose]()
    expect(net.asked).toEqual([])
    const budgets = openBudgets('postgres://w')
    const team = budgets.ofTeam(7)
    net.refuses = true
    await expect(change(team)).rejects.toThrow('refused')
    net.refuses = false
    await change(team)
    expect([net.asked.length, net.opened.length]).toEqual([2, 1])
    net.refuses = true
    const other = openBudgets('postgres://w')
    await expect(change(other.ofTeam(7))).rejects.toThrow('refused')
    await other[Symbol.asyncDispose]()
  })

  test('closes a connection on which a statement failed, once, and goes on with another', async () => {
    const budgets = openBudgets('postgres://w')
    const team = budgets.ofTeam(7)
    net.reply = async () => Promise.reject(new Error('Query read timeout'))
    await expect(change(team)).rejects.toThrow('Query read timeout')
    await expect.poll(() => net.opened[0]!.isClosed).toBe(true)
    serves()
    await change(team)
    await change(team)
    expect(net.opened.map(({ isClosed }) => isClosed)).toEqual([true, false])
    expect(writes()).toHaveLength(2)
  })

  test('asks nothing once it is closed', async () => {
    const budgets = openBudgets('postgres://w')
    const team = budgets.ofTeam(7)
    await budgets[Symbol.asyncDispose]()
    await expect(change(team)).rejects.toThrow('the budgets are closed')
    expect(net.asked).toEqual([])
  })
})

describe('a change', () => {
  test('is made from what is stored, of this format only, and names the version that it replaces', async () => {
    const team = openBudgets('postgres://w').ofTeam(7)
    const cases: readonly (readonly [object | null, string | null, unknown, number | string])[] = [
      [null, null, null, 0],
      [{ format: 1, own: 2 }, '41', { format: 1, own: 2 }, '41'],
      [{ format: 2, own: 2 }, '42', null, '42'],
      [{ own: 2 }, '43', null, '43'],
    ]
    for (const [stored, version, before, replaced] of cases) {
      serves(stored, version)
      await change(team)
      const [teamId, json, named] = writes().at(-1)!.values
      expect([teamId, JSON.parse(json as string), named]).toEqual([
        7,
        { learned: null, pausedUntil: 0, before, format: 1 },
        replaced,
      ])
    }
  })

  test('names limit, window and the end of a pause in seconds, where there are any', async () => {
    const team = openBudgets('postgres://w').ofTeam(7)
    const columns = async (more: object) => {
      await change(team, more)
      return writes().at(-1)!.values.slice(3, 6)
    }
    expect(await columns({})).toEqual([null, null, null])
    expect(await columns({ learned: { count: 20, window: 1_500_000 } })).toEqual([20, 1.5, null])
    // The pause is over, or ends now, or goes on.
    expect(await columns({ pausedUntil: NOW - 1 })).toEqual([null, null, null])
    expect(await columns({ pausedUntil: NOW })).toEqual([null, null, null])
    expect(await columns({ pausedUntil: NOW + 500_000 })).toEqual([null, null, 1_700_000_000.5])
  })

  test('wakes others if it is of note, and names team and sender', async () => {
    const team = openBudgets('postgres://w').ofTeam(7)
    for (const notify of [true, false]) {
      await change(team, {}, notify)
      expect(writes().at(-1)!.values.slice(6)).toEqual([notify, `7 ${team.name}`])
    }
  })

  test('that another overtakes is made again from what is stored then, after a moment, up to twenty times', async () => {
    const team = openBudgets('postgres://w').ofTeam(7)
    let tries = 0
    serves({ format: 1 }, '1', () => {
      tries += 1
      return tries === 5
    })
    await change(team)
    expect([tries, net.pauses.length]).toEqual([5, 4])
    tries = 100
    await expect(change(team)).rejects.toThrow('the budget changes all the time')
    expect(tries).toBe(120)
    // No process is always the slower one.
    expect(net.pauses.every((pause) => Number.isInteger(pause) && pause >= 0 && pause <= 10)).toBe(true)
    expect(new Set(net.pauses).size).toBeGreaterThan(1)
  })
})

test('a notification wakes the listeners of its team, except its sender and those that are closed', async () => {
  const budgets = openBudgets('postgres://w')
  const names = ['one', 'other', 'closed', 'stranger'] as const
  const woken: string[] = []
  const teams = names.map((name) => {
    const team = budgets.ofTeam(name === 'stranger' ? 77 : 7)
    team.listen(() => woken.push(name))
    return team
  })
  await teams[2]!.close()
  await change(teams[0]!)
  const wokenBy = (channel: string, payload?: string) => {
    net.opened[0]!.client.emit('notification', { channel, payload })
    return woken.splice(0)
  }
  expect(wokenBy('intake_budgets', '7 another process')).toEqual(['one', 'other'])
  expect(wokenBy('intake_budgets', `7 ${teams[0]!.name}`)).toEqual(['other'])
  expect(wokenBy('intake_budgets', '77 x')).toEqual(['stranger'])
  expect(wokenBy('intake_budgets', '777 x')).toEqual([])
  expect(wokenBy('intake_budgets')).toEqual([])
  expect(wokenBy('intake_slices', '7 x')).toEqual([])
})
