/** Rows of the inbox: which are taken within a bound of bytes, and that only pending ones are settled. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  type InboxRow,
  isAnyDue,
  isFull,
  postpone,
  remove,
  settle,
  TAKE_SHARES,
  takeDue,
  takeThese,
} from '../../../src/ingest/drain/inbox-rows.ts'
import { noonPlus, openScene, patientEvent, type Scene } from './scene.ts'

let scene: Scene
beforeAll(async () => {
  scene = await openScene()
})
afterAll(() => scene[Symbol.asyncDispose]())
beforeEach(() => scene.rows('truncate intake_raw.inbox'))

async function stored(count: number): Promise<readonly InboxRow[]> {
  const ids = Array.from({ length: count }, (_, at) => `p${at}`)
  await scene.store(ids.map((id) => patientEvent(id, 1)))
  return await takeDue(scene.session, [scene.teamId], count)
}
const state = () =>
  scene.rows(
    'select record_id as id, status, attempts, due_at is not null as later from intake_raw.inbox order by seq',
  )
const ids = (rows: readonly InboxRow[]) => rows.map(({ recordId }) => recordId)

describe('of three pending events of a hundred bytes', () => {
  it.each([
    [0, []],
    [100, ['p0']],
    [101, ['p0', 'p1']],
    [200, ['p0', 'p1']],
    [201, ['p0', 'p1', 'p2']],
  ])('within %i bytes are taken those that begin before the bound', async (bytes, taken) => {
    await stored(3)
    await scene.rows(`update intake_raw.inbox set body = convert_to(repeat('x', 100), 'UTF8')`)
    const { rows } = await scene.session.client.query<InboxRow>(TAKE_SHARES, [
      [scene.teamId],
      ['0'],
      9,
      bytes,
    ])
    expect(ids(rows)).toEqual(taken)
  })
})

it.each([
  [2, 3, 1, false],
  [3, 3, 1, true],
  [4, 3, 1, true],
  [2, 9, 3_999_999, false],
  [2, 9, 4_000_000, true],
  [1, 9, 8_000_000, true],
])('a batch of %i rows, of %i at most, with %i bytes each is full: %s', (count, most, bytes, full) => {
  const body = { length: bytes } as Buffer
  expect(
    isFull(
      Array.from({ length: count }, () => ({ body }) as InboxRow),
      most,
    ),
  ).toBe(full)
})

it('events that were settled meanwhile are not taken, settled or postponed again', async () => {
  const rows = await stored(3)
  await settle(scene.session, [rows[0]!], 'done')
  await settle(scene.session, [rows[1]!], 'dead')
  expect(
    await scene.rows(
      'select record_id as id from intake_raw.inbox where settled_at is not null order by seq',
    ),
  ).toEqual([{ id: 'p0' }, { id: 'p1' }])
  const seqs = rows.map(({ seq }) => seq)
  expect(ids(await takeThese(scene.session, seqs))).toEqual(['p2'])
  for (const row of rows.slice(0, 2)) await postpone(scene.session, row, 60_000)
  expect(await settle(scene.session, rows.slice(0, 2), 'dead')).toEqual([])
  expect(await state()).toEqual([
    { id: 'p0', status: 'done', attempts: 0, later: false },
    { id: 'p1', status: 'dead', attempts: 0, later: false },
    { id: 'p2', status: 'pending', attempts: 0, later: false },
  ])
  expect(await isAnyDue(scene.session, [scene.teamId])).toBe(true)
  await postpone(scene.session, rows[2]!, 60_000)
  expect((await state())[2]).toEqual({ id: 'p2', status: 'pending', attempts: 1, later: true })
  expect(await isAnyDue(scene.session, [scene.teamId, scene.teamId + 1])).toBe(false)
  expect(await takeDue(scene.session, [scene.teamId], 9)).toEqual([])
  // Settled at last, an event is due no more.
  expect(await settle(scene.session, [rows[2]!], 'done')).toMatchObject([{ seq: rows[2]!.seq }])
  expect((await state())[2]).toMatchObject({ status: 'done', later: false })
})

it('events of each team are taken from its own place on, and shares that are not used go to the other', async () => {
  const other = scene.teamId + 1
  const mine = await stored(4)
  await scene.store(
    ['q0', 'q1', 'q2'].map((id) => patientEvent(id, 1)),
    { teamId: other },
  )
  const theirs = await takeDue(scene.session, [other], 9)
  const from = (own: string, its: string) => (teamId: number) => (teamId === other ? its : own)
  const taken = async (most: number, own: string, its: string) =>
    ids(await takeDue(scene.session, [scene.teamId, other], most, from(own, its)))
  expect(await taken(9, mine[1]!.seq, '0')).toEqual(['p2', 'p3', 'q0', 'q1', 'q2'])
  expect(await taken(9, '0', theirs[0]!.seq)).toEqual(['p0', 'p1', 'p2', 'p3', 'q1', 'q2'])
  expect(await taken(4, mine[2]!.seq, '0')).toEqual(['p3', 'q0', 'q1', 'q2'])
  expect(await taken(9, mine[3]!.seq, theirs[2]!.seq)).toEqual([])
})

it('events of several days are settled, or removed, together', async () => {
  const DAY = 86_400
  for (const day of [0, 1, 2])
    await scene.store([patientEvent(`p${day}`, 1), patientEvent(`q${day}`, 1)], {
      receivedAt: noonPlus(day * DAY),
    })
  const rows = await takeDue(scene.session, [scene.teamId], 9)
  expect([...new Set(rows.map(({ receivedOn }) => receivedOn))]).toHaveLength(3)
  const [mine, theirs] = [rows.filter((_, at) => at % 2 === 0), rows.filter((_, at) => at % 2 === 1)]
  const settled = await settle(scene.session, mine, 'done')
  expect(settled.map(({ seq }) => seq)).toEqual(mine.map(({ seq }) => seq))
  await remove(scene.session, theirs)
  expect((await state()).map(({ id, status }) => [id, status])).toEqual(
    ['p0', 'p1', 'p2'].map((id) => [id, 'done']),
  )
})

it('the bytes of all rounds of a batch count together', async () => {
  const other = scene.teamId + 1
  const megabytes = async (teamId: number, prefix: string, sizes: readonly number[]) => {
    await scene.store(
      sizes.map((_, at) => patientEvent(`${prefix}${at}`, 1)),
      { teamId },
    )
    for (const [at, size] of sizes.entries())
      await scene.rows(
        `update intake_raw.inbox set body = convert_to(repeat('x', $1), 'UTF8') where record_id = $2`,
        [size * 1_000_000, `${prefix}${at}`],
      )
  }
  await megabytes(scene.teamId, 'p', [0, 0, 0, 0, 3, 3, 3])
  await megabytes(other, 'q', [6])
  // Four of each at first; then one more, which begins before the eight millionth byte.
  expect(ids(await takeDue(scene.session, [scene.teamId, other], 8))).toEqual([
    ...['p0', 'p1', 'p2', 'p3', 'p4', 'q0'],
  ])
})

it('events of a team that was removed are neither taken nor waited for', async () => {
  const other = scene.teamId + 1
  await stored(1)
  await scene.store([patientEvent('theirs', 1)], { teamId: other })
  await scene.rows(
    `insert into intake_ops.removed_teams (team_id, name, data) values ($1, 'default', 'kept')`,
    [scene.teamId],
  )
  try {
    expect(await isAnyDue(scene.session, [scene.teamId])).toBe(false)
    expect(await takeDue(scene.session, [scene.teamId], 9)).toEqual([])
    expect(ids(await takeDue(scene.session, [scene.teamId, other], 9))).toEqual(['theirs'])
  } finally {
    await scene.rows('delete from intake_ops.removed_teams')
  }
})
