/** The statements that take slices away from workers and end runs that nobody executes, in their order. */
import { expect, test } from 'vitest'
import { stopRun } from '../../src/load/cancel-run.ts'
import type { ClaimedSlice } from '../../src/load/claims.ts'
import { closeAbandoned, isLost, release, releaseLost } from '../../src/load/lost-slices.ts'
import { scripted } from '../support/scripted.ts'

const STEPS: readonly (readonly [name: string, pattern: RegExp])[] = [
  ['end sessions', /^select pg_terminate_backend/],
  ['take away', /^with lost as/],
  ['wake', /^select pg_notify/],
  ['lock run', /^select from intake_ops.runs where run_id = \$1 for update/],
  ['cancel pending', /^update intake_ops.slices set state = 'canceled'.* where slice_id in/],
  ['any stream open?', /^select from intake_ops.slices where .*team_id is not null/],
  ['any slice open?', /^select from intake_ops.slices where run_id = \$1 and state in/],
  ['end of killed run', /^update intake_ops.runs set status = \$1, error = \$2/],
  ['closing slice', /^select slice_id from intake_ops.slices where run_id = \$1 and team_id is null/],
  ['settle pending', /^with pending as/],
  ['end run', /^update intake_ops.runs set status = \$1, finished_at/],
  ['end closing slice', /^update intake_ops.slices set state = 'canceled'.* where slice_id = \$1/],
]

/** Each step with its values, and the rows that it returns. */
function asking(rows: Readonly<Record<string, readonly object[]>> = {}) {
  const asked: (string | readonly unknown[])[] = []
  const db = scripted((statement, values) => {
    const name = STEPS.find(([, pattern]) => pattern.test(statement))?.[0] ?? statement
    asked.push(values.length === 0 ? name : [name, ...values])
    return rows[name] ?? []
  })
  const namesOf = () => asked.map((step) => (typeof step === 'string' ? step : step[0]))
  return { db, asked, namesOf }
}
const WOKEN = ['wake', 'intake_slices']
/** The locks of workers. */
const WORKERS = expect.any(Number)

test('silent workers lose their sessions first and then their slices; whoever may work is woken only if one is free', async () => {
  const { db, asked } = asking()
  expect(await releaseLost(db)).toBe(0)
  expect(asked).toEqual([
    ['end sessions', true, 14],
    ['take away', true, 14, WORKERS, 1],
  ])
  const two = asking({ 'take away': [{}, {}] })
  expect(await releaseLost(two.db)).toBe(2)
  expect(two.asked.slice(2)).toEqual([WOKEN])
})

test('where silence is not judged, no session is ended, and only workers that are gone lose their slices', async () => {
  const { db, asked } = asking({ 'take away': [{}] })
  expect(await releaseLost(db, false)).toBe(1)
  expect(asked).toEqual([['take away', false, 14, WORKERS, 1], WOKEN])
})

test('a slice is given back by its number, epoch and worker, as a takeover only where it failed', async () => {
  const claimed = { sliceId: '5', epoch: '3', owner: 'me' } as ClaimedSlice
  const { db, asked } = asking({ 'take away': [{}] })
  await release(db, claimed)
  await release(db, claimed, 1)
  expect(asked).toEqual([['take away', '5', '3', 'me', 0], WOKEN, ['take away', '5', '3', 'me', 1], WOKEN])
})

test('a slice is lost once its row has a later epoch', async () => {
  expect(await isLost(asking().db, { sliceId: '5', epoch: '3' })).toBe(false)
  const found: unknown[] = []
  const db = scripted((statement, values) => {
    found.push(statement, values)
    return [{ epoch: '4' }]
  })
  expect(await isLost(db, { sliceId: '5', epoch: '3' })).toBe(true)
  expect(found).toEqual([
    'select epoch from intake_ops.slices where slice_id = $1 and epoch > $2',
    ['5', '3'],
  ])
})

const CLOSING = ['begin', ['lock run', '7'], ['cancel pending', '7'], ['any stream open?', '7']]
const GONE = ['take away', false, 14, WORKERS, 1]

test('a run that no process executes is locked, loses what is pending, and ends if nobody has a slice of it', async () => {
  const { db, asked } = asking()
  expect(await closeAbandoned(db, '7')).toBe(true)
  const error = 'the process ended before the run was complete'
  expect(asked).toEqual([
    GONE,
    ...CLOSING,
    ['any slice open?', '7'],
    ['end of killed run', 'interrupted', error, false, '7'],
    'commit',
  ])
  // Whoever knows why it ended knows when.
  for (const status of ['failed', 'interrupted']) {
    const known = asking()
    await closeAbandoned(known.db, '7', { status, error: 'no disk' })
    expect(known.asked.at(-2)).toEqual(['end of killed run', status, 'no disk', true, '7'])
  }
})

test('a run stays open while workers have a stream of it; whoever has only its end left closes it', async () => {
  const busy = asking({ 'any stream open?': [{}] })
  expect(await closeAbandoned(busy.db, '7')).toBe(false)
  expect(busy.asked).toEqual([GONE, ...CLOSING, 'commit'])
  const closing = asking({ 'any slice open?': [{}] })
  expect(await closeAbandoned(closing.db, '7')).toBe(true)
  expect(closing.asked).toEqual([GONE, ...CLOSING, ['any slice open?', '7'], 'commit'])
})

const NOTE = 'stopped by a signal; the next run continues'
const OTHERS = ['begin', 'take away', 'settle pending', 'any stream open?', 'commit']
const LOOK = ['end sessions', 'take away', 'begin', 'closing slice']

test('a run that its process leaves to workers settles what the process does not execute, and nothing else', async () => {
  const { db, asked, namesOf } = asking()
  await stopRun(db, '7', 'me')
  expect(namesOf()).toEqual(OTHERS)
  for (const step of [1, 2, 3]) expect(asked[step]).toContain('me')
  expect(asked[2]).toContain(NOTE)
})

test('a run that nobody executes any more settles what is pending and ends, with its end', async () => {
  const { db, asked, namesOf } = asking({ 'closing slice': [{ slice_id: '50' }] })
  await stopRun(db, '7', null)
  expect(namesOf()).toEqual([
    ...OTHERS,
    ...LOOK,
    ...['settle pending', 'any stream open?', 'end run', 'end closing slice', 'commit'],
  ])
  expect(asked[9]).toContain(NOTE)
  expect(asked.slice(11, 13)).toEqual([
    ['end run', 'interrupted', '7', null, '7'],
    ['end closing slice', '50'],
  ])
})

test('a run whose end another process has, or whose streams workers still load, is left to them', async () => {
  const taken = asking()
  await stopRun(taken.db, '7', null)
  expect(taken.namesOf()).toEqual([...OTHERS, ...LOOK, 'commit'])
  const busy = asking({ 'closing slice': [{ slice_id: '50' }], 'any stream open?': [{}] })
  await stopRun(busy.db, '7', null)
  expect(busy.namesOf()).toEqual([...OTHERS, ...LOOK, 'settle pending', 'any stream open?', 'commit'])
})
