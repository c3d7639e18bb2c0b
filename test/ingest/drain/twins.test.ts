/** Two teams whose records have the same ids, in one drain and often in one batch: each is compared with its own. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { teamIdOf } from '../../../src/load/teams.ts'
import { type Event, noonPlus, openScene, patient, patientEvent, type Scene } from './scene.ts'

let scene: Scene
let other: number

beforeEach(async () => {
  scene = await openScene()
  other = await teamIdOf(scene.session.db, 'other')
})

afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

/** A patient of the other team's service: with fewer fields. */
const brief = (id: string, seconds: number): Event => ({
  ...patientEvent(id, seconds),
  data: { id, first_name: 'Ann', updated_at: noonPlus(seconds) },
})
const whole = (id: string, seconds: number): Event => ({
  ...patientEvent(id, seconds),
  data: patient(id, { updated_at: noonPlus(seconds) }),
})

const teams = () => [
  { name: 'default', teamId: scene.teamId },
  { name: 'other', teamId: other },
]
const asked = async () =>
  (
    await scene.rows<{ line: string }>(
      `select team_id || ' ' || id || ' ' || reason as line from intake_ops.refetches order by 1`,
    )
  ).map(({ line }) => line)

describe.each([1, 1_000])('in batches of %i', (batch) => {
  it.each([
    ['whole first', true],
    ['brief first', false],
  ])(
    'fields that all records of one team have are not expected of another team’s: %s',
    async (_, wholeFirst) => {
      for (const id of ['a', 'b']) {
        await scene.store([whole(id, 1)])
        await scene.store([brief(id, 1)], { teamId: other })
      }
      await scene.drain({ teams: teams() })
      await scene.rows('delete from intake_ops.refetches')
      const mine = () => scene.store([whole('c', 2)])
      const theirs = () => scene.store([brief('c', 2)], { teamId: other })
      for (const next of wholeFirst ? [mine, theirs] : [theirs, mine]) await next()
      // Partial for one team, and complete for the other.
      await scene.store([brief('d', 3)])
      await scene.store([brief('d', 3)], { teamId: other })
      await scene.drain({ teams: teams(), batch, workers: 1 })
      expect(await asked()).toEqual([`${scene.teamId} d partial`])
      expect(await scene.rows('select team_id, id from intake.patients order by 1, 2')).toHaveLength(8)
    },
  )

  it('a state of one team is neither older, later, nor equal to one of the other', async () => {
    const named = (id: string, seconds: number, city: string) => ({
      ...whole(id, seconds),
      data: patient(id, { city, updated_at: noonPlus(seconds), patient_tags: [{ name: city, color: null }] }),
    })
    // For one team from the latest to the earliest, for the other the reverse; and one time that both share.
    for (const [at, seconds] of [30, 20, 10].entries()) {
      await scene.store([named('x', seconds, `mine ${seconds}`)])
      await scene.store([named('x', 40 - seconds, `theirs ${40 - seconds}`)], { teamId: other })
      await scene.store([named(`y${at}`, 5, 'mine')])
      await scene.store([named(`y${at}`, 5, 'theirs')], { teamId: other })
    }
    await scene.drain({ teams: teams(), batch })
    const cities = await scene.rows(
      `select p.team_id, p.id, p.city, t.name as tag from intake.patients p
       join intake.patient_tags t on t.team_id = p.team_id and t.patient_id = p.id order by 1, 2`,
    )
    const ids = ['x', 'y0', 'y1', 'y2']
    expect(cities).toEqual([
      ...ids.map((id) => of(scene.teamId, id, id === 'x' ? 'mine 30' : 'mine')),
      ...ids.map((id) => of(other, id, id === 'x' ? 'theirs 30' : 'theirs')),
    ])
    // Only the state that lost to different content of its own team.
    expect(await asked()).toEqual([`${scene.teamId} x contested`])
  })

  it('an event that is rejected for one team is loaded for the other, under the same ids', async () => {
    await scene.rows(
      `alter table intake.patients add constraint picky check (team_id = ${other} or last_name <> 'refused')`,
    )
    const same = { ...patientEvent('z', 1, { last_name: 'refused' }), id: 'the same' }
    await scene.store([same, whole('w', 1)])
    await scene.store([same, whole('w', 1)], { teamId: other })
    await scene.drain({ teams: teams(), batch, backoffMs: [] })
    const settled = await scene.rows(
      `select team_id, event_id = 'the same' as same, status from intake_raw.inbox order by 1, 2`,
    )
    expect(settled).toEqual([
      { team_id: scene.teamId, same: false, status: 'done' },
      { team_id: scene.teamId, same: true, status: 'dead' },
      { team_id: other, same: false, status: 'done' },
      { team_id: other, same: true, status: 'done' },
    ])
    expect(await scene.rows('select team_id, record_id from intake_ops.dead_letters')).toEqual([
      { team_id: scene.teamId, record_id: 'z' },
    ])
  })
})

const of = (team_id: number, id: string, city: string) => ({ team_id, id, city, tag: city })
