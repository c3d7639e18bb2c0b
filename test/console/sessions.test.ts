/** Sessions of the console: how long they and their links live, and who is who. */
import { expect, it } from 'vitest'
import { mayAct, openSessions } from '../../src/console/sessions.ts'
import { systemClock } from '../../src/core/clock.ts'

const HOUR = 3_600_000_000

function openScene() {
  let now = 0
  const sessions = openSessions({ ...systemClock, now: () => now })
  const enter = (login: string) => sessions.enter(sessions.link(login, 'viewer'))!
  const pass = (micros: number) => {
    now += micros
  }
  return { sessions, enter, pass }
}

it('a page that stays open gets nothing more after twelve hours, or after logout', () => {
  const { sessions, enter, pass } = openScene()
  const [ada, grace] = [enter('ada').visitor, enter('grace').visitor]
  const joan = sessions.admit('joan', 'viewer').visitor
  pass(12 * HOUR - 1)
  expect([ada, grace, joan].map(({ id }) => sessions.isOpen(id))).toEqual([true, true, true])
  sessions.leave(grace)
  expect(sessions.isOpen(grace.id)).toBe(false)
  pass(1)
  expect([ada, joan].map(({ id }) => sessions.isOpen(id))).toEqual([false, false])
})

it('a link works until its hour is over, once, and never as a cookie', () => {
  const { sessions, pass } = openScene()
  const [first, second] = [sessions.link('ada', 'operator'), sessions.link('ada', 'operator')]
  expect(sessions.find(first)).toBeNull()
  pass(HOUR - 1)
  const { secret, visitor } = sessions.enter(first)!
  expect(visitor).toMatchObject({ login: 'ada', role: 'operator', id: expect.stringMatching(/^[\w-]{16}$/) })
  expect([sessions.find(secret), sessions.enter(first), sessions.enter(secret)]).toEqual([
    visitor,
    null,
    null,
  ])
  pass(1)
  expect(sessions.enter(second)).toBeNull()
  sessions.leave(visitor)
  expect(sessions.find(secret)).toBeNull()
})

it('a login of a proxy is one visitor for each role until twelve hours are over, or it leaves', () => {
  const { sessions, enter, pass } = openScene()
  const first = sessions.admit('ada', 'viewer')
  expect(first.isNew).toBe(true)
  pass(12 * HOUR - 1)
  expect(sessions.admit('ada', 'viewer')).toEqual({ visitor: first.visitor, isNew: false })
  const raised = sessions.admit('ada', 'steward')
  expect([raised.isNew, raised.visitor.role]).toEqual([true, 'steward'])
  const other = enter('ada')
  sessions.leave(raised.visitor)
  expect(sessions.admit('ada', 'steward').isNew).toBe(true)
  expect([sessions.find(other.secret), sessions.admit('ada', 'viewer').isNew]).toEqual([other.visitor, false])
  pass(1)
  expect(sessions.admit('ada', 'viewer').isNew).toBe(true)
})

it('of more than a thousand links the oldest are forgotten first', () => {
  const { sessions } = openScene()
  const links = Array.from({ length: 1_001 }, (_, at) => sessions.link(`login-${at}`, 'viewer'))
  expect(links.slice(0, 2).map((link) => sessions.enter(link)?.visitor.login)).toEqual([undefined, 'login-1'])
  expect(sessions.enter(links.at(-1)!)?.visitor.login).toBe('login-1000')
})

it('the token of a form is that of its session, and no other text', () => {
  const { sessions, enter } = openScene()
  const [ada, grace] = [enter('ada').visitor, enter('ada').visitor]
  expect(sessions.isFormToken(ada, sessions.formToken(ada))).toBe(true)
  for (const token of [sessions.formToken(grace), '', undefined, null, [sessions.formToken(ada)]])
    expect(sessions.isFormToken(ada, token)).toBe(false)
})

it('a role may do what lower roles may, and nothing of higher ones', () => {
  const roles = ['viewer', 'operator', 'steward'] as const
  const may = roles.map((role) => roles.map((required) => mayAct({ id: '', login: '', role }, required)))
  expect(may).toEqual([
    [true, false, false],
    [true, true, false],
    [true, true, true],
  ])
})
