-- What each verification found: what the source has beside what the warehouse holds. Ids and names of columns, no value.

create table intake_ops.verifications (
  run_id         bigint not null references intake_ops.runs on delete cascade,
  team_id        smallint not null,
  stream         text not null,
  is_equal       boolean not null,
  source         bigint not null,
  warehouse      bigint not null,
  missing        bigint not null,
  extra          bigint not null,
  different      bigint not null,
  repaired       bigint not null,
  missing_ids    text[] not null,
  extra_ids      text[] not null,
  different_ids  jsonb not null,
  payloads_only  bigint not null default 0,
  newer          bigint not null default 0,
  source_hash    text,
  warehouse_hash text,
  note           text,
  deep           jsonb,
  verified_at    timestamptz not null default now(),
  primary key (run_id, team_id, stream)
);
comment on table intake_ops.verifications is 'One row a stream of a verification: the tables of intake beside what a fresh load of the source would write.';
comment on column intake_ops.verifications.run_id is 'The run.';
comment on column intake_ops.verifications.team_id is 'The team.';
comment on column intake_ops.verifications.stream is 'The stream.';
comment on column intake_ops.verifications.is_equal is 'True when nothing was missing, extra or different.';
comment on column intake_ops.verifications.source is 'Records of the source.';
comment on column intake_ops.verifications.warehouse is 'Live records of the warehouse.';
comment on column intake_ops.verifications.missing is 'Records that only the source has.';
comment on column intake_ops.verifications.extra is 'Records that only the warehouse has, alive.';
comment on column intake_ops.verifications.different is 'Records that both have and that differ.';
comment on column intake_ops.verifications.repaired is 'How many of these the same run mended.';
comment on column intake_ops.verifications.missing_ids is 'Their ids, all of them.';
comment on column intake_ops.verifications.extra_ids is 'Their ids, all of them.';
comment on column intake_ops.verifications.different_ids is 'An array of id and fields: the columns of the root table, and the other tables, that differ.';
comment on column intake_ops.verifications.payloads_only is 'Records of which only parts of the payload that no table shows are older than in the source, which does not call them updated: the name of a patient in a response. No difference.';
comment on column intake_ops.verifications.newer is 'Records that differ because the warehouse has moved on since the source was looked at, or a log that grew. No difference.';
comment on column intake_ops.verifications.source_hash is 'Content hash of what a fresh load would write, whatever the order of rows.';
comment on column intake_ops.verifications.warehouse_hash is 'Content hash of the tables, made in the same way.';
comment on column intake_ops.verifications.note is 'What could not be compared or mended, and why; null where there is nothing to say.';
comment on column intake_ops.verifications.deep is 'Of exports, with --deep: rows and cells that were held against the responses, and the differences by export, response, row and place of the column.';
comment on column intake_ops.verifications.verified_at is 'When the comparison ended.';
