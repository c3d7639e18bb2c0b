/** What lists and commands say of states that are rare: a role that is gone, a team half deleted, a run that still loads. */
import { expect, it } from 'vitest'
import { isSeenByAll, listText } from '../../src/commands/analysts/access.ts'
import { canceledText, etaText } from '../../src/commands/inspect/runs.ts'
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
  const text = (teams: readonly string[], granted: typeof access) =>
    listText(context, { teams, everybody: isSeenByAll(teams), access: granted })
  expect(text(['north', 'south'], access).replace(/ {2,}/g, '  ').split('\n')).toEqual([
    'login  team  granted',
    'ada  north  2026-01-05 02:11',
    'b\\x1b  south  2026-02-06 03:12  role no longer exists',
    'teams: north, south; a login sees the teams granted to it',
    '',
  ])
  const one = 'the warehouse has one team: every login with a role sees it\n'
  expect([text(['north'], []), text([], [])]).toEqual([one, one])
  expect(text(['north'], access)).toMatch(/^login[\s\S]* exists\nthe warehouse has one team/)
})

it('pages are counted per second where one or more are read in one, else per minute', () => {
  const eta = {
    slices_left: 2,
    slices_claimed: 2,
    workers: 1,
    pages: 6,
    expected_pages: 11.6,
    slices_unknown: 0,
  }
  const said = [null, 0.02, 0.949, 0.95, 9.4, 120].map(
    (rate) => /pages(?:; (.*))?; time left/.exec(etaText({ ...eta, rate, seconds_left: 70 }))?.[1],
  )
  const ofMinute = ['1.2 pages per minute', '56.9 pages per minute']
  expect(said).toEqual([
    ...[undefined, ...ofMinute, '1 page per second', '9.4 pages per second', '120 pages per second'],
  ])
  expect(etaText({ ...eta, rate: null, seconds_left: 70 })).toBe(
    'left: 2 streams; 2 streams read by 1 worker: 6 of about 12 pages; time left: about 1 min 10 s',
  )
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
  ['succeeded', false, 'has already ended (succeeded)'],
])('a run that is %s after it was canceled by this command (%s) %s', (status, canceled, says) => {
  expect(canceledText(7, status, canceled)).toBe(says)
})
