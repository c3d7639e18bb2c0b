/** Records that Postgres rejects, at any position between valid ones: each becomes one dead letter. */
import { describe, expect, it } from 'vitest'
import { teamIdOf } from '../../src/load/teams.ts'
import { noonPlus, openScene, patient, patientEvent } from '../ingest/drain/scene.ts'
import { runCommand } from '../support/run-command.ts'
import { type LittleRecord, startLittleService } from './support/little-service.ts'
import { documentOf, openWarehouse, query } from './support/scene.ts'

const PAGE = 50
const COUNT = 115
const PLACES: readonly (readonly [string, (at: number) => boolean])[] = [
  ['the first, the last and two side by side', (at) => [0, 37, 38, COUNT - 1].includes(at)],
  ['every seventh', (at) => at % 7 === 3],
  ['a whole page and one more', (at) => (at >= PAGE && at < 2 * PAGE) || at === 21],
  ['all but three', (at) => ![5, 57, 58].includes(at)],
]
const REFUSE = `alter table intake.patients add constraint picky check (last_name <> 'refused') not valid`
const idOf = (at: number) => `p${String(at).padStart(3, '0')}`
const ids = Array.from({ length: COUNT }, (_, at) => idOf(at))

/** Each with children; none may be lost or attached to another record. */
const record = (at: number, isRefused: boolean, state: string, updated_at: string): LittleRecord =>
  patient(idOf(at), {
    ...{ last_name: isRefused ? 'refused' : state, city: state, updated_at },
    patient_tags: [
      { name: `${idOf(at)} ${state}`, color: null },
      { name: 'of all', color: null },
    ],
    emergency_contact: { first_name: `${idOf(at)} ${state}` },
  })

/** Rows with their children, as text. */
const ROWS = `select p.id || ' ' || p.city || ' ' || coalesce(c.first_name, '-') || ' ' ||
    coalesce((select string_agg(t.name, ',' order by t.position) from intake.patient_tags t
              where t.team_id = p.team_id and t.patient_id = p.id), '-') as line
  from intake.patients p left join intake.patient_emergency_contacts c on c.team_id = p.team_id and c.patient_id = p.id
  where p.team_id = $1 order by 1`
const lineOf = (at: number, state: string) =>
  `${idOf(at)} ${state} ${idOf(at)} ${state} ${idOf(at)} ${state},of all`

describe.each(PLACES)('%s', (_, isRefused) => {
  const refused = ids.filter((_id, at) => isRefused(at))

  it('are separated from the others in a first load and in a later one', async () => {
    await using service = await startLittleService()
    service.pageSize = PAGE
    await using warehouse = await openWarehouse()
    const { url } = warehouse
    const env = { ...service.env, DATABASE_URL: url, LOG_LEVEL: 'error' }
    const backfill = async () => {
      const ended = await runCommand(['backfill', '--streams', 'patients', '--full', '--json'], env)
      expect(ended.code, ended.output).toBe(4)
      return documentOf(ended).streams.patients
    }
    const rows = async () => (await query<{ line: string }>(url, ROWS, [1])).map(({ line }) => line)
    const waiting = async () =>
      (
        await query<{ id: string | null }>(
          url,
          `select record_id as id from intake_ops.dead_letters where status = 'waiting' order by 1`,
        )
      ).map(({ id }) => id)
    await query(url, REFUSE)
    // Dead-lettered before the batch is written; must survive the splitting of the batch.
    const without = () => service.records.patients.splice(20, 0, { first_name: 'has no id' } as never)
    service.records.patients = ids.map((_id, at) => record(at, isRefused(at), 'once', noonPlus(1)))
    without()
    expect(await backfill()).toMatchObject({
      ...{ fetched: COUNT + 1, changed: COUNT - refused.length, dead_letters: refused.length + 1 },
    })
    const first = ids.flatMap((_id, at) => (isRefused(at) ? [] : [lineOf(at, 'once')]))
    expect(await rows()).toEqual(first)
    expect(await waiting()).toEqual([...refused, null])
    service.records.patients = ids.map((_id, at) => record(at, isRefused(at), 'twice', noonPlus(2)))
    without()
    expect(await backfill()).toMatchObject({
      changed: COUNT - refused.length,
      dead_letters: refused.length + 1,
    })
    expect(await rows()).toEqual(first.map((line) => line.replaceAll('once', 'twice')))
    expect([...new Set(await waiting())]).toEqual([...refused, null])
  })

  it('are separated among events with the same ids of two teams in one batch', async () => {
    await using scene = await openScene()
    await scene.rows(REFUSE)
    const other = await teamIdOf(scene.session.db, 'other')
    const store = async (teamId: number, isBad: (at: number) => boolean, state: string) => {
      const events = ids.map((id, at) => ({
        ...patientEvent(id, 1),
        data: record(at, isBad(at), state, noonPlus(1)),
      }))
      await scene.store(events, { teamId })
    }
    // For the other team, the records that are valid here are rejected, and vice versa.
    await store(scene.teamId, isRefused, 'mine')
    await store(other, (at) => !isRefused(at), 'theirs')
    const teams = [
      { name: 'default', teamId: scene.teamId },
      { name: 'other', teamId: other },
    ]
    await scene.drain({ teams, backoffMs: [] })
    const rows = async (teamId: number) =>
      (await scene.rows<{ line: string }>(ROWS, [teamId])).map(({ line }) => line)
    expect(await rows(scene.teamId)).toEqual(
      ids.flatMap((_id, at) => (isRefused(at) ? [] : [lineOf(at, 'mine')])),
    )
    expect(await rows(other)).toEqual(ids.flatMap((_id, at) => (isRefused(at) ? [lineOf(at, 'theirs')] : [])))
    expect(await scene.inbox()).toEqual({ dead: COUNT, done: COUNT })
    const deadLetters = await scene.rows<{ team_id: number; record_id: string }>(
      'select team_id, record_id from intake_ops.dead_letters order by 1, 2',
    )
    expect(deadLetters).toEqual([
      ...refused.map((record_id) => ({ team_id: scene.teamId, record_id })),
      ...ids.filter((id) => !refused.includes(id)).map((record_id) => ({ team_id: other, record_id })),
    ])
  })
})
