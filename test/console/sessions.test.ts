/** Sessions of the console, for pages that stay open. */
import { expect, it } from 'vitest'
import { openSessions } from '../../src/console/sessions.ts'
import { systemClock } from '../../src/core/clock.ts'

it('a page that stays open gets nothing more after twelve hours, or after logout', () => {
  let now = 0
  const sessions = openSessions({ ...systemClock, now: () => now })
  const enter = (login: string) => sessions.enter(sessions.link(login, 'viewer'))!.visitor
  const [ada, grace] = [enter('ada'), enter('grace')]
  const joan = sessions.admit('joan', 'viewer').visitor
  now = 12 * 3_600_000_000 - 1
  expect([ada, grace, joan].map(({ id }) => sessions.isOpen(id))).toEqual([true, true, true])
  sessions.leave(grace)
  expect(sessions.isOpen(grace.id)).toBe(false)
  now += 1
  expect([ada, joan].map(({ id }) => sessions.isOpen(id))).toEqual([false, false])
})
