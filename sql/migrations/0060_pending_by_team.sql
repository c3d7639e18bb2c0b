-- What waits in the inbox is looked for by team: a drain takes the events of its own teams in the order of storing, and a
-- backfill asks for the records of one page. Events that wait for another team, or for nobody, cost neither of them.

create index inbox_pending_by_team on intake_raw.inbox (team_id, seq) where status = 'pending';
create index inbox_pending_by_record on intake_raw.inbox (team_id, source, record_id) where status = 'pending';
drop index intake_raw.inbox_pending;
