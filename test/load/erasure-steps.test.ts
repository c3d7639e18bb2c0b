/** Erasures as stored hashes: what a hash is made from, and the statements that store and look them up, without Postgres. */
import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import {
  countSkipped,
  erasedAmong,
  erasedOfTeam,
  exportClient,
  exportPerson,
  hashesOf,
  noteErased,
  openErasures,
  openErasuresOf,
} from '../../src/load/erasures.ts'
import { type Reply, scripted } from '../support/scripted.ts'

const KEY = Buffer.from('a key of thirty-two bytes, or so.')
const hashOf = (team: number, stream: string, id: string) =>
  createHmac('sha256', KEY).update(`${team}\n${stream}\n${id}`).digest('hex')

function asking(reply: (statement: string) => Reply) {
  const asked: unknown[] = []
  const db = scripted((statement, values) => {
    asked.push(values.length === 0 ? statement : [statement.split(/ ?\(/)[0], ...values])
    return reply(statement)
  })
  return { db, asked }
}

test('a hash is made from team, stream and id with the key of the installation, so that an upgrade recognizes stored hashes', async () => {
  const { db, asked } = asking(() => [
    { teamId: 7, key: KEY },
    { teamId: 8, key: null },
    { teamId: 9, key: KEY },
  ])
  const open = await openErasuresOf(db, [7, 8, 9])
  expect([...open.keys()]).toEqual([7, 9])
  for (const team of [7, 9])
    expect(open.get(team)!.hashOf({ stream: 'forms', id: 'x' })).toBe(hashOf(team, 'forms', 'x'))
  expect(asked[0]).toContainEqual([7, 8, 9])
  expect((await openErasures(db, 9))!.teamId).toBe(9)
  expect(await openErasures(db, 8)).toBeNull()
  const { asked: none, db: unasked } = asking(() => [])
  expect([await openErasuresOf(unasked, []), await erasedAmong(unasked, [])]).toEqual([new Map(), new Map()])
  expect(none).toEqual([])
})

test('a client of an export, and a person in any case, are subjects of their own', () => {
  expect(exportClient('C 1')).toEqual({ stream: 'exports', id: 'client C 1' })
  expect(exportPerson(['Ann@X', 'Ann Lee', 'ÖZ'])).toEqual({
    stream: 'exports',
    id: 'person ann@x\nann lee\nöz',
  })
})

test('an erasure is stored under the lock that loads share: every subject, and those that are known only as hashes', async () => {
  const { db, asked } = asking((statement) => {
    if (statement.startsWith('select key')) return [{ key: KEY }]
    return statement.startsWith('insert') ? 3 : []
  })
  const erasures = await hashesOf(db, 7)
  const subjects = ['p', 'r'].map((id) => ({ stream: 'patients', id }) as const)
  expect(await noteErased(db, erasures, 'p', subjects, ['aa', 'bb'])).toBe(3)
  const patient = hashOf(7, 'patients', 'p')
  expect(asked.slice(1)).toEqual([
    'begin',
    ['select intake_ops.take_lock', 7_204_315, '7'],
    ['insert into intake_ops.erasures', patient, 7, [patient, hashOf(7, 'patients', 'r'), 'aa', 'bb']],
    'commit',
  ])
  expect(await noteErased(db, erasures, 'p', [], [])).toBe(3)
})

test('what a load skips is counted in one statement, with the patient of each; nothing skipped, no statement', async () => {
  const { db, asked } = asking(() => [])
  const erasures = { teamId: 7, hashOf: () => '' }
  await countSkipped(db, erasures, [])
  await countSkipped(db, erasures, [
    { hash: 'aa', patient: 'cc', times: 2 },
    { hash: 'bb', patient: 'dd', times: 3 },
  ])
  expect(asked).toEqual([[expect.stringMatching(/^insert/), 7, ['aa', 'bb'], ['cc', 'dd'], [2, 3]]])
})

test('erased hashes are found with their patients, among given ones or all of a team', async () => {
  const rows = [
    { hash: 'aa', patient: 'cc' },
    { hash: 'bb', patient: 'cc' },
  ]
  const { db, asked } = asking(() => rows)
  const found = new Map([
    ['aa', 'cc'],
    ['bb', 'cc'],
  ])
  expect(await erasedAmong(db, ['aa', 'bb', 'ee'])).toEqual(found)
  expect(await erasedOfTeam(db, { teamId: 7, hashOf: () => '' })).toEqual(found)
  expect(asked.map((each) => (each as unknown[]).slice(1))).toEqual([[['aa', 'bb', 'ee']], [7]])
})
