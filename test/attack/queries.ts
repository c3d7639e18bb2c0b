/**
 * Queries of an analyst with too much curiosity, in groups. `refused` must end with an error; `blind` may run, and neither
 * rows nor notices nor errors may contain a mark: the identifiers of the analyst's own team, and anything of another.
 */
import pg from 'pg'
import { SOUTH_ROW, type World } from './world.ts'

interface Group {
  readonly refused?: readonly string[]
  readonly blind?: readonly string[]
}

const over = (names: readonly string[], text: (name: string) => string) => names.map(text)

/** Tables that an analyst may not read. */
const HIDDEN = [
  ...[
    'intake.patients',
    'intake.responses',
    'intake.response_answers',
    'intake.messages',
    'intake.export_cells',
  ],
  ...['intake_raw.records', 'intake_raw.record_history', 'intake_raw.inbox', 'intake_raw.set_aside'],
  ...[
    'intake_raw.export_chunks',
    'intake_ops.access',
    'intake_ops.audit',
    'intake_ops.runs',
    'intake_ops.erasures',
  ],
]
const KEYS = ['analytics_key', 'erasure_key', 'lock_secret', 'receipt_key', 'webhook_secrets'].map(
  (table) => `intake_ops.${table}`,
)

/** What a group asks depends on the views and functions that there are. */
export const GROUPS = (
  views: readonly string[],
  functions: readonly string[],
): Readonly<Record<string, Group>> => ({
  'tables of patients and answers': { refused: over(HIDDEN, (table) => `select from ${table}`) },
  'keys and secrets': { refused: over(KEYS, (table) => `select from ${table}`) },
  'other schemas of the warehouse': {
    refused: [
      'select from intake_safe_harbor.patients',
      'select from intake_fhir.patient',
      'select from intake_ops.slices',
    ],
  },
  'each column of each view': { blind: over(views, (view) => `select to_jsonb(v) from ${view} v`) },
  'rows of another team in each view': {
    blind: over(
      views,
      (view) => `select '${SOUTH_ROW}' from ${view} v where (to_jsonb(v) ->> 'team_id')::int = $south`,
    ),
  },
  'rows of another team by an error': {
    blind: over(views, (view) => `select count(*) from ${view} v where (v::text)::numeric > 0`),
  },
  'rows of another team by a division': {
    blind: over(views, (view) => `select 1 / (length(v::text) - length(v::text)) from ${view} v`),
  },
  'definitions of views': {
    blind: [
      "select pg_get_viewdef(oid) from pg_class where relkind in ('v', 'm')",
      'select definition from pg_views union all select definition from pg_rules',
    ],
  },
  'sources of functions': {
    blind: [
      'select prosrc, prosqlbody::text, proconfig from pg_proc',
      "select pg_get_functiondef(oid) from pg_proc where prokind = 'f'",
    ],
  },
  comments: {
    blind: ['select * from pg_description', 'select * from pg_shdescription', 'select * from pg_seclabels'],
  },
  'the planner: EXPLAIN': {
    blind: over(views, (view) => `explain (verbose, settings) select * from ${view}`),
  },
  'the planner: EXPLAIN ANALYZE': {
    blind: over(views, (view) => `explain (analyze, verbose, buffers) select * from ${view}`),
  },
  'the planner: statistics': {
    blind: [
      'select * from pg_stats',
      'select * from pg_stats_ext',
      'select * from pg_stats_ext_exprs',
      'select * from pg_stat_user_tables',
    ],
    refused: ['select * from pg_statistic', 'select * from pg_statistic_ext_data'],
  },
  'queries of others': {
    blind: [
      'select * from pg_stat_activity',
      'select pg_stat_get_activity(null)',
      'select * from pg_stat_progress_copy',
    ],
  },
  'locks of others': { blind: ['select * from pg_locks'] },
  'tables of its own': {
    refused: [
      ...[
        'create temporary table mine (id int)',
        'create temporary view mine as select 1',
        'create table public.mine (id int)',
      ],
      ...[
        'create schema mine',
        'create table intake_analytics.mine (id int)',
        'select 1 as id into temporary mine',
      ],
    ],
  },
  'functions of its own': {
    refused: [
      ...['pg_temp', 'public', 'intake_analytics'].map(
        (schema) =>
          `create function ${schema}.leak(text) returns boolean language plpgsql cost 0.0001 as $$ begin raise notice '%', $1; return true; end $$`,
      ),
      'create operator public.=== (leftarg = text, rightarg = text, function = texteq)',
      'create aggregate public.mine (text) (sfunc = textcat, stype = text)',
    ],
  },
  'blocks of code': {
    refused: over(HIDDEN, (table) => `do $$ begin execute 'select from ${table}'; end $$`),
    blind: over(
      views,
      (view) =>
        `do $$ declare r record; begin for r in select * from ${view} loop raise notice '%', r; end loop; end $$`,
    ),
  },
  'languages without limits': {
    refused: [
      ...["do language plpython3u 'import os'", "do language plperlu 'exit'", 'create language plperlu'],
      "create function public.mine() returns int language c as '/lib/x86_64-linux-gnu/libc.so.6', 'system'",
    ],
  },
  'functions of the warehouse': { refused: functions },
  'large objects of others': {
    refused: [
      "select lo_import('/etc/passwd')",
      "select lo_export(1, '/tmp/mine')",
      'select loid from pg_largeobject limit 1',
      'select lo_get($lo)',
    ],
  },
  extensions: {
    refused: over(
      ['dblink', 'postgres_fdw', 'file_fdw', 'pageinspect', 'adminpack'],
      (name) => `create extension ${name}`,
    ),
  },
  'servers and wrappers': {
    refused: [
      'create foreign data wrapper mine',
      'create server mine foreign data wrapper mine',
      'create user mapping for current_user server mine',
    ],
  },
  'COPY to and from the machine': {
    refused: [
      ...[
        "copy (select 1) to program 'cat'",
        "copy intake_analytics.patients to '/tmp/mine'",
        "copy intake_analytics.patients from program 'id'",
      ],
      "copy (select * from intake_analytics.patients) to '/tmp/mine'",
    ],
  },
  'files of the server': {
    refused: [
      ...[
        "select pg_read_file('/etc/passwd')",
        "select pg_read_binary_file('PG_VERSION')",
        "select pg_ls_dir('.')",
        'select pg_ls_waldir()',
      ],
      ...[
        "select pg_stat_file('PG_VERSION')",
        'select * from pg_hba_file_rules',
        'select * from pg_file_settings',
        'select pg_current_logfile()',
      ],
    ],
  },
  'other roles': {
    refused: [
      ...[
        'set role intake_loader',
        'set role intake_clinical',
        'set role intake_researcher',
        'set session authorization $owner',
      ],
      ...['grant intake_clinical to current_user', 'grant intake_loader to current_user', 'create role mine'],
    ],
  },
  'more rights': {
    refused: [
      ...[
        'alter role current_user superuser',
        'alter role current_user createrole bypassrls',
        "alter role $owner password 'mine'",
      ],
      ...[
        'alter role intake_analyst set search_path = public',
        'alter default privileges for role $owner grant select on tables to public',
      ],
      ...['grant all on schema intake to current_user', 'alter database $database owner to current_user'],
    ],
  },
  'passwords and mappings': {
    refused: [
      'select * from pg_authid',
      'select * from pg_shadow',
      'select * from pg_user_mapping',
      'select subconninfo from pg_subscription',
    ],
  },
  'settings of the server': {
    refused: [
      ...[
        "alter system set log_statement = 'all'",
        'select pg_reload_conf()',
        "set log_statement = 'all'",
        "set session_preload_libraries = 'mine'",
      ],
      ...[
        "load '/tmp/mine.so'",
        "set dynamic_library_path = '/tmp'",
        "alter database $database set log_statement = 'all'",
        'set zero_damaged_pages = on',
      ],
    ],
  },
  'a name of somebody else': {
    blind: [
      `set application_name = 'intake-sync'; select to_jsonb(v) from intake_analytics.patients v`,
      `set intake.login = '$southern'; select to_jsonb(v) from intake_analytics.patients v`,
      `select set_config('role', 'none', false); select to_jsonb(v) from intake_analytics.patients v`,
    ],
  },
  'row security off': {
    blind: [`set row_security = off; select to_jsonb(v) from intake_analytics.patients v`],
    refused: [
      'alter table intake.patients disable row level security',
      'drop policy clinical on intake.patients',
      'create policy mine on intake.patients',
    ],
  },
  'views with the rights of the reader': {
    refused: over(
      views,
      (view) => `alter view ${view} set (security_invoker = true, security_barrier = false)`,
    ),
  },
  'writing through views': {
    refused: views.flatMap((view) => [
      `insert into ${view} default values`,
      `delete from ${view}`,
      `truncate ${view}`,
    ]),
  },
  'changing and dropping': {
    refused: [
      ...[
        'drop view intake_analytics.patients',
        'drop schema intake cascade',
        'drop database $database',
        'reassign owned by $owner to current_user',
      ],
      ...[
        "comment on table intake.patients is 'mine'",
        'alter table intake.patients add mine int',
        'create index on intake.patients (id)',
      ],
    ],
  },
  'triggers and rules': {
    refused: [
      'create rule mine as on select to intake.patients do instead select 1',
      'create trigger mine before insert on intake.patients execute function suppress_redundant_updates_trigger()',
      'create event trigger mine on ddl_command_start execute function intake_ops.mine()',
    ],
  },
  'locks on tables': {
    refused: over(HIDDEN.slice(0, 8), (table) => `begin; lock table ${table} in access share mode`),
  },
  'sessions of others': {
    refused: [
      'select pg_terminate_backend(pid) from pg_stat_activity where usename <> current_user',
      'select pg_cancel_backend(pid) from pg_stat_activity where usename <> current_user',
      'select pg_log_backend_memory_contexts(pid) from pg_stat_activity where usename <> current_user',
    ],
  },
  replication: {
    refused: [
      ...[
        "select pg_create_physical_replication_slot('mine')",
        "select pg_create_logical_replication_slot('mine', 'pgoutput')",
      ],
      ...[
        'create publication mine for all tables',
        "create subscription mine connection 'host=localhost' publication mine",
      ],
      ...[
        'select pg_switch_wal()',
        "select pg_create_restore_point('mine')",
        "select pg_replication_origin_create('mine')",
      ],
    ],
  },
  sequences: {
    refused: [
      `select nextval(c.oid::regclass) from pg_class c join pg_namespace n on n.oid = c.relnamespace where relkind = 'S' and nspname like 'intake%' limit 1`,
      `select setval(c.oid::regclass, 1) from pg_class c join pg_namespace n on n.oid = c.relnamespace where relkind = 'S' and nspname like 'intake%' limit 1`,
    ],
  },
  'rows as XML': {
    refused: over(
      HIDDEN.slice(0, 8),
      (table) => `select query_to_xml('select * from ${table}', true, false, '')`,
    ),
    blind: ["select schema_to_xml('intake_analytics', true, false, '')"],
  },
  'queries as text': {
    refused: [
      "select ts_stat('select to_tsvector(first_name) from intake.patients')",
      "select * from ts_stat('select to_tsvector(body::text) from intake_raw.inbox')",
    ],
  },
  'where rows lie': {
    blind: over(views, (view) => `select pg_relation_filepath('${view}'), pg_relation_size('${view}')`),
    refused: [
      'select ctid, xmin from intake.patients',
      "select get_raw_page('intake.patients', 0)",
      "select currtid2('intake.patients', '(0,1)')",
    ],
  },
  'names that take the place of others': {
    blind: [
      `set search_path = public, pg_temp, intake_analytics; select to_jsonb(v) from intake_analytics.patients v`,
    ],
    refused: [
      'create function public.current_user() returns text language sql return 1',
      'create view public.teams as select 1',
      'create domain public.mine as text',
    ],
  },
  'cursors and prepared statements': {
    blind: [
      'begin; declare mine cursor with hold for select to_jsonb(v) from intake_analytics.patients v; commit; fetch all from mine',
      'select * from pg_prepared_statements',
      'select * from pg_cursors',
    ],
    refused: ["begin; select 1; prepare transaction 'mine'"],
  },
  'channels of others': {
    blind: [
      'listen intake_inbox; listen intake_ops; select pg_listening_channels()',
      'select * from pg_notification_queue_usage()',
    ],
  },
  'the catalogue': {
    blind: [
      'select * from information_schema.tables',
      'select * from information_schema.columns',
      'select * from pg_class',
      'select * from pg_constraint',
      'select * from pg_partitioned_table',
      'select pg_get_expr(relpartbound, oid) from pg_class',
      'select * from pg_index',
      'select * from pg_settings',
    ],
  },
})

/** What succeeded, a line each. */
export async function askAll({
  analyst,
  owner,
  southern,
  south,
  marks,
}: World): Promise<ReadonlyMap<string, readonly string[]>> {
  const client = new pg.Client({ connectionString: analyst })
  let said: string[] = []
  client.on('error', () => {})
  client.on('notice', (notice) => void said.push(everythingOf(notice)))
  client.on('notification', (notification) => void said.push(JSON.stringify(notification)))
  await client.connect()
  const place = new URL(analyst)
  const given: Readonly<Record<string, string>> = {
    $southern: southern,
    $south: String(south),
    $owner: owner.login,
    $database: place.pathname.slice(1),
    $lo: owner.largeObject,
  }
  const run = async (text: string) => {
    said = []
    const statement = text.replaceAll(/\$(southern|south|owner|database|lo)\b/g, (name) => given[name]!)
    try {
      const answers = [await client.query(statement)].flat()
      for (const { rows } of answers) said.push(JSON.stringify(rows))
      return { ran: true, text: said.join('\n'), code: '' }
    } catch (error) {
      said.push(everythingOf(error as Error))
      return { ran: false, text: said.join('\n'), code: (error as pg.DatabaseError).code ?? '' }
    } finally {
      await client.query('rollback')
      await client.query('reset all')
    }
  }
  const views = await names(
    client,
    `select format('%I.%I', schemaname, viewname) as name from pg_views
     where schemaname in ('intake_analytics', 'intake_exports', 'intake_forms') and has_table_privilege(format('%I.%I', schemaname, viewname), 'select') order by 1`,
  )
  const functions = await names(
    client,
    `select format('select %I.%I(%s)', n.nspname, p.proname,
       (select string_agg(format('null::%s', format_type(t, null)), ', ') from unnest(p.proargtypes) t)) as name
     from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname like 'intake%' and n.nspname not in ('intake_analytics', 'intake_exports') and p.prokind = 'f' and p.prorettype <> 'trigger'::regtype order by 1`,
  )
  const seen = await names(client, 'select team as name from intake_analytics.teams')
  const patients = await names(client, 'select team_id::text as name from intake_analytics.patients limit 1')
  if (seen.length !== 1 || patients.length !== 1)
    throw new Error('the analyst does not see its own team alone')
  if (views.filter((view) => view.startsWith('intake_forms.')).length < 2 || functions.length < 5)
    throw new Error('there are no views or functions to attack')
  const results = new Map<string, readonly string[]>()
  for (const [name, { refused = [], blind = [] }] of Object.entries(GROUPS(views, functions))) {
    const done: string[] = []
    for (const [text, mayRun] of [
      ...refused.map((each) => [each, false] as const),
      ...blind.map((each) => [each, true] as const),
    ]) {
      const { ran, text: shown, code } = await run(text)
      if (NO_REFUSAL.includes(code)) done.push(`proves nothing (${code}): ${text}`)
      if (ran && !mayRun) done.push(`ran: ${text}`)
      // A query that is meant to run and does not proves nothing, unless it provokes an error.
      if (!ran && mayRun && !name.includes(' by ')) done.push(`did not run: ${text}: ${shown.slice(0, 120)}`)
      for (const mark of marks) if (shown.includes(mark.value)) done.push(`shows ${mark.name}: ${text}`)
    }
    results.set(name, done)
  }
  await client.end()
  return results
}

/** Syntax, an undefined column, no transaction: the statement itself is wrong. */
const NO_REFUSAL = ['42601', '42703', '25P01']

const names = async (client: pg.Client, text: string) =>
  (await client.query<{ name: string }>(text)).rows.map(({ name }) => name)

function everythingOf(error: object): string {
  return JSON.stringify({ ...error, message: (error as Error).message })
}
