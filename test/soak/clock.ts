/**
 * A warehouse whose nights are shorter than a day: its clock is the machine's, less some days, and is put forward.
 *
 * Invariant: statements, defaults of columns and triggers see this clock; statistics and autovacuum of Postgres see real
 * time.
 */
import type pg from 'pg'
import { setClock } from '../simulate/backends.ts'

export const DAY_MS = 86_400_000

/** To be called once on a migrated database, before others connect. */
export async function setBack(client: pg.Client, days: number): Promise<void> {
  await setClock(client)
  await client.query(`
    create table sim.shift (by interval not null);
    insert into sim.shift values (make_interval(days => ${-days}));
    create or replace function sim.now() returns timestamptz language sql stable
      as $$ select pg_catalog.now() + by from sim.shift $$;
    create or replace function sim.clock_timestamp() returns timestamptz language sql stable
      as $$ select pg_catalog.clock_timestamp() + by from sim.shift $$;
    grant usage on schema sim to public;
    grant select on sim.shift to public;
    do $$ begin
      execute format('alter database %I set search_path = sim, pg_catalog, public', current_database());
    end $$`)
}

export async function putForward(client: pg.Client, days: number): Promise<void> {
  await client.query('update sim.shift set by = by + make_interval(days => $1)', [days])
}
