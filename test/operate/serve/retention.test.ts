/** Expired rows are removed in portions; those that are current, open or needed stay, and no lock is waited for. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import type { Webhooks } from '../../../src/emulator/webhooks/engine.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { exportClient, exportPerson, hashesOf } from '../../../src/load/erasures.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { erase } from '../../../src/operate/erase/erase.ts'
import { openRetention, type PruneOptions, prune } from '../../../src/operate/serve/retention.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openScene as openService, type Scene as Service } from '../../e2e/support/scene.ts'
import { openScene, patientEvent, type Scene } from '../../ingest/drain/scene.ts'
import { runCommand } from '../../support/run-command.ts'
import { tablesHolding } from '../everywhere.ts'

const DAY = 86_400_000
const inDays = (days: number) => new Date(Date.now() + days * DAY)

describe('of superseded payloads and of what runs left', () => {
  let scene: Scene
  beforeAll(async () => {
    scene = await openScene()
  })
  beforeEach(async () => {
    await scene.session.client.query(
      'truncate intake_ops.runs, intake_ops.dead_letters, intake_ops.schedule_ticks, intake_raw.record_history cascade',
    )
  })
  afterAll(async () => {
    await scene?.[Symbol.asyncDispose]()
  })

  const pruned = (options: Partial<PruneOptions> = {}) =>
    prune({
      db: scene.session.db,
      now: new Date(),
      historyDays: 400,
      runDays: 400,
      forMs: 60_000,
      ...options,
    })
  const query = (text: string, values: readonly unknown[] = []) =>
    scene.session.client.query(text, [...values])

  test('superseded payloads go after their days, in portions, and never a current state', async () => {
    await query(
      `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, payload, superseded_at)
       select $1, 'forms', 'f' || number, now(), now(), false, '\\x00', 'test', '{}', now() - make_interval(days => number)
       from generate_series(1, 2900) as number`,
      [scene.teamId],
    )
    for (const id of ['p-old']) {
      await scene.store([patientEvent(id, 1, { city: 'Before' })])
      await scene.drain()
      await scene.store([patientEvent(id, 2, { city: 'After' })])
      await scene.drain()
    }
    expect(await pruned({ historyDays: null })).toMatchObject({ history: 0 })
    // The day of number 400 is over by the time of the query.
    expect(await pruned()).toMatchObject({ history: 2_501 })
    expect(await pruned({ now: inDays(1) })).toMatchObject({ history: 1 })
    expect(await pruned({ now: inDays(500), forMs: 0 })).toMatchObject({ history: 0 })
    expect(await pruned({ now: inDays(500) })).toMatchObject({ history: 399 })
    expect(
      await scene.rows(`select payload ->> 'city' as city from intake_raw.records where id = 'p-old'`),
    ).toEqual([{ city: 'After' }])
  })

  test('what a run in progress may have superseded stays', async () => {
    await query(
      `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, superseded_at)
       select $1, 'forms', 'f' || number, now(), now(), false, '\\x00', 'test', now() - make_interval(hours => number)
       from generate_series(1, 100) as number`,
      [scene.teamId],
    )
    await query(
      `insert into intake_ops.runs (kind, started_at) values
         ('backfill', now() - interval '30 hours'), ('backfill', now() - interval '50.5 hours'), ('backfill', now())`,
    )
    // History is kept since the first run in progress began.
    expect(await pruned({ historyDays: 1 })).toMatchObject({ history: 50 })
    await query(`update intake_ops.runs set status = 'succeeded', finished_at = now()`)
    expect(await pruned({ historyDays: 1 })).toMatchObject({ history: 27 })
  })

  test('a deleted patient keeps no payload, and an erasure finds rows of exports under removed identities', async () => {
    const person = {
      external_id: 'EHR-55500011',
      first_name: 'Käthe',
      last_name: 'Alt',
      email: 'alt@example.com',
    }
    await scene.store([patientEvent('p-gone', 1, person)])
    await scene.drain()
    await scene.store([
      { ...patientEvent('p-gone', 5, {}, { event_type: 'deleted' }), data: { id: 'p-gone' } },
    ])
    await scene.drain()
    // Another patient's payloads expire with them.
    const another = { external_id: 'EHR-77700022' }
    await scene.store([patientEvent('p-also', 1, another)])
    await scene.drain()
    await scene.store([patientEvent('p-also', 2, { ...another, city: 'After' })])
    await scene.drain()
    await query('delete from intake_raw.inbox')
    await query(
      `insert into intake.export_rows (team_id, export_id, row_number, client_id, first_name, last_name, email) values
         ($1, 'e', 1, 'EHR-55500011', null, null, null), ($1, 'e', 2, '88', 'Käthe', 'ALT', 'Alt@example.com'),
         ($1, 'e', 3, null, 'Käthe', 'Alt', 'alt@example.com'), ($1, 'e', 4, 'EHR-00000000', 'Käthe', 'Alt', null)`,
      [scene.teamId],
    )
    await pruned({ now: inDays(399) })
    expect(await tablesHolding(scene.url, ['"EHR-55500011"'])).toEqual({ 'intake_raw.record_history': 1 })
    await pruned({ now: inDays(401) })
    expect(await tablesHolding(scene.url, ['"EHR-55500011"'])).toEqual({})
    const ofIdentities = 'select distinct id from intake_ops.former_identities order by 1'
    expect(await scene.rows(ofIdentities)).toEqual([{ id: 'p-also' }, { id: 'p-gone' }])
    const patient = { teamId: scene.teamId, id: 'p-gone' }
    await erase({ url: scene.url, patient, forget: false, unnamedRows: true, clock: systemClock })
    expect(await scene.rows('select row_number from intake.export_rows')).toEqual([{ row_number: 4 }])
    expect(await scene.rows(ofIdentities)).toEqual([{ id: 'p-also' }])
  })

  test('of each payload of a patient that goes, the identities stay as hashes of its team, and of nothing else', async () => {
    const other = await teamIdOf(scene.session.db, 'other')
    const name = { first_name: 'Käthe', last_name: 'Alt', email: 'Alt@example.com' }
    await query('delete from intake_ops.former_identities')
    for (const [team, stream, id, payload] of [
      [scene.teamId, 'patients', 'p', { ...name, external_id: 'A' }],
      [scene.teamId, 'patients', 'p', { ...name, external_id: 'B' }],
      // Without an address the name is none.
      [scene.teamId, 'patients', 'q', { ...name, email: '', external_id: 'C' }],
      [scene.teamId, 'forms', 'f', { ...name, external_id: 'D' }],
      [scene.teamId, 'patients', 'r', null],
      [other, 'patients', 'p', { ...name, external_id: 'A' }],
    ] as const)
      await query(
        `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, payload, superseded_at)
         values ($1, $2, $3, now(), now(), $4::jsonb is null, '\\x00', 'test', $4, now() - interval '2 years')`,
        [team, stream, id, payload === null ? null : JSON.stringify(payload)],
      )
    expect(await pruned({ runDays: null })).toMatchObject({ history: 6 })
    const person = exportPerson([name.email, name.first_name, name.last_name])
    const expected: string[] = []
    for (const [team, id, subjects] of [
      [scene.teamId, 'p', [exportClient('A'), exportClient('B'), person]],
      [scene.teamId, 'q', [exportClient('C')]],
      [other, 'p', [exportClient('A'), person]],
    ] as const) {
      const { hashOf } = await hashesOf(scene.session.db, team)
      expected.push(...subjects.map((subject) => `${team} ${id} ${hashOf(subject)}`))
    }
    const stored = await scene.rows<{ line: string }>(
      `select concat_ws(' ', team_id, id, encode(hash, 'hex')) as line from intake_ops.former_identities`,
    )
    expect(stored.map(({ line }) => line).toSorted()).toEqual(expected.toSorted())
  })

  test('runs stay while they are the newest, the newest success, or in progress', async () => {
    const runs: readonly (readonly [
      id: number,
      kind: string,
      days: number,
      streams: string,
      status: string,
    ])[] = [
      [1, 'backfill', 900, 'patients', 'succeeded'],
      [2, 'backfill', 800, 'patients forms', 'succeeded'],
      [3, 'backfill', 700, 'patients', 'failed'],
      [4, 'backfill', 600, 'patients', 'failed'],
      [5, 'backfill', 500, 'forms', 'succeeded'],
      [6, 'verify', 900, 'patients', 'succeeded'],
      [7, 'verify', 800, 'patients', 'succeeded'],
      [8, 'replay', 800, '', 'succeeded'],
      [9, 'backfill', 800, '', 'running'],
      [10, 'backfill', 100, 'forms', 'failed'],
      // Another kind of run, another team and another stream: none of them is newer than those above.
      [11, 'replay', 470, 'patients forms', 'succeeded'],
      [12, 'replay', 460, 'patients forms', 'succeeded'],
      [13, 'backfill', 450, 'patients forms', 'succeeded'],
      [14, 'backfill', 440, 'patients forms', 'succeeded'],
      [15, 'verify', 430, 'forms', 'succeeded'],
      [16, 'verify', 420, 'patients', 'succeeded'],
    ]
    const other = await teamIdOf(scene.session.db, 'other')
    const ofOther = new Set([13, 14, 16])
    for (const [id, kind, days, streams, status] of runs) {
      await query(
        `insert into intake_ops.runs (run_id, kind, status, started_at, finished_at) overriding system value
         values ($1, $2, $3, now() - make_interval(days => $4), case when $3 <> 'running' then now() - make_interval(days => $4) end)`,
        [id, kind, status, days],
      )
      for (const stream of streams.split(' ').filter((name) => name !== '')) {
        if (kind === 'verify') {
          await query(
            `insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra,
               different, repaired, missing_ids, extra_ids, different_ids)
             values ($1, $2, $3, true, 0, 0, 0, 0, 0, 0, '{}', '{}', '[]')`,
            [id, ofOther.has(id) ? other : scene.teamId, stream],
          )
        } else {
          await query(
            'insert into intake_ops.run_streams (run_id, team_id, stream, status) values ($1, $2, $3, $4)',
            [...[id, ofOther.has(id) ? other : scene.teamId, stream, status]],
          )
        }
      }
    }
    await query(`insert into intake_ops.checkpoints (team_id, stream, run_id) values ($1, 'responses', 1)`, [
      scene.teamId,
    ])
    expect(await pruned({ runDays: null })).toMatchObject({ runs: 0 })
    // 2: the newest success of patients. 3, 4: their newest two. 5, 10: those of forms.
    expect(await pruned()).toMatchObject({ runs: 3 })
    const left = await scene.rows<{ id: number }>('select run_id::int as id from intake_ops.runs order by 1')
    expect(left.map(({ id }) => id)).toEqual([2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 14, 15, 16])
    expect(await scene.rows('select run_id::int from intake_ops.checkpoints')).toEqual([{ run_id: 1 }])
    // The end of a run counts; its start, where nobody knows when it ended.
    await query(
      `insert into intake_ops.runs (run_id, kind, status, started_at, finished_at) overriding system value
       values (20, 'replay', 'succeeded', now() - interval '410 days', now() - interval '390 days'),
         (21, 'replay', 'interrupted', now() - interval '410 days', null)`,
    )
    expect(await pruned()).toMatchObject({ runs: 1 })
    const late = 'select run_id::int as id from intake_ops.runs where run_id >= 20'
    expect(await scene.rows(late)).toEqual([{ id: 20 }])
  })

  test('settled dead letters and taken times go; waiting and discarded dead letters stay, and the newest time', async () => {
    for (const status of ['waiting', 'resolved', 'retried', 'discarded']) {
      const place = { teamId: scene.teamId, stream: 'patients', runId: null } as const
      const deadLetter = { recordId: status, origin: 'run:1 page:1', reason: 'no', body: status }
      await storeDeadLetters(scene.session.db, place, [deadLetter])
      await query(
        `update intake_ops.dead_letters set status = $1, created_at = now() - interval '3 years',
           settled_at = case when $1 <> 'waiting' then now() end where record_id = $1`,
        [status],
      )
    }
    for (const days of [1, 399, 401])
      await query(
        `insert into intake_ops.schedule_ticks (team_id, job, due_at, taken_by)
         values ($1, 'backfill', now() - make_interval(days => $2), gen_random_uuid())`,
        [scene.teamId, days],
      )
    // The newest of another team, and of another job.
    const other = await teamIdOf(scene.session.db, 'other')
    for (const [teamId, job] of [
      [other, 'backfill'],
      [scene.teamId, 'another'],
    ])
      await query(
        `insert into intake_ops.schedule_ticks (team_id, job, due_at, taken_by)
         values ($1, $2, now() - interval '401 days', gen_random_uuid())`,
        [teamId, job],
      )
    expect(await pruned()).toMatchObject({ deadLetters: 0, ticks: 1 })
    expect(await pruned({ now: inDays(401) })).toMatchObject({ deadLetters: 2, ticks: 1 })
    const left = await scene.rows<{ id: string }>(
      'select record_id as id from intake_ops.dead_letters order by 1',
    )
    expect(left.map(({ id }) => id)).toEqual(['discarded', 'waiting'])
    expect(await scene.rows('select from intake_ops.schedule_ticks')).toHaveLength(3)
  })

  test('a scan that ended early goes after a day, with the ids of its pages, and one that may be continued stays', async () => {
    for (const [stream, hours] of [
      ['patients', 25],
      ['forms', 23],
    ]) {
      await query(
        `insert into intake_ops.scans (team_id, stream, request, started_at, began_at, first_page, pages, kept_at)
         values ($1, $2, '', now(), now(), '{}', 1, now() - make_interval(hours => $3))`,
        [scene.teamId, stream, hours],
      )
      await query(`insert into intake_ops.scan_pages values ($1, $2, 1, '{}', '{p}')`, [scene.teamId, stream])
    }
    await pruned({ historyDays: null, runDays: null })
    expect(await scene.rows('select stream from intake_ops.scan_pages')).toEqual([{ stream: 'forms' }])
  })

  test('counts of the teams that it is for are summed up, a lock that is not free is an error that may pass', async () => {
    await query('truncate intake_ops.record_counts')
    const other = await teamIdOf(scene.session.db, 'other')
    for (const team of [scene.teamId, other])
      await query(
        `insert into intake_ops.record_counts (team_id, stream, live, deleted) select $1, 'forms', 1, 0 from generate_series(1, 500)`,
        [team],
      )
    await pruned({ teams: ['other'] })
    expect(
      await scene.rows(
        'select team_id as team, count(*)::int as rows from intake_ops.record_counts group by 1 order by 1',
      ),
    ).toEqual([
      { team: scene.teamId, rows: 500 },
      { team: other, rows: 1 },
    ])
    await query('truncate intake_ops.record_counts')
    await using retention = await openRetention(scene.url)
    const { rows } = await retention.client.query('show lock_timeout')
    expect(rows).toEqual([{ lock_timeout: '1s' }])
    await retention.client.query(`set lock_timeout = '20ms'`)
    await using holder = await openSession({ url: scene.url, purpose: 'other' })
    await holder.client.query('begin; lock table intake_ops.runs in access exclusive mode')
    await expect(pruned({ db: retention.db })).rejects.toMatchObject({
      name: 'IntakeError',
      verdict: 'retry',
    })
  })

  test('rows that another session has locked are left for the next time, without waiting', async () => {
    await query(
      `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, superseded_at)
       select $1, 'forms', id, now(), now(), false, '\\x00', 'test', now() - interval '2 years' from unnest('{a,b}'::text[]) as id`,
      [scene.teamId],
    )
    await using other = await openSession({ url: scene.url, purpose: 'other' })
    await other.client.query('begin')
    await other.client.query(`select from intake_raw.record_history where id = 'a' for update`)
    expect(await pruned()).toMatchObject({ history: 1 })
    await other.client.query('rollback')
    expect(await pruned()).toMatchObject({ history: 1 })
  })
})

describe('of deliveries', () => {
  let service: Service
  beforeAll(async () => {
    service = await openService({ patients: 3, responses: 2 })
    const { attempts } = service.emulator.control.webhooks() as Webhooks
    for (const day of [1, 2, 3, 4, 5, 6]) {
      attempts.add({
        ...{ id: `delivery-${day}`, event_id: `event-${day}`, webhook_config: 'c', event_type: 'updated' },
        ...{ source: 'response', status: 'succeeded', response_status_code: 200, attempts: 1, error: null },
        ...{ created_at: `2026-01-0${day}T00:00:00.000000Z`, next_retry_at: null },
      })
    }
  })
  afterAll(async () => {
    await service?.[Symbol.asyncDispose]()
  })
  const count = async () =>
    (
      await service.query<{ rows: number; records: number }>(
        `select (select count(*)::int from intake.webhook_deliveries where team_id = 1) as rows,
         (select count(*)::int from intake_raw.records where stream = 'webhook_deliveries' and team_id = 1) as records`,
      )
    )[0]!

  test('old entries are not loaded again although the service lists them, and a verification agrees', async () => {
    await service.backfill()
    // An entry without a time does not expire.
    await service.query(
      `update intake.webhook_deliveries set _version = '1970-01-01' where id = 'delivery-2'`,
    )
    await service.query(`update intake_raw.records set version = '1970-01-01' where id = 'delivery-2'`)
    expect(await count()).toEqual({ rows: 6, records: 6 })
    const now = new Date(Date.parse('2026-01-03T12:00:00Z') + 400 * DAY)
    await using retention = await openRetention(service.url)
    const options = { db: retention.db, now, historyDays: null, forMs: 60_000 }
    // The same ids of another team, and of another stream, are others.
    await service.query(
      `insert into intake.teams (team_id, name) overriding system value values (9, 'other')`,
    )
    await service.query(
      `insert into intake.webhook_deliveries (team_id, id, _version, _loaded_at, _origin)
       select 9, id, _version, now(), 'test' from intake.webhook_deliveries`,
    )
    const others = async () =>
      (
        await service.query<{ table: string; rows: number }>(
          `select 'rows' as table, count(*)::int as rows from intake.webhook_deliveries where team_id = 9
           union all select 'records', count(*)::int from intake_raw.records where origin = 'of another'
           union all select 'history', count(*)::int from intake_raw.record_history where origin = 'of another'
           union all select 'entries', count(*)::int from intake_raw.list_entries where hash = '\\x99' order by 1`,
        )
      ).map(({ table, rows }) => `${table} ${rows}`)
    for (const [team, stream] of [
      [9, 'webhook_deliveries'],
      [1, 'forms'],
    ]) {
      const all = 'from intake.webhook_deliveries where team_id = 9'
      const columns = '(team_id, stream, id, version, observed_at, hash, origin'
      await service.query(
        `insert into intake_raw.records ${columns}) select $1, $2, id, _version, now(), '\\x99', 'of another' ${all}`,
        [team, stream],
      )
      await service.query(
        `insert into intake_raw.record_history ${columns}, deleted, superseded_at)
         select $1, $2, id, _version, now(), '\\x99', 'of another', false, now() ${all}`,
        [team, stream],
      )
      await service.query(
        `insert into intake_raw.list_entries (team_id, stream, id, hash) select $1, $2, id, '\\x99' ${all}`,
        [team, stream],
      )
    }
    const own = 'from intake.webhook_deliveries where team_id = 1'
    await service.query(
      `insert into intake_raw.list_entries (team_id, stream, id, hash) select 1, 'webhook_deliveries', id, '\\x01' ${own}`,
    )
    await service.query(
      `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, hash, origin, deleted, superseded_at)
       select 1, 'webhook_deliveries', id, _version, now(), '\\x01', 'test', false, now() ${own}`,
    )
    const before = await others()
    expect(before).toEqual(['entries 12', 'history 12', 'records 12', 'rows 6'])
    // Entries first read today are kept from today, whatever their age.
    expect(await prune({ ...options, runDays: 400 })).toMatchObject({ deliveries: 0 })
    await service.query('update intake.webhook_deliveries set _loaded_at = created_at where team_id = 1')
    await service.query(
      `update intake.webhook_deliveries set _loaded_at = '2020-01-01' where id = 'delivery-2'`,
    )
    expect(await prune({ ...options, runDays: 500 })).toMatchObject({ deliveries: 0 })
    expect(await service.query('select from intake_ops.pruned_logs')).toEqual([])
    expect(await prune({ ...options, runDays: 400 })).toMatchObject({ deliveries: 2 })
    await service.query(
      `update intake.webhook_deliveries set _version = created_at where id = 'delivery-2' and team_id = 1`,
    )
    await service.query(`update intake_raw.records set version = '2026-01-02' where id = 'delivery-2'`)
    expect(await prune({ ...options, runDays: 400 })).toMatchObject({ deliveries: 1 })
    // The next round goes on from there, and a longer retention brings nothing back.
    expect(await prune({ ...options, runDays: 399 })).toMatchObject({ deliveries: 1 })
    expect(await prune({ ...options, runDays: 500 })).toMatchObject({ deliveries: 0 })
    const until = `select before > '2026-01-04T00:00:00Z' and before < '2026-01-04T00:00:01Z' as is_kept from intake_ops.pruned_logs where team_id = 1`
    expect(await service.query(until)).toEqual([{ is_kept: true }])
    expect(await others()).toEqual(before)
    for (const table of ['list_entries', 'record_history'])
      expect(
        await service.query(`select id from intake_raw.${table} where hash = '\\x01' order by id`),
      ).toEqual([{ id: 'delivery-5' }, { id: 'delivery-6' }])
    for (const table of ['intake_raw.records', 'intake_raw.record_history'])
      await service.query(`delete from ${table} where origin = 'of another'`)
    await service.query(`delete from intake_raw.list_entries where hash = '\\x99'`)
    const left = 2
    expect(await count()).toEqual({ rows: left, records: left })
    // The backfills of this test remove nothing of their own, in whatever year it runs.
    const env = { ...service.env, INTAKE_RUN_DAYS: 'off' }
    for (const words of [[], ['--full']]) {
      const ended = await runCommand(['backfill', '--streams', 'webhook_deliveries', ...words], env)
      expect(ended.code, ended.output).toBe(0)
      expect(await count()).toEqual({ rows: left, records: left })
    }
    const verified = await runCommand(['verify', '--streams', 'webhook_deliveries', '--json'], service.env)
    expect([verified.code, JSON.parse(verified.stdout).streams.webhook_deliveries]).toMatchObject([
      0,
      { source: left, warehouse: left, missing: [], extra: [], different: [] },
    ])
  })

  test('a backfill removes what is expired when it ends, and says nothing', async () => {
    await service.query(
      `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, superseded_at)
       select 1, 'forms', 'x', now(), now(), false, '\\x00', 'test', now() - make_interval(days => days) from unnest('{8,6}'::int[]) as days`,
    )
    const history = () => service.query(`select from intake_raw.record_history where id = 'x'`)
    const words = ['backfill', '--streams', 'forms']
    for (const [days, left] of [
      ['off', 2],
      ['7', 1],
    ] as const) {
      const ended = await runCommand(words, { ...service.env, INTAKE_HISTORY_DAYS: days })
      expect([ended.code, (await history()).length]).toEqual([0, left])
    }
  })
})
