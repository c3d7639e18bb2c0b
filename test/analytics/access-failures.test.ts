/** A grant whose search path cannot be set: for want of a right it is made all the same, for anything else it fails. */
import { expect, test } from 'vitest'
import { grantAccess } from '../../src/analytics/access.ts'
import { scripted } from '../support/scripted.ts'

const granting = (code: string) =>
  grantAccess(
    scripted((statement) => {
      if (statement.startsWith('alter role')) throw Object.assign(new Error(code), { code })
      if (statement.includes('from intake.teams')) return [{ teamId: 1, name: 'north', isRemoved: false }]
      if (statement.startsWith('insert into intake_ops.access')) return [{ login: 'ann' }]
      return [{ has_role: true, database: 'there', path: 'intake_analytics, public' }]
    }),
    'ann',
    'north',
  )

test('a login whose search path another may set only is granted the team, and has none', async () => {
  expect(await granting('42501')).toEqual({ changed: true, hasRole: true, searchPath: null })
})

test.each(['XX000', '57014'])('any other failure is not passed over: %s', async (code) => {
  await expect(granting(code)).rejects.toMatchObject({ code })
})
