/** A defect of our own is counted for each team, with its kind and place, and never with its message. */
import pino from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { IntakeError } from '../../src/core/errors.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { type Defect, defectIn, reportDefect } from '../../src/warehouse/defects.ts'
import { warehouseError } from '../../src/warehouse/sqlstate.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { takeDefects } from '../support/defects.ts'

let database: TestDatabase
let session: Session

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'defects' })
  await session.client.query(`insert into intake.teams (name) values ('north'), ('south')`)
})

afterAll(async () => {
  await session.close()
  await database.drop()
})

test('an error with a known cause is none', () => {
  const known = [
    new IntakeError('x', { code: 'slice_lost', verdict: 'stop' }),
    Object.assign(new Error('x'), { code: '40P01' }),
    Object.assign(new Error('x'), { code: 'ECONNREFUSED' }),
  ]
  expect(known.map(defectIn)).toEqual([null, null, null])
})

test('it has a kind and the place that threw it, and lines of its stack', () => {
  const error = new RangeError('of a patient\n    at home with Jane (jane.ts:1:2)')
  const { kind, place, frames } = defectIn(error)!
  expect([kind, place]).toEqual(['RangeError', expect.stringMatching(/^defects\.test\.ts:\d+$/)])
  expect(frames.length).toBeGreaterThan(1)
  expect(frames.join()).not.toContain('Jane')
  expect(frames.every((line) => line.startsWith('at '))).toBe(true)
  const inner = Object.assign(new Error('x'), { stack: 'Error: x\n    at f (node:internal/x:7:9)\n    at g' })
  expect(defectIn(inner)!.place).toBe('x:7')
  expect(defectIn('text')).toEqual({ kind: 'string', place: '', frames: [] })
  // Loaders pass failures on as errors of ours.
  for (const thrown of [error, inner, 'text'])
    expect(defectIn(warehouseError(thrown))).toEqual(defectIn(thrown))
  expect(defectIn(Object.assign(new Error('x'), { stack: undefined }))).toEqual({
    kind: 'Error',
    place: '',
    frames: [],
  })
})

test('it is counted once for each team, logged, and handed on; a warehouse that is away only loses the count', async () => {
  const logged: string[] = []
  const logger = pino({}, { write: (line: string) => logged.push(line) })
  const defects: Defect[] = []
  const reporting = {
    ...{ logger, teamIds: [2, 1, 2], consequence: 'the event waits' },
    onDefect: (defect: Defect) => defects.push(defect),
  }
  const error = Object.assign(new TypeError('of Jane'), { stack: 'TypeError\n    at f (a.ts:7:9)' })
  await reportDefect(session, Object.assign(new Error('x'), { code: '40P01' }), reporting)
  expect([logged, defects]).toEqual([[], []])
  await reportDefect(session, error, reporting)
  await session.client.query(
    `update intake_ops.defects set last_seen = '2020-01-01', first_seen = '2020-01-01'`,
  )
  await reportDefect(session, error, { ...reporting, teamIds: [1] })
  const { rows } = await session.client.query(
    `select team_id, kind, place, count::int, last_seen > '2026-01-01' as again, first_seen > '2026-01-01' as late
     from intake_ops.defects order by 1`,
  )
  const same = { kind: 'TypeError', place: 'a.ts:7', late: false }
  expect(rows).toEqual([
    { ...same, team_id: 1, count: 2, again: true },
    { ...same, team_id: 2, count: 1, again: false },
  ])
  expect(defects).toHaveLength(2)
  expect(JSON.parse(logged[0]!)).toMatchObject({
    ...{ level: 50, kind: 'TypeError', frames: ['at f (a.ts:7:9)'] },
    msg: 'a defect of intake-sync: unexpected TypeError; the event waits. Please report this line',
  })
  const gone = await openSession({ url: database.url, purpose: 'defects' })
  await gone.close()
  await reportDefect(gone, error, reporting)
  expect(logged.at(-1)).toContain('the defect could not be counted')
  expect(takeDefects()).toHaveLength(3)
})
