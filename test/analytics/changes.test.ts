/** The change feed: a reader that keeps its place misses nothing, whatever commits late, rolls back or breaks off. */
import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type LittleService, littlePatients, startLittleService } from '../e2e/support/little-service.ts'
import { connect, openWarehouse, query } from '../e2e/support/scene.ts'
import { until } from '../e2e/support/serving.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { type Login, makeLogin } from './logins.ts'

const KEY = 'a key of this test'

let warehouse: TestDatabase
let service: LittleService
let analyst: Login

const run = async (...words: string[]) => {
  const env = { ...service.env, DATABASE_URL: warehouse.url, INTAKE_ANALYTICS_KEY: KEY }
  const ended = await runCommand(words, env)
  expect(ended).toMatchObject({ code: 0 })
}

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService(littlePatients(12))
  await run('migrate')
  await run('backfill')
  analyst = await makeLogin(warehouse.url, 'intake_analyst')
  await query(warehouse.url, 'create schema mart')
  await query(warehouse.url, 'create table mart.place (seq bigint not null)')
  await query(warehouse.url, 'create table mart.copy (stream text, id text, key text, version timestamptz)')
  await query(warehouse.url, 'insert into mart.place values (0)')
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

/** The recipe of docs/warehouse.md: the changes and the place, in one transaction. Returns the number of changes. */
async function follow(client: pg.Client, limit: number, breaksOff = false): Promise<number> {
  await client.query('begin isolation level repeatable read')
  const { rowCount } = await client.query(
    `create temporary table change on commit drop as
     select * from intake.changes where seq > (select seq from mart.place) order by seq fetch first ${limit} rows with ties`,
  )
  await client.query(
    'delete from mart.copy using change where copy.stream = change.stream and copy.key = change.key',
  )
  await client.query(
    `insert into mart.copy
     select r.stream, r.id, change.key, r.version from change join intake_raw.records r using (team_id, stream, id)
     where change.operation = 'upsert'`,
  )
  await client.query(
    'update mart.place set seq = (select max(seq) from change) where exists (select from change)',
  )
  await client.query(breaksOff ? 'rollback' : 'commit')
  return rowCount ?? 0
}

const DIFFERING = `select count(*)::int as differing from mart.copy c
  full join (select stream, id, version from intake_raw.records where not deleted) r using (stream, id, version)
  where c.key is null or r.id is null`

/** Follows until nothing is left, and the copy is equal. */
async function catchUp(client: pg.Client, limit = 50): Promise<void> {
  await until('the copy is equal', async () => {
    let changes = await follow(client, limit)
    while (changes > 0) changes = await follow(client, limit)
    const { rows } = await client.query<{ differing: number }>(DIFFERING)
    return rows[0]!.differing === 0
  })
}

describe('a reader of the change feed', () => {
  it('does not see a change before every older transaction has ended, and then sees both in order', async () => {
    const [late, early] = [await connect(warehouse.url), await connect(warehouse.url)]
    const put = (client: pg.Client, id: string) =>
      client.query(
        `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin)
         values (1, 'patients', $1, now(), now(), '', 'test')`,
        [id],
      )
    const seen = async () => {
      const rows = await query<{ id: string }>(
        warehouse.url,
        `select id from intake.changes where id like 'written %' order by seq`,
      )
      return rows.map(({ id }) => id)
    }
    try {
      await late.query('begin')
      await put(late, 'written first, committed last')
      await put(early, 'written last, committed first')
      expect(await seen()).toEqual([])
      await late.query('commit')
      await until('both are visible', async () => (await seen()).length === 2)
      expect(await seen()).toEqual(['written first, committed last', 'written last, committed first'])
    } finally {
      await Promise.all([late.end(), early.end()])
    }
    await query(warehouse.url, `delete from intake_raw.records where id like 'written %'`)
  })

  it('keeps a record that an older transaction brings back after a younger one removed it', async () => {
    const [older, younger, reader] = await Promise.all([1, 2, 3].map(() => connect(warehouse.url)))
    const put = `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin)
      values (1, 'forms', $1, now(), now(), '', 'test')`
    try {
      await reader!.query('delete from mart.copy')
      await reader!.query('update mart.place set seq = 0')
      await younger!.query(put, ['back'])
      await catchUp(reader!)
      await older!.query('begin')
      await older!.query(put, ['first'])
      await younger!.query(`delete from intake_raw.records where id = 'back'`)
      await older!.query(put, ['back'])
      await older!.query('commit')
      await catchUp(reader!, 1)
      const { rows } = await reader!.query(`select id from mart.copy where stream = 'forms' order by id`)
      expect(rows).toEqual([{ id: 'back' }, { id: 'first' }])
      expect(
        await query(warehouse.url, `select operation from intake.changes where key = $1`, [
          pseudonym('back'),
        ]),
      ).toEqual([{ operation: 'upsert' }])
    } finally {
      await Promise.all([older!.end(), younger!.end(), reader!.end()])
    }
    await query(warehouse.url, `delete from intake_raw.records where stream = 'forms'`)
  })

  it('does not read all removed records whenever new ones are stored', async () => {
    const client = await connect(warehouse.url)
    try {
      await client.query(
        `insert into intake_raw.removed_records (team_id, stream, key)
         select 1, 'webhook_deliveries', 'old ' || number from generate_series(1, 20000) number`,
      )
      await client.query('analyze intake_raw.removed_records')
      await client.query('begin')
      for (const stream of ['patients', 'webhook_deliveries'])
        await client.query(
          `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin)
           select 1, $1, 'new ' || number, now(), now(), '', 'test' from generate_series(1, 2500) number`,
          [stream],
        )
      const { rows } = await client.query(
        `select seq_tup_read::int as scanned from pg_stat_xact_user_tables
         where relid = 'intake_raw.removed_records'::regclass`,
      )
      expect(rows).toEqual([{ scanned: 0 }])
      await client.query('rollback')
    } finally {
      await client.end()
    }
    await query(warehouse.url, `delete from intake_raw.removed_records where key like 'old %'`)
  })

  it('ends with an equal copy after writers that commit late and roll back, and after it broke off', async () => {
    const numbers = fc.sample(fc.nat(999), { seed: 20261122, numRuns: 20_000 })
    let taken = 0
    const next = (bound: number) => numbers[taken++ % numbers.length]! % bound
    const write = async () => {
      const client = await connect(warehouse.url)
      try {
        for (let times = 0; times < 25; times++) {
          await client.query('begin')
          // In the order of keys, as loads do.
          const ids = [...new Set(Array.from({ length: 1 + next(4) }, () => next(30)))].sort((a, b) => a - b)
          for (const id of ids) {
            if (next(10) === 0) {
              await client.query(`delete from intake_raw.records where stream = 'forms' and id = $1`, [
                `f${id}`,
              ])
              continue
            }
            await client.query(
              `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, deleted)
               values (1, 'forms', $1, clock_timestamp(), now(), '', 'test', $2)
               on conflict (team_id, stream, id) do update set version = excluded.version, deleted = excluded.deleted,
                 change_seq = default, changed_at = default`,
              [`f${id}`, next(6) === 0],
            )
          }
          await client.query('select pg_sleep($1)', [next(12) / 1000])
          await client.query(next(5) === 0 ? 'rollback' : 'commit')
        }
      } finally {
        await client.end()
      }
    }
    const reader = await connect(warehouse.url)
    try {
      let writing = true
      const writers = Promise.all([write(), write(), write(), write()]).finally(() => {
        writing = false
      })
      while (writing) await follow(reader, 1 + next(9), next(3) === 0)
      await writers
      await catchUp(reader)
    } finally {
      await reader.end()
    }
    const [copied] = await query<{ copied: number }>(
      warehouse.url,
      `select count(*)::int as copied from mart.copy where stream = 'forms'`,
    )
    expect(copied!.copied).toBeGreaterThan(5)
    await query(warehouse.url, `delete from intake_raw.records where stream = 'forms'`)
  })

  it('gets what runs load, change and delete, and what is erased, by its key', async () => {
    const reader = await connect(warehouse.url)
    const copied = async () => {
      const rows = await query<{ id: string }>(
        warehouse.url,
        `select id from mart.copy where stream = 'patients' order by id`,
      )
      return rows.map(({ id }) => id)
    }
    try {
      await catchUp(reader)
      expect(await copied()).toHaveLength(12)
      const { patients } = service.records
      patients.splice(0, 1)
      patients[0] = { ...patients[0]!, last_name: 'changed', updated_at: '2026-02-01T00:00:00Z' }
      await run('backfill', '--full')
      await catchUp(reader)
      expect(await copied()).toHaveLength(11)
      // A run without changes reports none.
      await run('backfill', '--full')
      expect(await follow(reader, 50)).toBe(0)
      await run('erase', 'patient', 'p5', '--yes')
      await catchUp(reader)
      expect(await copied()).not.toContain('p5')
      expect(
        await query(warehouse.url, 'select id, operation from intake.changes where key = $1', [
          pseudonym('p5'),
        ]),
      ).toEqual([{ id: pseudonym('p5'), operation: 'delete' }])
    } finally {
      await reader.end()
    }
  })

  it('as an analyst gets patients as the views show them, and only streams that the views show', async () => {
    const rows = await analyst.rows<{ stream: string; id: string; operation: string }>(
      'select stream, id, operation from intake_analytics.changes order by seq',
    )
    expect(new Set(rows.map(({ stream }) => stream))).toEqual(new Set(['patients', 'forms']))
    const shown = await analyst.rows<{ patient: string }>('select patient from intake_analytics.patients')
    const upserted = rows.filter(({ stream, operation }) => stream === 'patients' && operation === 'upsert')
    expect(upserted.map(({ id }) => id).sort()).toEqual(shown.map(({ patient }) => patient).sort())
    expect(rows.filter(({ id }) => /^p\d+$/.test(id))).toEqual([])
  })

  it('finds its place by an index, however many changes there are', async () => {
    const client = await connect(warehouse.url)
    await client.query('begin')
    await client.query(
      `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin)
         select min(team_id), 'forms', 'n' || n, now(), now(), '', 'test' from intake.teams, generate_series(1, 20000) n
         group by n`,
    )
    await client.query('analyze intake_raw.records, intake_raw.removed_records')
    const { rows: newest } = await client.query('select max(change_seq) - 10 as seq from intake_raw.records')
    const { rows } = await client.query<{ 'QUERY PLAN': string }>(
      `explain (costs off) select * from intake.changes where seq > ${newest[0].seq}`,
    )
    await client.query('rollback')
    await client.end()
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
    expect(plan).toContain('using records_changes')
    expect(plan).toMatch(/Index Cond: .*change_seq.* > /)
  })
})

describe('removed records', () => {
  it('are forgotten after 400 days, and when they come back; those of other teams and streams stay', async () => {
    const client = await connect(warehouse.url)
    try {
      await client.query('begin')
      await client.query(
        `truncate intake_raw.removed_records;
         insert into intake.teams (name) values ('second'), ('third');
         insert into intake_ops.removed_teams (team_id, name, data) select team_id, name, 'kept' from intake.teams where name = 'third';
         insert into intake_raw.removed_records (team_id, stream, key, removed_at)
           select team_id, 'patients', days || ' days', now() - make_interval(days => days) from intake.teams, unnest('{399,401}'::int[]) days`,
      )
      const records = `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin)
        select team_id, stream, 'same', now(), now(), '', 'test' from intake.teams, unnest('{forms,packets}'::text[]) stream`
      const removed = async () => {
        const { rows } = await client.query<{ line: string }>(
          `select t.name || ' ' || stream || ' ' || case when key ~ 'days' then key else 'same' end as line
           from intake_raw.removed_records join intake.teams t using (team_id) where key ~ 'days' or stream <> 'patients' order by 1`,
        )
        return rows.map(({ line }) => line)
      }
      const before = await removed()
      expect(before).toHaveLength(6)
      await client.query(records)
      await client.query(
        `delete from intake_raw.records where id = 'same' and team_id = (select team_id from intake.teams where name = 'second')`,
      )
      const gone = before.filter((line) => line !== 'second patients 401 days')
      expect(await removed()).toEqual([...gone, 'second forms same', 'second packets same'].sort())
      // Nobody reads changes of a team that was removed.
      await client.query(`delete from intake_raw.records where id = 'same' and stream = 'forms'`)
      const others = gone.filter((line) => !/^(default|third) patients 401/.test(line))
      expect(await removed()).toEqual(
        [...others, 'default forms same', 'second forms same', 'second packets same'].sort(),
      )
      await client.query(`${records} where team_id = 1 and stream = 'forms'`)
      expect(await removed()).toEqual([...others, 'second forms same', 'second packets same'].sort())
    } finally {
      await client.query('rollback')
      await client.end()
    }
  })
})

describe('a warehouse that was restored on another server', () => {
  it('begins its feed anew: changes that the former server numbered are visible again', async () => {
    await query(warehouse.url, `update intake_raw.records set change_seq = 1::bigint << 61 where id = 'p7'`)
    const seen = `select seq from intake.changes where id = 'p7'`
    expect(await query(warehouse.url, seen)).toEqual([])
    await run('migrate')
    expect(await query(warehouse.url, seen)).toEqual([{ seq: '1' }])
  })

  it('keeps the numbers that this server gave, and those of transactions that began meanwhile', async () => {
    const client = await connect(warehouse.url)
    try {
      await client.query('begin isolation level repeatable read')
      await client.query(
        'create temporary table own on commit drop as select id from intake_raw.records limit 0',
      )
      const ahead = '(pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 1 << 20)'
      await client.query(
        `update intake_raw.records set change_seq = ${ahead} - 1 where id = 'p8';
         update intake_raw.records set change_seq = ${ahead} where id = 'p9';
         insert into intake_raw.removed_records (team_id, stream, key, change_seq) values (1, 'forms', 'last', ${ahead} - 1), (1, 'forms', 'ahead', ${ahead})`,
      )
      const { rows } = await client.query<{ ahead: string }>(`select intake_raw.restart_changes() as ahead`)
      expect(rows).toEqual([{ ahead: '1' }])
      const found = await client.query(
        `select id, change_seq = 1 as anew from intake_raw.records where id in ('p8', 'p9') order by 1`,
      )
      expect(found.rows).toEqual([
        { id: 'p8', anew: false },
        { id: 'p9', anew: true },
      ])
      const removed = await client.query(
        `select key from intake_raw.removed_records where stream = 'forms' and key in ('last', 'ahead')`,
      )
      expect(removed.rows).toEqual([{ key: 'last' }])
    } finally {
      await client.query('rollback')
      await client.end()
    }
  })
})

function pseudonym(id: string): string {
  return createHmac('sha256', KEY).update(`1:${id}`).digest('hex')
}
