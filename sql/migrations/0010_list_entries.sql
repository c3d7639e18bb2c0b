-- By which list entry each record was last fetched, where the service's lists hold summaries only.

create table intake_raw.list_entries (
  team_id smallint not null,
  stream  text not null,
  id      text not null,
  hash    bytea not null,
  primary key (team_id, stream, id)
);
comment on table intake_raw.list_entries is 'Content of the list entry by which each record was last fetched: while it stays, the record is not fetched again.';
comment on column intake_raw.list_entries.team_id is 'The team.';
comment on column intake_raw.list_entries.stream is 'The stream.';
comment on column intake_raw.list_entries.id is 'The service''s id of the record.';
comment on column intake_raw.list_entries.hash is 'First 128 bits of the SHA-256 of the list entry''s canonical text.';
