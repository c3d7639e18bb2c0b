/** What operators see of three teams with the same ids. */

/** Teams 1, 2 and 3. Runs 1 to 32 are of yesterday; the others of today. */
export const PLANTED = `
  insert into intake.teams (name) values ('north'), ('south'), ('gone');
  insert into intake_ops.runs (kind, status, started_at, finished_at)
    select 'backfill', 'succeeded', now() - interval '26 hours', now() - interval '25 hours' from generate_series(1, 32);
  insert into intake_ops.run_streams (run_id, team_id, stream, status, fetched, changed, seconds)
    select run_id, 1, 'documents', 'succeeded', 10, run_id, 1 from intake_ops.runs;
  insert into intake_ops.run_streams (run_id, team_id, stream, status, requests, fetched, changed, unchanged, deleted, seconds, note)
    values (32, 1, 'patients', 'succeeded', 4, 100, 9, 91, 1, 10, null), (32, 2, 'patients', 'succeeded', 2, 30, 3, 27, 0, 1, null);
  insert into intake_ops.runs (kind, status, options, error) values
    ('verify', 'succeeded', '{}', null), ('verify', 'needs_attention', '{}', null),
    ('backfill', 'needs_attention', '{"teams": ["north", "south"], "since": "2026-01-02T03:04:05Z", "full": false, "window": {"days": 2}}', null),
    ('backfill', 'failed', '{}', 'away'), ('backfill', 'failed', '{}', null);
  update intake_ops.runs set finished_at = now() where finished_at is null;
  insert into intake_ops.run_streams (run_id, team_id, stream, status, requests, fetched, changed, unchanged, deleted, seconds, note)
    values (33, 1, 'patients', 'succeeded', 1, 7777, 0, 0, 0, 1, null),
      (35, 1, 'patients', 'succeeded', 3, 40, 0, 40, 0, 5, null), (35, 2, 'patients', 'failed', 1, 5, 5, 0, 0, 2, 'refused'),
      (37, 2, 'patients', 'needs_attention', 1, 12, 4, 8, 0, 0, null);
  insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different, repaired,
      missing_ids, extra_ids, different_ids, verified_at)
    select run_id, team, stream, false, 900, 400, missing, 0, different, repaired, ids, '{}', '[]', now() - age::interval
    from (values
      (33, 1, 'patients', 4, 0, 0, array['old'], '2 days'), (34, 1, 'patients', 0, 3, 3, array[]::text[], '1 day'),
      (34, 1, 'forms', 0, 0, 0, array[]::text[], '3 days'), (33, 2, 'forms', 2, 0, 0, array['s-1', 's-2'], '2 days'),
      (34, 2, 'patients', 501, 1, 0, (select array_agg('m-' || n order by n) from generate_series(1, 501) n), '1 day'),
      (33, 2, 'packets', 7, 0, 0, array['long ago'], '61 days')
    ) as planted (run_id, team, stream, missing, different, repaired, ids, age);
  insert into intake_ops.events_received (team_id, hour, events, last_at)
    select team, date_trunc('day', now()) - days * interval '1 day', events, now()
    from (values (1, 0, 5), (1, 29, 2), (1, 30, 90), (2, 0, 7)) as planted (team, days, events);
  insert into intake_ops.dead_letters (team_id, stream, record_id, origin, reason, fingerprint, status, seen, last_seen_at)
    select team, stream, id, origin, reason, n::text, status, seen, now()
    from (values
      (1, 1, 'patients', 'p', 'run:1', 'odd', 'waiting', 2), (2, 1, 'patients', 'p', 'event:e-1', 'odd', 'waiting', 1),
      (3, 1, 'patients', null, 'event:e-2 refetch', 'odd', 'waiting', 4), (4, 1, 'patients', 'q', 'event:e-3 refetch', 'odd', 'waiting', 1),
      (5, 1, 'patients', 'p', 'run:1', 'odd', 'discarded', 50), (6, 2, 'patients', 'p', 'run:1', 'odd', 'waiting', 1),
      (7, 1, 'forms', 'p', 'run:1', 'odd', 'waiting', 1), (8, 1, 'patients', 'p', 'run:1', 'other', 'waiting', 1),
      (9, 9, 'inbox', null, 'event:e', ' ', 'waiting', 1), (10, 1, 'webhook_deliveries', 'd', 'run:1', 'odd', 'waiting', 1)
    ) as planted (n, team, stream, id, origin, reason, status, seen) order by planted.n;
  update intake_ops.dead_letters set created_at = '2026-01-02 04:00Z', last_seen_at = '2026-01-03Z' where id in (1, 3, 4);
  update intake_ops.dead_letters set created_at = '2026-01-02 03:04Z', last_seen_at = '2026-01-04 05:06Z' where id = 2;
  insert into intake_ops.dead_letters (team_id, stream, record_id, origin, reason, fingerprint)
    select 2, 'forms', 'f-' || n, 'run:1', 'many', 'many ' || n from generate_series(1, 1001) n;
  insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body, status,
      attempts, settled_at)
    select team, 'e', decode(hash, 'hex'), current_date, now() - age::interval, 'updated', source, 'p', '{}', status, attempts,
      case when status <> 'pending' then now() end
    from (values (1, '0a', 'patient', 'done', 0, '3 min'), (1, '0b', 'patient', 'pending', 2, '301 s'), (2, '0c', 'form', 'pending', 0, '5 s'),
      (3, '0d', 'form', 'pending', 0, '1 h')) as planted (team, hash, source, status, attempts, age);
  insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, payload)
    select team_id, 'patients', 'p', '2026-01-01', '2026-01-01', decode(md5(name), 'hex'), 'run:1 page:1',
      jsonb_build_object('city', 'city of ' || name, 'tags', jsonb_build_array('a', jsonb_build_object('name', 7)), 'none', null)
    from intake.teams;
  insert into intake_ops.problems (team_id, stream, path, reason, count, last_seen)
    select team, stream, path, 'is odd', n, now() - n * interval '1 hour'
    from (values (1, 'patients', 'b', 2), (1, 'patients', 'a', 3), (1, 'patients', 'c', 1), (2, 'patients', 'of south', 4), (1, 'forms', 'of forms', 5))
      as planted (team, stream, path, n);
  insert into intake_ops.drift (team_id, stream, path, type, count) values (1, 'patients', 'nick', 'string', 4), (2, 'patients', 'of south', 'string', 9);
  insert into intake_ops.refetches (team_id, stream, id, reason, origin, attempts) values (2, 'patients', 'p', 'partial', 'event:e', 3);
  insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different, repaired,
      missing_ids, extra_ids, different_ids, verified_at)
    select 33, 2, 'documents', false, 0, 501, 0, 501, 501, 0, '{}', array_agg('e-' || n order by n),
      jsonb_agg(jsonb_build_object('id', 'd-' || n, 'fields', array['city']) order by n), now() - interval '61 days'
    from generate_series(1, 501) n;
  insert into intake_ops.audit (login, action, object) select 'ada', 'act', 'number ' || n from generate_series(1, 201) n`
