/** The states of a record as a slowly changing dimension: without gap or overlap, each unchanged. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parseInstant } from '../../src/core/time.ts'
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

  it('go by the own times of a record: it existed before it was read first, and changed when it says so', async () => {
    const payload = (updated_at: string, last_name: string) =>
      JSON.stringify({ created_at: '2020-01-01T00:00:00Z', updated_at, last_name, date_birth: '1980-02-30' })
    const states = [
      // Read for the first time in June: created and changed long before.
      ['record_history', payload('2023-03-03T00:00:00Z', 'first'), '2026-06-01'],
      ['record_history', payload('2026-06-09T00:00:00Z', 'second'), '2026-06-10'],
      // Other content under the same stamp, and a stamp ahead of everything: only the reading shows when.
      ['record_history', payload('2026-06-09T00:00:00Z', 'third'), '2026-06-20'],
      ['records', payload('2099-01-01T00:00:00Z', 'fourth'), '2026-06-30'],
    ]
    for (const [table, content, version] of states) {
      await scene.query(
        `insert into intake_raw.${table} (team_id, stream, id, version, hash, payload, deleted, origin, observed_at)
         values (1, 'patients', 'old', $2, sha256(convert_to($1, 'UTF8')), $1::text::jsonb, false, 'test', $2)`,
        [content, version],
      )
    }
    const asOf = (day: string) =>
      scene.query(
        `select last_name, known_from::date::text as known_from from intake.patients_history
         where id = 'old' and valid_from <= $1 and (valid_to is null or valid_to > $1)`,
        [day],
      )
    expect(await asOf('2019-12-31')).toEqual([])
    // It existed; what it was before March 2023 cannot be known.
    expect(await asOf('2021-01-01')).toEqual([{ last_name: 'first', known_from: '2023-03-03' }])
    expect(await asOf('2024-01-01')).toEqual([{ last_name: 'first', known_from: '2023-03-03' }])
    expect(await asOf('2026-06-09 12:00')).toEqual([{ last_name: 'second', known_from: '2026-06-09' }])
    expect(await asOf('2026-06-19')).toEqual([{ last_name: 'second', known_from: '2026-06-09' }])
    expect(await asOf('2026-06-20')).toEqual([{ last_name: 'third', known_from: '2026-06-20' }])
    expect(await asOf('2027-01-01')).toEqual([{ last_name: 'fourth', known_from: '2026-06-30' }])
    // A day that does not exist is no date, as in the table.
    expect(
      await scene.query(`select distinct date_birth from intake.patients_history where id = 'old'`),
    ).toEqual([{ date_birth: null }])
    await scene.query(`delete from intake_raw.records where id = 'old'`)
    await scene.query(`delete from intake_raw.record_history where id = 'old'`)
  })

  it('read times as a load does', async () => {
    for (const text of [
      ...['2026-01-02', '2026-01-02T03:04:05Z', '2026-01-02 03:04', '2026-01-02T03:04:05.123456+02:00'],
      ...['2026-01-02T03:04:05,5-0130', '2026-01-02T03:04:05', '2026-02-30', '2026-01-02T25:00Z', 'soon', ''],
    ]) {
      const [row] = await scene.query<{ at: string | null }>(
        `select to_char(intake_raw.time_of($1) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
        [text],
      )
      expect(row!.at, text).toBe(parseInstant(text))
    }
  })

  it('have the columns of the tables by the same names and types: submitted_at is a time, not a text', async () => {
    const types = async (name: string) =>
      new Map(
        (
          await scene.query<{ name: string; type: string }>(
            `select attname as name, format_type(atttypid, atttypmod) as type from pg_attribute
             where attrelid = $1::regclass and attnum > 0 and not attisdropped`,
            [`intake.${name}`],
          )
        ).map(({ name, type }) => [name, type]),
      )
    for (const name of ['patients', 'responses']) {
      const history = await types(`${name}_history`)
      for (const [column, type] of await types(name))
        if (!column.startsWith('_')) expect(history.get(column), `${name}.${column}`).toBe(type)
      for (const column of ['valid_from', 'valid_to', 'known_from', 'created_at', 'updated_at', '_version'])
        expect(history.get(column), column).toBe('timestamp with time zone')
    }
    expect((await types('responses_history')).get('submitted_at')).toBe('timestamp with time zone')
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
              on t.team_id = h.team_id and t.id = h.${key} and t.id = h.id and t._version = h._version
              and (t._deleted_at is null) = (not h.is_deleted) where h.is_current) as agreeing`,
      )
      expect(row!.stored).toBeGreaterThan(5)
      expect(row).toEqual({ stored: row!.stored, current: row!.stored, agreeing: row!.stored })
    }
    const [same] = await scene.query<{ differing: number }>(
      `select count(*)::int as differing from intake.responses_history h join intake.responses r on r.id = h.response_id
       where h.is_current and not h.is_deleted
         and (h.form_id, h.patient_id, h.form_name, h.packet_id, h.document_id, h.is_submitted, h.is_skipped, h.is_archived,
              h.submitted_at, h.created_at, h.updated_at)
           is distinct from (r.form_id, r.patient_id, r.form_name, r.packet_id, r.document_id, r.is_submitted, r.is_skipped,
              r.is_archived, r.submitted_at, r.created_at, r.updated_at)`,
    )
    expect(same).toEqual({ differing: 0 })
    const [person] = await scene.query<{ differing: number }>(
      `select count(*)::int as differing from intake.patients_history h join intake.patients p using (id)
       where h.is_current and not h.is_deleted and (h.date_birth, h.created_at, h.updated_at, h.provider, h.zipcode)
         is distinct from (p.date_birth, p.created_at, p.updated_at, p.provider, p.zipcode)`,
    )
    expect(person).toEqual({ differing: 0 })
  })
})
