/** Gauges are asked for at most every few seconds, keep their last values, and show no team that was removed. */
import { expect, test } from 'vitest'
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { openGauges } from '../../../src/operate/health/gauges.ts'
import { openMetrics } from '../../../src/operate/health/registry.ts'
import type { BoundedQueries } from '../../../src/warehouse/bounded-queries.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'

/** Gauges of a warehouse that answers as the test says. At `url`, the figures of webhooks are asked for; by default in vain. */
function openScene(url = 'postgres://nobody@127.0.0.1:1/none') {
  let now = 0
  let looks = 0
  let teams = ['north', 'south']
  let isAway = false
  let answered: Promise<void> = Promise.resolve()
  const bounded = {
    async run() {
      looks += 1
      await answered
      if (isAway) throw new Error('the warehouse is away')
      const inbox = teams.map((team) => ({ team, pending: 1, oldest_pending_seconds: null, refetches: 2 }))
      const trouble = teams.map((team) => {
        const runs = { last_run_at: new Date(5_000), last_run_ok: true, last_success_at: new Date(4_000) }
        return { team, stream: 'forms', dead_letters: 3, ...runs }
      })
      const raised = teams.map((team) => ({ team, cause: 'drift', count: 1 }))
      const slices = teams.map((team) => ({ team, pending: 4, claimed: 5, claimable: 6 }))
      return [inbox, trouble, raised, [{ team: 'south' }], slices]
    },
  } as unknown as BoundedQueries
  const clock: Clock = { ...systemClock, now: () => now }
  const { registry } = openMetrics()
  const gauges = openGauges({
    ...{ url, bounded, registry, clock, inboxDays: 30 },
    inFlight: () => ({ events: 6, bytes: 7 }),
  })
  return {
    pass(seconds: number) {
      now += seconds * 1_000_000
    },
    remove(team: string) {
      teams = teams.filter((each) => each !== team)
    },
    goAway(yes: boolean) {
      isAway = yes
    },
    looks: () => looks,
    /** From now on the warehouse answers once the returned function is called. */
    answer() {
      let go = () => {}
      answered = new Promise((resolve) => {
        go = resolve
      })
      return () => go()
    },
    async shown() {
      await gauges.refresh()
      const lines = (await registry.metrics()).split('\n')
      return (name: string) => lines.filter((line) => line.startsWith(`intake_${name}`))
    },
  }
}

test('the warehouse is asked again after five seconds, and at once after a failure', async () => {
  const { shown, pass, looks, goAway } = openScene()
  const upAfter = async (seconds: number) => {
    pass(seconds)
    return [(await shown())('warehouse_up')[0], looks()]
  }
  expect(await upAfter(0)).toEqual(['intake_warehouse_up 1', 1])
  expect(await upAfter(4.9)).toEqual(['intake_warehouse_up 1', 1])
  expect(await upAfter(0.1)).toEqual(['intake_warehouse_up 1', 2])
  goAway(true)
  expect(await upAfter(5)).toEqual(['intake_warehouse_up 0', 3])
  expect((await shown())('inbox_pending_events')).toHaveLength(2)
  goAway(false)
  expect(await upAfter(0)).toEqual(['intake_warehouse_up 1', 5])
})

test('each team has its figures, and none once it was removed', async () => {
  const { shown, pass, remove } = openScene()
  const linesOf = (team: string) => [
    `intake_inbox_pending_events{team="${team}"} 1`,
    `intake_inbox_oldest_seconds{team="${team}"} 0`,
    `intake_refetches_pending{team="${team}"} 2`,
    `intake_dead_letters_waiting{team="${team}",stream="forms"} 3`,
    `intake_last_run_timestamp_seconds{team="${team}",stream="forms"} 5`,
    `intake_last_run_ok{team="${team}",stream="forms"} 1`,
    `intake_last_success_timestamp_seconds{team="${team}",stream="forms"} 4`,
    `intake_questions_waiting{team="${team}"} ${team === 'south' ? 1 : 0}`,
    `intake_alerts_raised{team="${team}",cause="drift"} 1`,
    `intake_slices_pending{team="${team}"} 4`,
    `intake_slices_claimed{team="${team}"} 5`,
    `intake_slices_claimable{team="${team}"} 6`,
  ]
  const all = (await shown())('').filter((line) => line.includes('{team='))
  expect(all.toSorted()).toEqual([...linesOf('north'), ...linesOf('south')].toSorted())
  expect((await shown())('ingest_in_flight')).toEqual([
    'intake_ingest_in_flight_events 6',
    'intake_ingest_in_flight_bytes 7',
  ])
  remove('south')
  pass(5)
  expect((await shown())('').filter((line) => line.includes('south'))).toEqual([])
})

test('nothing is said of the webhooks of a team that was removed', async () => {
  await using warehouse = await openWarehouse()
  await query(warehouse.url, `insert into intake.teams (name) values ('north'), ('south')`)
  const { shown, pass, remove, goAway } = openScene(warehouse.url)
  const silent = async () => (await shown())('webhook_silent')
  const north = 'intake_webhook_silent{team="north"} 0'
  await expect.poll(silent).toEqual([north, 'intake_webhook_silent{team="south"} 0'])
  remove('south')
  pass(5)
  expect(await silent()).toEqual([north])
  // These figures were read a moment ago, but the others were not: the warehouse does not answer in time.
  goAway(true)
  pass(5)
  expect((await shown())('warehouse_up')).toEqual(['intake_warehouse_up 0'])
})

test('requests at the same time share one look at the warehouse, also where it takes long', async () => {
  const { shown, looks, pass, answer } = openScene()
  const go = answer()
  const both = [shown(), shown()]
  await expect.poll(looks).toBe(1)
  pass(60)
  const third = shown()
  go()
  for (const each of await Promise.all([...both, third]))
    expect(each('warehouse_up')).toEqual(['intake_warehouse_up 1'])
  expect(looks()).toBe(1)
})
