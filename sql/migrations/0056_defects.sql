-- Errors of intake-sync itself that did not stop it: they are counted here, so that an alert can name them.

create table intake_ops.defects (
  team_id    smallint not null,
  kind       text not null,
  place      text not null,
  count      bigint not null default 1,
  first_seen timestamptz not null default now(),
  last_seen  timestamptz not null default now(),
  primary key (team_id, kind, place)
);
comment on table intake_ops.defects is 'Errors in intake-sync''s own code, by kind and place. They are to be reported; no value is stored.';
comment on column intake_ops.defects.team_id is 'A team whose events or records were being processed.';
comment on column intake_ops.defects.kind is 'Kind of the error, such as TypeError.';
comment on column intake_ops.defects.place is 'File and line that threw it; empty where unknown.';
comment on column intake_ops.defects.count is 'How often it occurred.';
comment on column intake_ops.defects.first_seen is 'When it occurred first.';
comment on column intake_ops.defects.last_seen is 'When it occurred last.';
