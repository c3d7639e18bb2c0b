/** Which team is meant, and what is said when none is or several are. */
import { describe, expect, test } from 'vitest'
import { UsageError } from '../../src/core/errors.ts'
import { selectTeam, selectTeams, teamOfRequest } from '../../src/core/which-team.ts'

const teams = (...names: readonly string[]) => names.map((name, at) => ({ name, number: at + 1 }))

function errorOf(work: () => unknown): UsageError {
  try {
    work()
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError)
    return error as UsageError
  }
  throw new Error('a team was found')
}

describe('a request', () => {
  test.each<[string, readonly string[], string | undefined, string | undefined]>([
    ['without a name is for the only team', ['north'], undefined, 'north'],
    ['without a name is for the one named default', ['north', 'default'], undefined, 'default'],
    ['without a name finds no team among several', ['north', 'south'], undefined, undefined],
    ['without a name finds no team if there is none', [], undefined, undefined],
    ['is for the team that it names', ['north', 'south'], 'south', 'south'],
    ['is not for the only team if it names another', ['north'], 'south', undefined],
    ['is not for default if it names another', ['north', 'default'], 'south', undefined],
    ['names a team to the letter', ['north'], 'North', undefined],
    ['with an empty name is for no team', ['default', 'north'], '', undefined],
    ['with an empty name is not for the only team', ['default'], '', undefined],
  ])('%s', (_, names, name, expected) => {
    expect(teamOfRequest(teams(...names), name)?.name).toBe(expected)
  })
})

describe('a command', () => {
  test('without --team is for every team, or needs to be for one', () => {
    expect(selectTeams(teams('a', 'b'), undefined, 'warehouse')).toEqual(teams('a', 'b'))
    expect(selectTeams([], undefined, 'warehouse')).toEqual([])
    expect(selectTeam(teams('a'), undefined, 'warehouse').name).toBe('a')
    expect(errorOf(() => selectTeam(teams('a', 'b'), undefined, 'warehouse'))).toMatchObject({
      message: 'the warehouse has several teams: name one with --team',
      hint: 'use one of: a, b',
      variable: '--team',
      code: 'unknown_team',
    })
    expect(errorOf(() => selectTeam(teams('a', 'b'), undefined, 'configuration'))).toMatchObject({
      message: 'the configuration has several teams: name one with --team',
      hint: 'use one of: a, b',
    })
    expect(errorOf(() => selectTeam([], undefined, 'warehouse'))).toMatchObject({
      message: 'the warehouse has no team yet',
      hint: 'run intake-sync backfill, which creates the teams of the configuration',
      variable: '--team',
      code: 'unknown_team',
    })
  })

  test('is for the team that --team names', () => {
    expect(selectTeams(teams('a', 'b'), 'b', 'configuration')).toEqual([{ name: 'b', number: 2 }])
    expect(selectTeam(teams('a', 'b'), 'b', 'configuration')).toEqual({ name: 'b', number: 2 })
  })

  test.each(['', 'A', 'c', ' a'])(
    'with %j for --team finds no team, also when there is a single one',
    (name) => {
      for (const known of [teams('a'), teams('a', 'b')]) {
        expect(errorOf(() => selectTeam(known, name, 'configuration'))).toMatchObject({
          message: `the configuration has no team "${name}"`,
          hint: `use one of: ${known.map((team) => team.name).join(', ')}`,
          variable: '--team',
          code: 'unknown_team',
        })
      }
      expect(errorOf(() => selectTeams(teams('a'), name, 'warehouse', 'TEAM'))).toMatchObject({
        message: `the warehouse has no team "${name}"`,
        hint: 'use one of: a',
        variable: 'TEAM',
      })
      expect(errorOf(() => selectTeams([], name, 'warehouse')).hint).toBe(
        'run intake-sync backfill, which creates the teams of the configuration',
      )
    },
  )
})
