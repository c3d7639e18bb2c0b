/** A replay of the inbox whose events cannot be loaded yet: how long it waits for them, what it says, and what drains them. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import type { DrainTeam } from '../../src/ingest/drain/drain.ts'
import { replayInbox } from '../../src/reconcile/replay-inbox.ts'
import { openScene, patientEvent, type Scene, silent } from '../ingest/drain/scene.ts'

/** How the drain was opened, and what was done with it. */
const opened: { teams: readonly DrainTeam[]; backoffMs?: readonly number[]; url: string }[] = []
const steps: string[] = []
let onWake = async () => {}

vi.mock('../../src/ingest/drain/drain.ts', () => ({
  openDrain(options: (typeof opened)[number]) {
    opened.push(options)
    return {
      wake() {
        steps.push('wake')
        void onWake()
      },
      [Symbol.asyncDispose]: async () => void steps.push('close'),
    }
  },
}))

let scene: Scene
beforeEach(async () => {
  scene = await openScene()
  opened.length = 0
  steps.length = 0
})
afterEach(() => scene[Symbol.asyncDispose]())

/** Each look at the clock is two seconds after the one before. */
function steppedClock() {
  let [now, looks] = [systemClock.now(), 0]
  const clock = {
    ...systemClock,
    now: () => {
      looks += 1
      now += 2_000_000
      return now
    },
  }
  return { clock, looks: () => looks }
}

async function replay(over: Partial<Parameters<typeof replayInbox>[0]> = {}) {
  const progress: string[] = []
  const { signal } = new AbortController()
  const result = await replayInbox({
    ...{ url: scene.url, since: '2020-01-01T00:00:00.000000Z' as never, streams: null, versions: new Map() },
    ...{ clock: systemClock, logger: silent, signal },
    onProgress: (events, of) => void progress.push(`${events}/${of}`),
    ...over,
  })
  return { result, progress }
}
const settle = (status: string, which: string) =>
  scene.rows(
    `update intake_raw.inbox set status = '${status}', due_at = null, settled_at = now()
     where status = 'pending' and record_id ${which}`,
  )
const putOff = () => scene.rows(`update intake_raw.inbox set due_at = '2100-01-01' where status = 'pending'`)

test('events that fail again and again are waited for ten seconds, and then are to be retried: a person has to look', async () => {
  await scene.store(['a', 'b', 'c', 'd'].map((id, at) => patientEvent(id, at)))
  await scene.rows(`update intake_raw.inbox set status = 'done', settled_at = now()`)
  onWake = async () => {
    await settle('done', `= 'a'`)
    await settle('dead', `= 'b'`)
    await putOff()
  }
  const { clock, looks } = steppedClock()
  const { result, progress } = await replay({ clock })
  const counts = { events: 4, done: 1, dead: 1, waiting: 2 }
  expect(result).toEqual({ runId: expect.any(String), status: 'needs_attention', ...counts })
  // The first look, and one after each two of its ten seconds.
  expect(looks()).toBe(1 + 5)
  expect([progress, steps]).toEqual([['4/4'], ['wake', 'close']])
  expect(await scene.rows('select status, error from intake_ops.runs')).toEqual([
    { status: 'needs_attention', error: '1 event(s) dead-lettered, 2 to be retried' },
  ])
})

test('a person has to look also where no event became a dead letter', async () => {
  await scene.store([patientEvent('a', 1)])
  await scene.rows(`update intake_raw.inbox set status = 'done', settled_at = now()`)
  onWake = async () => void (await putOff())
  const { result } = await replay({ clock: steppedClock().clock })
  expect(result).toMatchObject({ status: 'needs_attention', events: 1, done: 0, dead: 0, waiting: 1 })
})

test('events that are loaded soon after are not called waiting; nothing is said of a replay that did all', async () => {
  await scene.store(['a', 'b'].map((id, at) => patientEvent(id, at)))
  await scene.rows(`update intake_raw.inbox set status = 'done', settled_at = now()`)
  let retried: Promise<unknown> | null = null
  onWake = async () => {
    await settle('done', `= 'a'`)
    await putOff()
    // A moment later.
    setTimeout(() => {
      retried = settle('done', 'is not null')
    }, 150)
  }
  const { result } = await replay()
  await retried
  expect(result).toMatchObject({ status: 'succeeded', events: 2, done: 2, dead: 0, waiting: 0 })
  expect(await scene.rows('select status, error from intake_ops.runs')).toEqual([
    { status: 'succeeded', error: null },
  ])
})

test('they are drained with short pauses between the tries, for the teams of the warehouse, each with its own version', async () => {
  await scene.rows(`insert into intake.teams (name) values ('south'), ('removed')`)
  await scene.rows(`insert into intake_ops.removed_teams (team_id, name, data)
    select team_id, name, 'kept' from intake.teams where name = 'removed'`)
  const versions = new Map([
    ['default', 'v2.1'],
    ['unknown', 'v1'],
  ])
  await replay({ versions })
  const backoffMs = [500, 2_000]
  const teams = [
    { name: 'default', teamId: scene.teamId, apiVersion: 'v2.1' },
    { name: 'south', teamId: scene.teamId + 1 },
  ]
  expect(opened).toMatchObject([{ url: scene.url, backoffMs }])
  expect(opened[0]!.teams).toEqual(teams)
  // Without events nobody is woken.
  expect(steps).toEqual(['close'])
  await replay({ versions, team: 'south' })
  expect(opened[1]!.teams).toEqual(teams.slice(1))
  expect(await scene.rows('select options from intake_ops.runs order by run_id')).toEqual(
    [['default', 'south'], ['south']].map((names) => ({
      options: { inbox: true, since: '2020-01-01T00:00:00.000000Z', streams: null, teams: names },
    })),
  )
})
