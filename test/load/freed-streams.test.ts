/** A stream that another run needs, of a run that workers continue: it is free once its worker has ended its batch. */
import { beforeEach, expect, test, vi } from 'vitest'
import { freeAbandoned } from '../../src/load/lost-slices.ts'
import { scriptedSession } from './scripted.ts'

const time = vi.hoisted(() => ({ micros: 0, slept: [] as number[] }))

vi.mock('../../src/core/clock.ts', async (original) => {
  const { systemClock } = await original<{ systemClock: object }>()
  const sleep = async (milliseconds: number) => {
    time.slept.push(milliseconds)
    time.micros += milliseconds * 1_000
  }
  return { systemClock: { ...systemClock, now: () => time.micros, sleep } }
})

beforeEach(() => Object.assign(time, { micros: 0, slept: [] }))

/** A stream of a run that workers continue; their batch ends with the nth look. */
function stream(endsWith: number, isAbandoned = true) {
  return scriptedSession({
    lost: [/where slice.slice_id = lost.slice_id/, () => []],
    abandoned: [/^select from intake_ops.runs where run_id = /, () => (isAbandoned ? [{}] : [])],
    'goes on': [/^select where exists/, () => [{}]],
    settles: [/^with pending as/, () => []],
    open: [/^select from intake_ops.slices where/, (nth) => (nth < endsWith ? [{}] : [])],
  })
}
const place = { runId: '9', teamId: 7, stream: 'forms' } as const

test('a stream whose worker ends its batch soon is free then', async () => {
  const { asked, session } = stream(3)
  expect(await freeAbandoned(session, place, true)).toBe(true)
  const look = ['begin', 'lost', 'settles', 'open', 'commit']
  expect(asked).toEqual(['lost', 'abandoned', 'goes on', ...look, ...look, ...look])
  expect(time.slept).toEqual([100, 100])
})

test('a stream whose worker does not end its batch within ten seconds is not free', async () => {
  const { asked, session } = stream(Number.POSITIVE_INFINITY)
  expect(await freeAbandoned(session, place, true)).toBe(false)
  expect([asked.filter((each) => each === 'open').length, time.micros]).toEqual([100, 10_000_000])
})

test('a stream whose run is not abandoned is not taken away from anybody', async () => {
  const { asked, session } = stream(1, false)
  expect(await freeAbandoned(session, place, true)).toBe(false)
  expect(asked).toEqual(['lost', 'abandoned'])
})
