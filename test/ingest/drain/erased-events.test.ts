/** Events of an erased patient in one batch with those of other teams, which may concern patients with the same id. */
import { expect, test } from 'vitest'
import { hashesOf, noteErased } from '../../../src/load/erasures.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { openScene, patientEvent } from './scene.ts'

test.each([0, 1, 2])(
  'in a batch of three teams, events of a patient erased in one of them (%d) are skipped, and the rest is loaded',
  async (which) => {
    await using scene = await openScene()
    const { db } = scene.session
    const teams = []
    for (const name of ['default', 'second', 'third']) teams.push({ name, teamId: await teamIdOf(db, name) })
    const { teamId: erasing } = teams[which]!
    await noteErased(db, await hashesOf(db, erasing), 'p1', [{ stream: 'patients', id: 'p1' }])
    for (const { teamId } of teams)
      await scene.store([patientEvent('p1', 1), patientEvent('p2', 1)], { teamId })
    await scene.drain({ teams })
    const rows = await scene.rows<{ team_id: number; id: string }>(
      'select team_id, id from intake.patients order by 1, 2',
    )
    const expected = teams.flatMap(({ teamId }) =>
      teamId === erasing ? [`${teamId} p2`] : [`${teamId} p1`, `${teamId} p2`],
    )
    expect(rows.map(({ team_id, id }) => `${team_id} ${id}`)).toEqual(expected)
    expect(await scene.inbox()).toEqual({ done: 5 })
  },
)
