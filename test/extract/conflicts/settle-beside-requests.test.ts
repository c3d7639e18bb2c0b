/** A record is requested again while an answer about it is being settled, step by step in two sessions. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  type DueRow,
  lockRows,
  postpone,
  settleRows,
  takeDue,
} from '../../../src/extract/conflicts/due-rows.ts'
import { settleAnswers } from '../../../src/extract/conflicts/settle-answers.ts'
import { requestRefetches } from '../../../src/load/refetches.ts'
import { patients } from '../../../src/streams/patients.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { noonPlus, openScene, type Scene } from '../../ingest/drain/scene.ts'

let scene: Scene
let refetcher: Session
let drain: Session

beforeEach(async () => {
  scene = await openScene()
  refetcher = await openSession({ url: scene.url, purpose: 'refetcher' })
  drain = await openSession({ url: scene.url, purpose: 'drain' })
})

afterEach(async () => {
  await Promise.all([refetcher.close(), drain.close()])
  await scene[Symbol.asyncDispose]()
})

function askFor(session: Session, ...ids: readonly string[]) {
  const rest = {
    teamId: scene.teamId,
    stream: 'patients',
    reason: 'partial',
    origin: 'event:e',
    since: null,
  } as const
  return requestRefetches(
    session.db,
    ids.map((id) => ({ ...rest, id })),
  )
}

const take = () => takeDue(refetcher.db, scene.teamId, ['patients'], 50)

/** The effect of a 404 after the last attempt: the row is settled, and no table changes. */
const settle = (rows: readonly DueRow[]) =>
  settleAnswers(
    refetcher,
    patients,
    rows.map((row) => ({
      row: { ...row, attempts: 9 },
      answer: { kind: 'gone', observedAt: noonPlus(0) } as const,
    })),
    noonPlus(1),
    async () => {},
  )

const rows = () =>
  scene.rows('select id, asked::int, attempts, due_at <= now() as due from intake_ops.refetches order by id')

/** Resolves when the session waits for another one. */
async function waits({ client }: Session): Promise<void> {
  const pid = (client as unknown as { readonly processID: number }).processID
  await expect
    .poll(async () => (await scene.rows('select cardinality(pg_blocking_pids($1)) as by', [pid]))[0]?.by, {
      interval: 5,
    })
    .toBeGreaterThan(0)
}

test('a request that commits while the answer is being settled is due at once', async () => {
  await askFor(drain, 'p1', 'p2')
  const taken = await take()
  expect(taken.map(({ id }) => id).sort()).toEqual(['p1', 'p2'])
  await drain.client.query('begin')
  await askFor(drain, 'p1')
  const settled = settle(taken)
  await waits(refetcher)
  await drain.client.query('commit')
  await settled
  expect(await rows()).toEqual([{ id: 'p1', asked: 2, attempts: 0, due: true }])
})

test('a request that committed before the answer is settled is due at once', async () => {
  await askFor(drain, 'p1')
  const taken = await take()
  await askFor(drain, 'p1')
  await settle(taken)
  expect(await rows()).toEqual([{ id: 'p1', asked: 2, attempts: 0, due: true }])
})

test('a request that begins while the answer is being settled is a new one', async () => {
  await askFor(drain, 'p1')
  const taken = await take()
  await refetcher.client.query('begin')
  await lockRows(refetcher.db, taken)
  await settleRows(refetcher.db, taken)
  const asked = askFor(drain, 'p1')
  await waits(drain)
  await refetcher.client.query('commit')
  await asked
  expect(await rows()).toEqual([{ id: 'p1', asked: 1, attempts: 0, due: true }])
})

test('requests and answers about the same records do not deadlock, in any order of the records', async () => {
  await askFor(drain, 'p1', 'p2', 'p3')
  const taken = [...(await take())].sort((a, b) => (a.id < b.id ? 1 : -1))
  await drain.client.query('begin')
  await askFor(drain, 'p1')
  const settled = settle(taken)
  await waits(refetcher)
  await askFor(drain, 'p2', 'p3')
  await drain.client.query('commit')
  await settled
  expect((await rows()).map(({ id, due }) => [id, due])).toEqual([
    ['p1', true],
    ['p2', true],
    ['p3', true],
  ])
})

test('requests and records that are put off do not deadlock, in any order of the records', async () => {
  await askFor(drain, 'p1', 'p2', 'p3')
  const taken = [...(await take())].sort((a, b) => (a.id < b.id ? 1 : -1))
  await drain.client.query('begin')
  await askFor(drain, 'p1')
  const postponed = postpone(refetcher.db, taken, () => 0, 'nothing')
  await waits(refetcher)
  await askFor(drain, 'p2', 'p3')
  await drain.client.query('commit')
  await postponed
  expect((await rows()).map(({ id, asked, due }) => [id, asked, due])).toEqual([
    ['p1', 2, true],
    ['p2', 2, true],
    ['p3', 2, true],
  ])
})
