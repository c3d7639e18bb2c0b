/** With whose eyes a command reads: the role that is set, and what is said where it cannot be. */
import { expect, it } from 'vitest'
import { type Reader, takeRole } from '../../src/commands/reader.ts'
import type { Session } from '../../src/warehouse/connect.ts'

/** A session that answers the question for the role with `rows`, and where `refuse` has a code refuses to set it. */
function sessionOf(rows: readonly object[], refuse?: string) {
  const asked: string[] = []
  const client = {
    query: async (text: string) => {
      asked.push(text.trim())
      if (text.startsWith('set role') && refuse !== undefined)
        throw Object.assign(new Error('refused'), { code: refuse })
      return { rows: asked.length === 1 ? rows : [{ login: 'ada', sees: true }] }
    },
  }
  return { session: { client } as unknown as Session, asked }
}

const context = {
  ...{ env: {}, stdout: { write: () => true }, stderr: { write: () => true }, version: '' },
  signal: new AbortController().signal,
}

const take = (reader: Reader, rows: readonly object[], refuse?: string) => {
  const { session, asked } = sessionOf(rows, refuse)
  return takeRole(context, session, reader).then((isSet) => ({ isSet, asked }))
}

it.each([
  ['analyst', 'intake_analyst', 'intake_analytics.teams'],
  ['clinical', 'intake_clinical', 'intake_analytics.teams'],
  ['researcher', 'intake_researcher', 'intake_safe_harbor.teams'],
] as const)('%s reads as %s, unless the login is that and nothing more', async (reader, role, teams) => {
  const taken = await take(reader, [{ is_only_reader: false }])
  expect([taken.isSet, taken.asked[1], taken.asked[2]]).toEqual([
    ...[true, `set role ${role}`],
    expect.stringContaining(`from ${teams}`),
  ])
  const own = await take(reader, [{ is_only_reader: true }])
  expect([own.isSet, own.asked.filter((text) => text.startsWith('set role'))]).toEqual([false, []])
})

it('a warehouse without the role, and a login that may not take it, are named; other failures are not called that', async () => {
  await expect(take('researcher', [])).rejects.toMatchObject({
    ...{ code: 'role_missing', verdict: 'stop', message: 'this warehouse has no role intake_researcher' },
  })
  const some = [{ is_only_reader: false }]
  await expect(take('analyst', some, '42501')).rejects.toMatchObject({
    ...{
      code: 'role_refused',
      verdict: 'stop',
      hint: 'grant intake_analyst to it, or leave out --as analyst',
    },
  })
  await expect(take('analyst', some, '53300')).rejects.not.toMatchObject({ code: 'role_refused' })
})

it('a reader who sees no team reads what to do; one who sees some, or cannot be asked, reads nothing', async () => {
  const noteOf = async (sight: () => readonly object[]) => {
    const notes: string[] = []
    const asked: unknown[] = []
    const client = {
      query: async (text: string, values?: unknown) => {
        asked.push(values)
        return { rows: text.includes('as sees') ? sight() : [{ is_only_reader: true }] }
      },
    }
    const stderr = { write: (text: string) => notes.push(text) > 0 }
    expect(await takeRole({ ...context, stderr }, { client } as unknown as Session, 'analyst')).toBe(false)
    expect(asked).toEqual([['intake_analyst'], undefined])
    return notes.join('')
  }
  expect(await noteOf(() => [{ login: 'ada', sees: false }])).toBe(
    'note: ada sees no team, so the tables look empty: intake-sync access grant ada TEAM\n',
  )
  expect(await noteOf(() => [{ login: 'ada', sees: true }])).toBe('')
  expect(await noteOf(() => [])).toBe('')
  const refused = () => {
    throw new Error('permission denied')
  }
  expect(await noteOf(refused)).toBe('')
})
