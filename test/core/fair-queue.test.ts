/** The fair queue, with work that ends when the test says so. */
import { expect, test } from 'vitest'
import { type FairLimits, type FairQueue, openFairQueue } from '../../src/core/fair-queue.ts'

/** Adds pieces of work named `team.number`; `begun` lists started ones, finished included, in the order of their start. */
function workshop(limits: FairLimits) {
  const queue: FairQueue = openFairQueue(limits)
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const add = (teamId: number, count: number) => {
    for (let at = 0; at < count; at += 1) {
      const name = `${teamId}.${at}`
      void queue.add(teamId, async () => {
        begun.push(name)
        await new Promise<void>((resolve) => ends.set(name, resolve))
      })
    }
  }
  const settled = () => new Promise((resolve) => setImmediate(resolve))
  const end = async (name: string) => {
    ends.get(name)!()
    await settled()
  }
  return { queue, begun, add, end, settled }
}

test('teams take turns, although the first added all of its work first', async () => {
  const { begun, add, settled } = workshop({ perTeam: 4, total: 6 })
  for (const teamId of [1, 2, 3]) add(teamId, 4)
  await settled()
  expect(begun).toEqual(['1.0', '2.0', '3.0', '1.1', '2.1', '3.1'])
})

test('a free slot goes to the team with the fewest running, in turns among equals', async () => {
  const { begun, add, end, settled } = workshop({ perTeam: 4, total: 6 })
  for (const teamId of [1, 2, 3]) add(teamId, 4)
  await settled()
  await end('2.0')
  await end('2.1')
  await end('1.0')
  await end('3.0')
  await end('3.1')
  expect(begun.slice(6)).toEqual(['2.2', '2.3', '1.2', '3.2', '3.3'])
  // The third team has no waiting work: its slot goes to the first, the only one that has.
  await end('3.2')
  expect(begun.slice(11)).toEqual(['1.3'])
})

test('with a single slot, every team has its turn before any has a second one', async () => {
  const { begun, add, end, settled } = workshop({ perTeam: 4, total: 1 })
  for (const teamId of [1, 2, 3]) add(teamId, 2)
  await settled()
  for (const name of ['1.0', '2.0', '3.0', '1.1', '2.1']) await end(name)
  expect(begun).toEqual(['1.0', '2.0', '3.0', '1.1', '2.1', '3.1'])
})

test('no team runs more than its own limit, however many slots are free', async () => {
  const { begun, add, end, settled } = workshop({ perTeam: 2, total: 100 })
  add(1, 4)
  await settled()
  expect(begun).toEqual(['1.0', '1.1'])
  await end('1.1')
  expect(begun).toEqual(['1.0', '1.1', '1.2'])
})

test('the limit of a team holds for work that is added while some of its work still runs', async () => {
  const { begun, add, end, settled } = workshop({ perTeam: 2, total: 100 })
  add(1, 2)
  await settled()
  await end('1.0')
  add(1, 2)
  await settled()
  expect(begun).toEqual(['1.0', '1.1', '1.0'])
})

test('a queue is not idle while the last work of a team still runs', async () => {
  const { queue, add, end, settled } = workshop({ perTeam: 2, total: 100 })
  add(1, 2)
  await settled()
  await end('1.0')
  let isIdle = false
  const idle = queue.onIdle().then(() => {
    isIdle = true
  })
  await settled()
  expect(isIdle).toBe(false)
  await end('1.1')
  await idle
})

test('nothing waits of a team that never had any work', async () => {
  await openFairQueue({ perTeam: 1, total: 1 }).onNoneWaiting(9)
})

test('teams whose work never ends leave a slot to the last one, for all of its work', async () => {
  const { begun, add, end, settled } = workshop({ perTeam: 4, total: 7 })
  for (const teamId of [1, 2, 3, 4]) add(teamId, 8)
  await settled()
  expect(begun).toEqual(['1.0', '2.0', '3.0', '4.0', '1.1', '2.1', '3.1'])
  for (let at = 0; at < 8; at += 1) await end(`4.${at}`)
  expect(begun.filter((name) => name.startsWith('4.'))).toHaveLength(8)
  expect(begun).toHaveLength(7 + 7 + 1)
})

test('waiting for a team does not wait for another, and idle means that all work has ended', async () => {
  const { queue, add, end, settled } = workshop({ perTeam: 1, total: 2 })
  add(1, 2)
  add(2, 1)
  const said: string[] = []
  void queue.onNoneWaiting(2).then(() => said.push('none of 2 waits'))
  void queue.onNoneWaiting(1).then(() => said.push('none of 1 waits'))
  void queue.onIdle().then(() => said.push('idle'))
  await settled()
  expect(said).toEqual(['none of 2 waits'])
  await end('1.0')
  expect(said).toEqual(['none of 2 waits', 'none of 1 waits'])
  await end('1.1')
  expect(said).toHaveLength(2)
  await end('2.0')
  expect(said.at(-1)).toBe('idle')
})

test('failed work frees its slot, and its error goes to the caller', async () => {
  const { queue, begun, add, settled } = workshop({ perTeam: 1, total: 1 })
  const failing = queue.add(1, () => Promise.reject(new Error('of this work')))
  add(1, 1)
  await expect(failing).rejects.toThrow('of this work')
  await settled()
  expect(begun).toEqual(['1.0'])
})
