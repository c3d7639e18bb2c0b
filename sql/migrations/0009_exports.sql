-- CSV exports of forms (specification, section 4.5): their list, and the files cell by cell.

create table intake.exports (
  team_id smallint not null,
  id text not null,
  name text,
  form_id text,
  form_name text,
  created_at timestamptz,
  _version timestamptz not null,
  _deleted_at timestamptz,
  _origin text not null,
  _loaded_at timestamptz not null default now(),
  _hash bytea,
  _extra jsonb,
  _problems jsonb,
  primary key (team_id, id)
);
comment on table intake.exports is 'One row an export of a team: the answers to one form as a CSV file.';
comment on column intake.exports.team_id is 'The team (intake.teams).';
comment on column intake.exports.id is 'The service''s id of the export.';
comment on column intake.exports.name is 'Name of the export.';
comment on column intake.exports.form_id is 'The form whose answers it holds.';
comment on column intake.exports.form_name is 'Name of that form, as the list of exports says it.';
comment on column intake.exports.created_at is 'When the service created the export.';
comment on column intake.exports._version is 'Orders the states of this record; see intake_raw.records.';
comment on column intake.exports._deleted_at is 'Set when the service no longer lists the export; the other columns are then null.';
comment on column intake.exports._origin is 'Where this state came from: a page or fetch of a run, or an event.';
comment on column intake.exports._loaded_at is 'When this warehouse last wrote the row.';
comment on column intake.exports._hash is 'Content hash of the list entry; null when deleted. That of the file is in intake_raw.export_files.';
comment on column intake.exports._extra is 'Fields that this version of intake-sync does not know, by name.';
comment on column intake.exports._problems is 'What could not be read: an array of path, reason and original. Paths that begin with raw_text are places in the file.';

create table intake.export_columns (
  team_id smallint not null,
  export_id text not null,
  position int not null,
  title text,
  question_id text,
  primary key (team_id, export_id, position)
);
comment on table intake.export_columns is 'The columns of an export''s file after the seven leading ones.';
comment on column intake.export_columns.team_id is 'The team (intake.teams).';
comment on column intake.export_columns.export_id is 'The export.';
comment on column intake.export_columns.position is 'Place in the file, so the first is 8.';
comment on column intake.export_columns.title is 'Title in the header; titles may repeat and be empty. Null for a column beyond the header.';
comment on column intake.export_columns.question_id is 'The question of the export''s form whose text the title is, where exactly one has it.';

create table intake.export_rows (
  team_id smallint not null,
  export_id text not null,
  row_number int not null,
  client_id text,
  first_name text,
  last_name text,
  email text,
  sent_at timestamptz,
  completed_at timestamptz,
  archived boolean,
  primary key (team_id, export_id, row_number)
);
comment on table intake.export_rows is 'The rows of an export''s file, one a client, with the seven leading columns.';
comment on column intake.export_rows.team_id is 'The team (intake.teams).';
comment on column intake.export_rows.export_id is 'The export.';
comment on column intake.export_rows.row_number is 'Place of the row in the file, from 1, the header not counted.';
comment on column intake.export_rows.client_id is 'The patient''s id.';
comment on column intake.export_rows.first_name is 'First name of the client.';
comment on column intake.export_rows.last_name is 'Last name of the client.';
comment on column intake.export_rows.email is 'E-mail address of the client.';
comment on column intake.export_rows.sent_at is 'When the form was sent, read in the team''s zone.';
comment on column intake.export_rows.completed_at is 'When the form was completed, read in the team''s zone.';
comment on column intake.export_rows.archived is 'True when the answers are archived.';

create table intake.export_cells (
  team_id smallint not null,
  export_id text not null,
  row_number int not null,
  position int not null,
  value text not null,
  primary key (team_id, export_id, row_number, position)
);
comment on table intake.export_cells is 'The cells of an export''s file after the seven leading columns; empty cells have no row.';
comment on column intake.export_cells.team_id is 'The team (intake.teams).';
comment on column intake.export_cells.export_id is 'The export.';
comment on column intake.export_cells.row_number is 'The row (intake.export_rows).';
comment on column intake.export_cells.position is 'The column (intake.export_columns).';
comment on column intake.export_cells.value is 'What the cell holds, as text.';

create table intake_raw.export_files (
  team_id smallint not null,
  export_id text not null,
  is_loaded boolean not null,
  hash bytea not null,
  bytes bigint not null,
  is_json_string boolean not null,
  api_version text not null,
  timezone text not null,
  observed_at timestamptz not null,
  origin text not null,
  problems jsonb,
  primary key (team_id, export_id, is_loaded)
);
comment on table intake_raw.export_files is 'The files of exports: the one that is loaded, and a later one that could not be read, while there is one.';
comment on column intake_raw.export_files.team_id is 'The team.';
comment on column intake_raw.export_files.export_id is 'The export.';
comment on column intake_raw.export_files.is_loaded is 'True for the file whose cells are in intake; false for one that was set aside.';
comment on column intake_raw.export_files.hash is 'SHA-256 of the bytes as they came.';
comment on column intake_raw.export_files.bytes is 'How many bytes came.';
comment on column intake_raw.export_files.is_json_string is 'True when the CSV came as one JSON string.';
comment on column intake_raw.export_files.api_version is 'The X-API-VERSION it was asked for with; empty for none.';
comment on column intake_raw.export_files.timezone is 'The zone in which its times were read.';
comment on column intake_raw.export_files.observed_at is 'Lower bound, in the service''s clock, of the moment this file was read there.';
comment on column intake_raw.export_files.origin is 'The run that fetched it.';
comment on column intake_raw.export_files.problems is 'What could not be read in it: an array of path, reason and original.';

create table intake_raw.export_chunks (
  team_id smallint not null,
  export_id text not null,
  is_loaded boolean not null,
  number int not null,
  body bytea not null,
  primary key (team_id, export_id, is_loaded, number),
  foreign key (team_id, export_id, is_loaded) references intake_raw.export_files on delete cascade
);
comment on table intake_raw.export_chunks is 'The bytes of the files of exports, in order.';
comment on column intake_raw.export_chunks.team_id is 'The team.';
comment on column intake_raw.export_chunks.export_id is 'The export.';
comment on column intake_raw.export_chunks.is_loaded is 'Which of the export''s files.';
comment on column intake_raw.export_chunks.number is 'Place in the file, from 1.';
comment on column intake_raw.export_chunks.body is 'The bytes, about a megabyte.';

create table intake_ops.missed_once (
  team_id smallint not null,
  stream text not null,
  id text not null,
  run_id bigint not null,
  missed_at timestamptz not null default now(),
  primary key (team_id, stream, id)
);
comment on table intake_ops.missed_once is 'Records that the last complete list missed, where there is no way to ask for one: they are gone when the next misses them too.';
comment on column intake_ops.missed_once.team_id is 'The team.';
comment on column intake_ops.missed_once.stream is 'The stream.';
comment on column intake_ops.missed_once.id is 'The service''s id of the record.';
comment on column intake_ops.missed_once.run_id is 'The run whose list missed it first.';
comment on column intake_ops.missed_once.missed_at is 'When it was missed first.';

-- Whoever writes a tombstone takes the export's file with it: no writer can leave cells of an export that is gone.
create function intake.remove_files_of_deleted_exports() returns trigger language plpgsql as $$
declare
  gone record;
begin
  for gone in select team_id, id from written where _deleted_at is not null loop
    delete from intake.export_cells where team_id = gone.team_id and export_id = gone.id;
    delete from intake.export_rows where team_id = gone.team_id and export_id = gone.id;
    delete from intake.export_columns where team_id = gone.team_id and export_id = gone.id;
    delete from intake_raw.export_files where team_id = gone.team_id and export_id = gone.id;
  end loop;
  return null;
end
$$;
comment on function intake.remove_files_of_deleted_exports() is 'Removes rows, cells and bytes of exports that became tombstones.';

create trigger remove_files_of_deleted_exports after update on intake.exports
  referencing new table as written
  for each statement execute function intake.remove_files_of_deleted_exports();
