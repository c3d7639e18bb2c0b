/** How a team is restored, step by step, while other commands look at it too. */
import { expect, test } from 'vitest'
import { restoreTeam } from '../../src/load/teams.ts'
import { scriptedSession } from './scripted.ts'

function teams({ data, isLocked = false }: { readonly data: string | null; readonly isLocked?: boolean }) {
  return scriptedSession({
    number: [/from "intake"."teams"/, () => [{ team_id: 7 }]],
    removed: [/^select team_id from intake_ops.removed_teams/, () => [{ team_id: 7 }]],
    lock: [/pg_try_advisory_lock/, () => [{ locked: !isLocked }]],
    data: [
      /^select data from intake_ops.removed_teams .* for update$/,
      () => (data === null ? [] : [{ data }]),
    ],
    events: [/^update intake_raw.inbox/, () => 3],
    restore: [/^delete from intake_ops.removed_teams/, () => 1],
    unlock: [/pg_advisory_unlock/, () => []],
  })
}
const LOOKS = ['number', 'removed', 'lock']

test('a team is restored under its lock, in one transaction with its events', async () => {
  const { asked, session } = teams({ data: 'kept' })
  expect(await restoreTeam(session, 'north')).toBe(7)
  expect(asked).toEqual([...LOOKS, 'begin', 'data', 'events', 'restore', 'commit', 'unlock'])
})

test('a team that another command restored meanwhile is not restored twice: its events stay as they are since', async () => {
  const { asked, session } = teams({ data: null })
  expect(await restoreTeam(session, 'north')).toBe(7)
  expect(asked).toEqual([...LOOKS, 'begin', 'data', 'commit', 'unlock'])
})

test('a team that is partly deleted stays removed, and is locked no longer', async () => {
  const { asked, session } = teams({ data: 'deleted' })
  await expect(restoreTeam(session, 'north')).rejects.toMatchObject({ code: 'team_removed' })
  expect(asked).toEqual([...LOOKS, 'begin', 'data', 'rollback', 'unlock'])
})

test('a team that is just being removed is left to that command, with its lock', async () => {
  const { asked, session } = teams({ data: 'kept', isLocked: true })
  await expect(restoreTeam(session, 'north')).rejects.toMatchObject({ code: 'held_by_another_run' })
  expect(asked).toEqual(LOOKS)
})
