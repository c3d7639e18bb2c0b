/**
 * Checks the laws of planned runs. Triggers notice each violation in the transaction that commits it:
 *
 * - a slice is settled once, by the worker that has it, and its run is closed when all others are settled;
 * - only its worker gives a slice back; no slice passes from one worker to another without being taken away, and none is taken
 * from a worker that has its lock and has said within fourteen seconds that it lives. Except that the next run of the same
 * streams takes and cancels, in one transaction, those of a run that was not detached and whose process ended;
 * - no batch is committed by a worker that has no slice of its stream;
 * - a run ends once.
 *
 * At rest every planned run has ended, and its slices are in its report, each once.
 */
import type { BackfillSummary } from '../../src/extract/backfill.ts'
import type { Lane } from './lane.ts'

/** In the schema of the simulation, next to its clock. 7204312 and 7204319 are the kinds of the locks of a run and a worker. */
export const SLICE_LAWS = `
  create table sim.broken (fault text);
  create table sim.replaced (run_id bigint primary key);
  create function sim.has_lock(kind int, name text) returns boolean language sql stable as $$
    select exists (
      select from pg_catalog.pg_locks l cross join intake_ops.lock_key(kind, name) k
      where l.locktype = 'advisory' and l.granted and (l.classid::bigint << 32 | l.objid::bigint) = k
        and l.database = (select oid from pg_catalog.pg_database where datname = current_database())) $$;
  create function sim.may_be_replaced(run bigint) returns boolean language sql stable as $$
    select not sim.has_lock(7204312, run::text)
      and (select options -> 'is_detached' is null from intake_ops.runs where run_id = run) $$;
  create function sim.own_worker() returns text language sql stable
    as $$ select substring(current_setting('application_name') from ' worker (.{8})$') $$;
  create function sim.judge_slice() returns trigger language plpgsql as $$
  begin
    if old.state in ('done', 'canceled') and new is distinct from old then
      insert into sim.broken values (format('slice %s changed after it was settled: %s', old.slice_id, new));
    elsif new.state in ('done', 'canceled') and old.state = 'claimed'
      and sim.own_worker() is distinct from right(old.owner, 8) then
      insert into sim.broken values (format('slice %s was settled by a worker that does not have it', old.slice_id));
    elsif old.state = 'claimed' and new.state = 'pending' and new.takeovers = old.takeovers
      and sim.own_worker() is distinct from right(old.owner, 8) and not sim.may_be_replaced(old.run_id) then
      insert into sim.broken values (format('slice %s was given back by a worker that does not have it', old.slice_id));
    elsif old.state = 'claimed' and new.state = 'claimed' and (new.owner, new.epoch) is distinct from (old.owner, old.epoch) then
      insert into sim.broken values (format('slice %s was claimed from a worker that has it', old.slice_id));
    elsif old.state = 'claimed' and new.state = 'pending' and new.takeovers > old.takeovers
      and sim.own_worker() is distinct from right(old.owner, 8) and old.heartbeat_at > sim.now() - interval '14 seconds'
      and sim.has_lock(7204319, old.owner) then
      insert into sim.broken values (format('slice %s was taken from a living worker', old.slice_id));
    end if;
    if new.state = 'done' and new.team_id is null and exists (
      select from intake_ops.slices other
      where other.run_id = new.run_id and other.team_id is not null and other.state in ('pending', 'claimed')) then
      insert into sim.broken values (format('run %s was closed before its slices were settled', new.run_id));
    end if;
    if old.state = 'pending' and new.state = 'canceled' and sim.may_be_replaced(new.run_id) then
      insert into sim.replaced values (new.run_id) on conflict do nothing;
    end if;
    return null;
  end $$;
  create trigger judge_slice after update on intake_ops.slices for each row execute function sim.judge_slice();
  create function sim.judge_taken() returns trigger language plpgsql as $$
  begin
    if sim.own_worker() is distinct from right(old.owner, 8)
      and not exists (select from intake_ops.slices where slice_id = old.slice_id and state = 'canceled') then
      insert into sim.broken values (format('slice %s was taken from its worker, and not canceled', old.slice_id));
    end if;
    return null;
  end $$;
  create constraint trigger judge_taken after update on intake_ops.slices deferrable initially deferred for each row
    when (old.state = 'claimed' and new.state = 'pending' and new.takeovers = old.takeovers)
    execute function sim.judge_taken();
  create function sim.judge_run() returns trigger language plpgsql as $$
  begin
    insert into sim.broken values (format('run %s ended twice: %s, then %s', new.run_id, old.status, new.status));
    return null;
  end $$;
  create trigger judge_run after update on intake_ops.runs for each row
    when (old.finished_at is not null and (new.status, new.finished_at, new.error)
      is distinct from (old.status, old.finished_at, old.error)) execute function sim.judge_run();
  create function sim.judge_batch() returns trigger language plpgsql as $$
  begin
    if not exists (
      select from intake_ops.slices slice
      where (slice.team_id, slice.stream, slice.state) = (new.team_id, new.stream, 'claimed')
        and right(slice.owner, 8) = sim.own_worker()) then
      insert into sim.broken values (format('a worker without the slice stored %s %s', new.stream, new.id));
    end if;
    return null;
  end $$;
  create constraint trigger judge_batch after insert or update on intake_raw.records deferrable initially deferred
    for each row when (sim.own_worker() is not null) execute function sim.judge_batch()`

export interface SliceJudge {
  /** What happened that must never happen, since the last call. */
  look(): Promise<readonly string[]>
  /** Planned runs that have not ended. */
  unended(): Promise<readonly string[]>
  /** Once every run has ended. */
  atRest(): Promise<readonly string[]>
  summaryOf(runId: string): Promise<BackfillSummary>
  /** Leaves nothing to the workers of other seeds. */
  forget(): Promise<void>
}

export function openSliceJudge(lane: Lane, teamIds: readonly number[]): SliceJudge {
  const own = `select distinct run_id from intake_ops.slices where team_id = any ($1::int[])`
  const texts = async (text: string): Promise<readonly string[]> =>
    (await lane.query<{ text: string }>(text, [teamIds])).map((row) => row.text)

  return {
    async look() {
      const rows = await lane.query<{ fault: string }>('delete from sim.broken returning fault', [])
      return [...new Set(rows.map(({ fault }) => fault))]
    },
    unended: () =>
      texts(`select format('run %s is %s; its slices: %s', run_id, status, (
          select string_agg(format('%s %s of %s', stream, state, owner), ', ' order by slice_id)
          from intake_ops.slices slice where slice.run_id = run.run_id)) as text
        from intake_ops.runs run where run_id in (${own})
          and (status = 'running' or exists (
            select from intake_ops.slices slice
            where slice.run_id = run.run_id and slice.state in ('pending', 'claimed')))
        order by run_id`),
    atRest: () =>
      texts(`
        select format('run %s is %s, and has no end', run_id, status) as text
        from intake_ops.runs where run_id in (${own}) and finished_at is null
        union all
        select format('run %s is interrupted, and nobody canceled or replaced it', run_id)
        from intake_ops.runs where run_id in (${own}) and status = 'interrupted' and canceled_by is null
          and run_id not in (select run_id from sim.replaced)
        union all
        select format('run %s is %s, and its slices %s', run_id, run.status, failed.states)
        from intake_ops.runs run
        join (select run_id, bool_or(result ->> 'status' = 'failed') as some,
                string_agg(result ->> 'status', ', ') as states
              from intake_ops.slices where team_id is not null group by run_id) failed using (run_id)
        where run_id in (${own}) and run.status in ('succeeded', 'needs_attention') and failed.some
        union all
        select format('%s of run %s is %s in the report and %s in its slice', coalesce(slice.stream, part.stream),
          coalesce(slice.run_id, part.run_id), part.status, slice.status)
        from (select run_id, team_id, stream, result ->> 'status' as status from intake_ops.slices
              where team_id = any ($1::int[]) and state in ('done', 'canceled')) slice
        full join (select run_id, team_id, stream, status from intake_ops.run_streams where run_id in (${own})) part
          using (run_id, team_id, stream)
        where part.status is distinct from slice.status`),
    async summaryOf(runId) {
      const rows = await lane.query<{ status: string; name: string; streams: unknown }>(
        `select run.status, team.name, json_agg(json_build_object('stream', stream, 'report', result)) as streams
         from intake_ops.slices join intake_ops.runs run using (run_id) join intake.teams team using (team_id)
         where run_id = $1 group by run.status, team.name`,
        [runId],
      )
      const teams = rows.map(({ name, streams }) => ({ name, streams, failure: null, waiting: 0 }))
      return { runId, status: rows[0]?.status, teams, waitingQuestions: [] } as unknown as BackfillSummary
    },
    async forget() {
      await lane.query('alter table intake_ops.slices disable trigger user', [])
      await lane.query(
        `update intake_ops.slices set state = 'canceled', owner = null
         where state in ('pending', 'claimed') and $1::int[] is not null`,
        [teamIds],
      )
      await lane.query('alter table intake_ops.slices enable trigger user', [])
      await lane.query('delete from sim.broken', [])
    },
  }
}
