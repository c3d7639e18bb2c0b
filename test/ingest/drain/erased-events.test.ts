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
    await noteErased(db, await hashesOf(db, erasing), 'patient-1', [{ stream: 'patients', id: 'patient-1' }])
    for (const { teamId } of teams) {
      const twice = [patientEvent('patient-1', 1), patientEvent('patient-1', 2)]
      await scene.store([...twice, patientEvent('p2', 1), '{"id": "patient-1", cut'], { teamId })
    }
    await scene.drain({ teams })
    const rows = await scene.rows<{ team_id: number; id: string }>(
      'select team_id, id from intake.patients order by 1, 2',
    )
    const expected = teams.flatMap(({ teamId }) =>
      teamId === erasing ? [`${teamId} p2`] : [`${teamId} p2`, `${teamId} patient-1`],
    )
    expect(rows.map(({ team_id, id }) => `${team_id} ${id}`)).toEqual(expected)
    // Neither its events nor what cannot be read and contains its id.
    expect(await scene.inbox()).toEqual({ dead: 2, done: 7 })
    expect(
      await scene.rows(
        'select team_id, skipped::int, last_skipped_at is not null as dated from intake_ops.erasures',
      ),
    ).toEqual([{ team_id: erasing, skipped: 3, dated: true }])
    expect(await scene.rows('select team_id from intake_ops.dead_letters order by 1')).toEqual(
      teams.flatMap(({ teamId }) => (teamId === erasing ? [] : [{ team_id: teamId }])),
    )
  },
)
