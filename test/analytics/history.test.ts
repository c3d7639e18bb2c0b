/** The states of a record as a slowly changing dimension: without gap or overlap, each unchanged. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openScene, type Scene } from '../e2e/support/scene.ts'
import { makeLogin } from './logins.ts'

let scene: Scene

beforeAll(async () => {
  scene = await openScene({ patients: 8, responses: 10 })
})
afterAll(() => scene[Symbol.asyncDispose]())

describe('patients_history and responses_history', () => {
  it('contain each state with its period, the newest as current', async () => {
    const { control } = scene.emulator
    const patient = control.createPatient({ first_name: 'A', last_name: 'first' })
    await scene.backfill()
    for (const last_name of ['second', 'third']) {
      control.advance(60_000)
      control.updatePatient(patient.id, { last_name })
      await scene.backfill('--full')
      await scene.backfill('--full')
    }
    control.advance(60_000)
    control.deletePatient(patient.id)
    await scene.backfill('--full')
    const clinician = await makeLogin(scene.url, 'intake_clinical')
    const states = await clinician.rows<{
      last_name: string
      valid_from: Date
      valid_to: Date | null
      is_current: boolean
      is_deleted: boolean
    }>('select * from intake.patients_history where patient_id = $1 order by valid_from', [patient.id])
    expect(
      states.map(({ last_name, is_current, is_deleted }) => ({ last_name, is_current, is_deleted })),
    ).toEqual([
      { last_name: 'first', is_current: false, is_deleted: false },
      { last_name: 'second', is_current: false, is_deleted: false },
      { last_name: 'third', is_current: false, is_deleted: false },
      { last_name: null, is_current: true, is_deleted: true },
    ])
    for (const [at, state] of states.entries())
      expect(state.valid_to).toEqual(states[at + 1]?.valid_from ?? null)
  })

  it('contain the winning state as current, if two have the same version', async () => {
    await scene.query(
      `insert into intake_raw.records (team_id, stream, id, version, hash, payload, deleted, origin, observed_at)
       values (1, 'patients', 'tied', '2026-01-01', '', null, true, 'test', '2026-01-01')`,
    )
    await scene.query(
      `insert into intake_raw.record_history (team_id, stream, id, version, hash, payload, deleted, origin, observed_at)
       values (1, 'patients', 'tied', '2026-01-01', '', '{}', false, 'test', '2026-01-02')`,
    )
    const states = await scene.query(
      `select is_current, is_deleted, valid_to is null as is_open from intake.patients_history
       where patient_id = 'tied' order by is_current`,
    )
    expect(states).toEqual([
      { is_current: false, is_deleted: false, is_open: false },
      { is_current: true, is_deleted: true, is_open: true },
    ])
    await scene.query(`delete from intake_raw.records where id = 'tied'`)
    await scene.query(`delete from intake_raw.record_history where id = 'tied'`)
  })

  it('contain one current state of every record, equal to the tables', async () => {
    for (const [history, key, table] of [
      ['patients_history', 'patient_id', 'patients'],
      ['responses_history', 'response_id', 'responses'],
    ] as const) {
      const [row] = await scene.query<{ stored: number; current: number; agreeing: number }>(
        `select (select count(*)::int from intake.${table}) as stored,
           (select count(*)::int from intake.${history} where is_current) as current,
           (select count(*)::int from intake.${history} h join intake.${table} t
              on t.team_id = h.team_id and t.id = h.${key} and t._version = h.valid_from
              and (t._deleted_at is null) = (not h.is_deleted) where h.is_current) as agreeing`,
      )
      expect(row!.stored).toBeGreaterThan(5)
      expect(row).toEqual({ stored: row!.stored, current: row!.stored, agreeing: row!.stored })
    }
    const [same] = await scene.query<{ differing: number }>(
      `select count(*)::int as differing from intake.responses_history h join intake.responses r on r.id = h.response_id
       where h.is_current and not h.is_deleted and (h.form_id, h.patient_id) is distinct from (r.form_id, r.patient_id)`,
    )
    expect(same).toEqual({ differing: 0 })
  })
})
