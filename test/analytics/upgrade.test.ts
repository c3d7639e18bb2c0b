/** The views follow their files: they are recreated when these change, and never when others have built on them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { migrate } from '../../src/analytics/migrate.ts'
import { openEmbedded } from '../../src/embedded/server.ts'
import { openScene, openWarehouse, query } from '../e2e/support/scene.ts'
import { cleanUp, temporaryDirectory } from '../support/embedded-fixture.ts'

const VIEWS = `select format('%I.%I', schemaname, viewname) as name, definition from pg_views
  where schemaname in ('intake', 'intake_raw', 'intake_analytics', 'intake_exports', 'intake_forms', 'intake_safe_harbor') order by 1`
const MADE = 'select name, hash, made_at from intake_ops.view_files order by 1'

interface Made {
  readonly name: string
  readonly hash: Buffer
  readonly made_at: Date
}

describe('views', () => {
  it('are created once, and not again while their files stay the same', async () => {
    await using warehouse = await openWarehouse()
    const before = await query(warehouse.url, MADE)
    expect(before.length).toBeGreaterThan(12)
    await migrate(warehouse.url)
    expect(await query(warehouse.url, MADE)).toEqual(before)
  })

  it('are recreated with their grants after they were dropped, or created from another text', async () => {
    await using warehouse = await openWarehouse()
    const before = await query(warehouse.url, VIEWS)
    const first = await query<Made>(warehouse.url, MADE)
    await query(warehouse.url, 'drop view intake_analytics.freshness')
    // As an earlier version created them: other columns, in another order.
    await query(warehouse.url, 'drop view intake_analytics.teams cascade')
    await query(
      warehouse.url,
      'create view intake_analytics.teams as select name, team_id, environment from intake.teams',
    )
    await query(warehouse.url, `update intake_ops.view_files set hash = '' where name ~ 'teams|patients'`)
    await migrate(warehouse.url)
    expect(await query(warehouse.url, VIEWS)).toEqual(before)
    // They are up to date then: the next start makes none.
    const made = await query<Made>(warehouse.url, MADE)
    expect(made.map(({ made_at }, at) => made_at > first[at]!.made_at)).toEqual(first.map(() => true))
    expect(made.map(({ name, hash }) => [name, hash])).toEqual(first.map(({ name, hash }) => [name, hash]))
    await migrate(warehouse.url)
    expect(await query(warehouse.url, MADE)).toEqual(made)
    const readable = await query<{ name: string; reads: boolean }>(
      warehouse.url,
      `select viewname as name, has_table_privilege('intake_analyst', 'intake_analytics.' || viewname, 'select') as reads
       from pg_views where schemaname = 'intake_analytics'`,
    )
    expect(readable.filter(({ reads }) => !reads)).toEqual([])
  })

  it('also recreate the wide views that depend on them', async () => {
    await using scene = await openScene({ patients: 5, responses: 20, forms: 2, packets: 0, documents: 0 })
    expect((await scene.backfill()).code).toBe(0)
    const before = await query<{ name: string }>(scene.url, VIEWS)
    expect(before.filter(({ name }) => name.startsWith('intake_exports.export_')).length).toBeGreaterThan(1)
    await query(scene.url, 'drop view intake_analytics.teams cascade')
    await query(scene.url, 'create view intake_analytics.teams as select name, team_id from intake.teams')
    await query(scene.url, `update intake_ops.view_files set hash = '' where name ~ 'teams'`)
    await migrate(scene.url)
    expect(await query(scene.url, VIEWS)).toEqual(before)
    // A run recreates outdated views, although no migration is pending.
    await query(scene.url, 'drop view intake_analytics.freshness')
    expect((await scene.backfill()).code).toBe(0)
    expect(await query(scene.url, VIEWS)).toEqual(before)
    const reads = `select has_table_privilege('intake_analyst', 'intake_analytics.freshness', 'select') as reads`
    expect(await query(scene.url, reads)).toEqual([{ reads: true }])
  })

  it('that others depend on are not changed, with a warning', async () => {
    await using warehouse = await openWarehouse()
    await query(warehouse.url, 'create view public.mine as select team from intake_analytics.teams')
    await query(warehouse.url, `update intake_ops.view_files set hash = '' where name ~ 'teams'`)
    // The same columns: replaced in place.
    await migrate(warehouse.url)
    await query(warehouse.url, 'drop view public.mine')
    await query(warehouse.url, 'drop view intake_analytics.teams cascade')
    await query(warehouse.url, 'create view intake_analytics.teams as select name, team_id from intake.teams')
    await query(warehouse.url, 'create view public.mine as select name from intake_analytics.teams')
    await query(warehouse.url, `update intake_ops.view_files set hash = '' where name ~ 'teams'`)
    const before = await query(warehouse.url, VIEWS)
    await expect(migrate(warehouse.url)).rejects.toMatchObject({
      code: 'views_in_use',
      hint: expect.stringContaining('drop what was built on the views'),
    })
    expect(await query(warehouse.url, VIEWS)).toEqual(before)
  })
})

describe('statistics', () => {
  it('exist for the key, and once for a table that was filled; then autovacuum keeps them', async () => {
    await using warehouse = await openWarehouse()
    const known = (table: string) =>
      query<{ rows: number }>(
        warehouse.url,
        'select reltuples::int as rows from pg_class where oid = $1::regclass',
        [table],
      )
    expect(await known('intake_ops.analytics_key')).toEqual([{ rows: 1 }])
    await query(warehouse.url, 'alter table intake.patients set (autovacuum_enabled = false)')
    const fill = `insert into intake.patients (team_id, id, _version, _origin)
      select 1, $1 || n, now(), 'test' from generate_series(1, 20000) n`
    await query(warehouse.url, fill, ['a'])
    expect(await known('intake.patients')).toEqual([{ rows: -1 }])
    await migrate(warehouse.url)
    expect(await known('intake.patients')).toEqual([{ rows: 20_000 }])
    await query(warehouse.url, fill, ['b'])
    await migrate(warehouse.url)
    expect(await known('intake.patients')).toEqual([{ rows: 20_000 }])
  })
})

describe('the key of the pseudonyms', () => {
  it('is different in each warehouse without a configured one, and changes only with the configured one', async () => {
    await using one = await openWarehouse({ empty: true })
    await using other = await openWarehouse({ empty: true })
    const keyOf = async (url: string) =>
      (
        await query<{ pad: string; origin: string }>(
          url,
          `select encode(inner_pad, 'hex') as pad, origin from intake_ops.analytics_key`,
        )
      )[0]!
    for (const { url } of [one, other]) await migrate(url)
    const first = await keyOf(one.url)
    expect(first.origin).toBe('made')
    expect(first.pad).not.toBe((await keyOf(other.url)).pad)
    await migrate(one.url)
    expect(await keyOf(one.url)).toEqual(first)
    // Nobody has a pseudonym yet.
    for (const { url } of [one, other])
      expect((await migrate(url, { analyticsKey: 'the same for both of them' })).notes).toEqual([])
    expect(await keyOf(one.url)).toEqual(await keyOf(other.url))
    expect((await keyOf(one.url)).origin).toBe('configured')
    await query(one.url, `insert into intake.teams (name) values ('t')`)
    await query(
      one.url,
      `insert into intake.patients (team_id, id, _version, _origin) values (1, 'p', now(), 'test')`,
    )
    const again = await migrate(one.url, { analyticsKey: 'the same for both of them' })
    expect(again.notes).toEqual([])
    const rotated = await migrate(one.url, { analyticsKey: 'another' })
    expect(rotated.notes).toEqual([expect.stringContaining('every pseudonym in intake_analytics changed')])
  })
})

describe('a user who owns the database and nothing else', () => {
  let server: Awaited<ReturnType<typeof openEmbedded>>

  beforeAll(async () => {
    server = await openEmbedded({ dataDir: temporaryDirectory(), unsafe: true })
  })
  afterAll(async () => {
    await server.stop()
    await cleanUp()
  })

  it('creates the views, whose readers see teams once the roles exist', async () => {
    await query(server.url, `create role plain login password 'p'`)
    await query(server.url, 'create database modest owner plain')
    const url = new URL(server.url)
    Object.assign(url, { pathname: '/modest', username: 'plain', password: 'p' })
    await migrate(url.href)
    const owner = new URL(server.url)
    owner.pathname = '/modest'
    await migrate(owner.href)
    await query(server.url, `create role ana login password 'p' in role intake_analyst`)
    const ana = new URL(url.href)
    ana.username = 'ana'
    await query(url.href, `insert into intake.teams (name) values ('a')`)
    expect(await query(ana.href, 'select team from intake_analytics.teams')).toEqual([{ team: 'a' }])
    await query(url.href, `insert into intake.teams (name) values ('b')`)
    expect(await query(ana.href, 'select team from intake_analytics.teams')).toEqual([])
    expect(await query(url.href, 'select team from intake_analytics.teams')).toHaveLength(2)
  })
})
