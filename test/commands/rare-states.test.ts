/** What lists and commands say of states that are rare: a role that is gone, a team half deleted, a run that still loads. */
import { expect, it } from 'vitest'
import { listText } from '../../src/commands/analysts/access.ts'
import { canceledText } from '../../src/commands/inspect/runs.ts'
import { stateOf } from '../../src/commands/manage/teams.ts'

const output = { write: () => true }
const context = {
  ...{ env: {}, stdout: output, stderr: output, signal: new AbortController().signal, version: '' },
}

it('access list has a line for each grant, and marks a role that no longer exists', () => {
  const access = [
    { login: 'ada', team: 'north', granted_at: '2026-01-05T02:11:09.000Z', exists: true },
    { login: 'b\u001b', team: 'south', granted_at: '2026-02-06T03:12:10.000Z', exists: false },
  ]
  expect(listText(context, ['north', 'south'], access).replace(/ {2,}/g, '  ').split('\n')).toEqual([
    'login  team  granted',
    'ada  north  2026-01-05 02:11',
    'b\\x1b  south  2026-02-06 03:12  role no longer exists',
    'teams: north, south; a login sees the teams granted to it',
    '',
  ])
  const one = 'the warehouse has one team: every login with a role sees it\n'
  expect([listText(context, ['north'], []), listText(context, [], [])]).toEqual([one, one])
  expect(listText(context, ['north'], access)).toMatch(/^login[\s\S]* exists\nthe warehouse has one team/)
})

it.each([
  [null, null, true, ''],
  [null, null, false, 'not in the configuration'],
  ['2026-01-05T02:11:09Z', 'kept', false, 'removed 2026-01-05 02:11, data kept'],
  ['2026-01-05T02:11:09Z', 'kept', true, 'removed 2026-01-05 02:11, data kept'],
  ['2026-01-05T02:11:09Z', 'deleted', false, 'partly deleted: run teams remove again'],
] as const)(
  'a team removed at %s, whose data is %s, configured: %s, is "%s"',
  (removed_at, data, configured, says) => {
    expect(stateOf({ removed_at, data, configured })).toBe(says)
  },
)

it.each([
  ['interrupted', true, 'is canceled; what it loaded stays, and the next run continues'],
  ['running', true, 'is canceled, and still loads what it has read; see intake-sync runs show 7'],
  // Somebody else canceled it before.
  ['running', false, 'is canceled, and still loads what it has read; see intake-sync runs show 7'],
  ['succeeded', false, 'had ended: succeeded'],
])('a run that is %s after it was canceled by this command (%s) %s', (status, canceled, says) => {
  expect(canceledText(7, status, canceled)).toBe(says)
})
