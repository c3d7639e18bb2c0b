/** Counts of problems and drift: added up by place, for each team, whatever the length of a path. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { recordFindings } from '../../src/load/dead-letters.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { countFinding, noFindings } from '../../src/normalize/lines.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { rowsOf } from './loading.ts'

let database: TestDatabase
let session: Session
let [team, other] = [0, 0]

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'findings' })
  team = await teamIdOf(session.db, 'default')
  other = await teamIdOf(session.db, 'other')
})
afterAll(async () => {
  await session.close()
  await database.drop()
})
beforeEach(() => session.client.query('truncate intake_ops.problems, intake_ops.drift'))

type Found = readonly [kind: 'problem' | 'drift', teamId: number, path: string, what: string]

async function note(...all: readonly Found[]) {
  const findings = noFindings()
  for (const [kind, teamId, path, what] of all)
    countFinding(kind === 'problem' ? findings.problemsAt : findings.driftAt, teamId, path, what)
  await recordFindings(session.db, 'patients', findings)
}
const noted = async () => ({
  problems: await rowsOf(
    session,
    'select team_id as team, stream, path, reason, count::int from intake_ops.problems order by 1, 3, 4',
  ),
  drift: await rowsOf(
    session,
    'select team_id as team, stream, path, type, count::int from intake_ops.drift order by 1, 3, 4',
  ),
})

test('nothing found writes nothing', async () => {
  await note()
  expect(await noted()).toEqual({ problems: [], drift: [] })
})

test('findings of one place are counted together, also those of later batches; others apart', async () => {
  await note(
    ['problem', team, 'a', 'x'],
    ['problem', team, 'a', 'x'],
    ['problem', team, 'a', 'y'],
    ['drift', team, 'a', 'x'],
    ['drift', team, 'a', 'y'],
    ['drift', other, 'a', 'x'],
  )
  await note(
    ['problem', team, 'a', 'x'],
    ['problem', other, 'a', 'x'],
    ['drift', team, 'a', 'x'],
    ['drift', other, 'b', 'x'],
  )
  const place = { stream: 'patients' }
  expect(await noted()).toEqual({
    problems: [
      { ...place, team, path: 'a', reason: 'x', count: 3 },
      { ...place, team, path: 'a', reason: 'y', count: 1 },
      { ...place, team: other, path: 'a', reason: 'x', count: 1 },
    ],
    drift: [
      { ...place, team, path: 'a', type: 'x', count: 2 },
      { ...place, team, path: 'a', type: 'y', count: 1 },
      { ...place, team: other, path: 'a', type: 'x', count: 1 },
      { ...place, team: other, path: 'b', type: 'x', count: 1 },
    ],
  })
})

test('the first time stays, the last moves on', async () => {
  await note(['problem', team, 'a', 'x'], ['drift', team, 'a', 'x'])
  for (const table of ['problems', 'drift'])
    await session.client.query(
      `update intake_ops.${table} set first_seen = '2026-01-01', last_seen = '2026-01-02'`,
    )
  await note(['problem', team, 'a', 'x'], ['drift', team, 'a', 'x'])
  for (const table of ['problems', 'drift']) {
    const [row] = await rowsOf(
      session,
      `select first_seen = '2026-01-01' as first, last_seen > now() - interval '1 minute' as last from intake_ops.${table}`,
    )
    expect(row).toEqual({ first: true, last: true })
  }
})

test('a path of 200 characters is kept, longer ones are cut, and those that are the same then are one', async () => {
  const whole = 'p'.repeat(200)
  await note(
    ['problem', team, whole, 'x'],
    ['problem', team, `${whole}1`, 'x'],
    ['problem', team, `${whole}2`, 'x'],
    ['drift', team, `${whole}1`, 'x'],
    ['drift', team, `${whole}2`, 'x'],
  )
  const cut = `${'p'.repeat(199)}…`
  const { problems, drift } = await noted()
  expect(problems.map(({ path, count }) => [path, count])).toEqual([
    [whole, 1],
    [cut, 2],
  ])
  expect(drift.map(({ path, count }) => [path, count])).toEqual([[cut, 2]])
})

test('a path that is cut within a pair of surrogates can be stored', async () => {
  await note(['problem', team, `${'p'.repeat(198)}😀 and more`, 'x'])
  const { problems } = await noted()
  expect(problems.map(({ path }) => path)).toEqual([`${'p'.repeat(198)}\ufffd…`])
})

test('findings that are rolled back with their batch do not count', async () => {
  await session.client.query('begin')
  await note(['problem', team, 'a', 'x'])
  await session.client.query('rollback')
  expect(await noted()).toEqual({ problems: [], drift: [] })
})
