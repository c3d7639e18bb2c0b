-- Wide views: one column a question. Which question has which column is kept here, so that it keeps it.

create table intake_raw.wide_views (
  team_id    smallint not null,
  kind       text not null check (kind in ('form', 'export')),
  subject_id text not null,
  view_name  text not null,
  signature  text not null,
  made_at    timestamptz not null default now(),
  primary key (team_id, kind, subject_id)
);
create unique index wide_views_name on intake_raw.wide_views (kind, view_name);
comment on table intake_raw.wide_views is 'The wide view of each form (in intake) and each export (in intake_analytics).';
comment on column intake_raw.wide_views.team_id is 'The team.';
comment on column intake_raw.wide_views.kind is 'form or export.';
comment on column intake_raw.wide_views.subject_id is 'The form or export.';
comment on column intake_raw.wide_views.view_name is 'Name of the view; a form that is renamed keeps it.';
comment on column intake_raw.wide_views.signature is 'Hash of what the view was made from: while it is the same, nothing is made.';
comment on column intake_raw.wide_views.made_at is 'When the view was last made.';

create table intake_raw.wide_columns (
  team_id       smallint not null,
  kind          text not null,
  subject_id    text not null,
  place         int not null,
  column_name   text not null,
  question_id   text not null,
  data_type     text not null,
  is_array      boolean not null,
  question_text text,
  question_type text,
  first_seen_at timestamptz not null default now(),
  primary key (team_id, kind, subject_id, place),
  unique (team_id, kind, subject_id, column_name),
  foreign key (team_id, kind, subject_id) references intake_raw.wide_views on delete cascade
);
comment on table intake_raw.wide_columns is 'Which question has which column of a wide view. A column is never dropped, renamed or given another type.';
comment on column intake_raw.wide_columns.team_id is 'The team.';
comment on column intake_raw.wide_columns.kind is 'form or export.';
comment on column intake_raw.wide_columns.subject_id is 'The form or export.';
comment on column intake_raw.wide_columns.place is 'Place among the columns of questions, from 1, in the order in which they were first seen.';
comment on column intake_raw.wide_columns.column_name is 'Name of the column, made from the question''s text when it was first seen.';
comment on column intake_raw.wide_columns.question_id is 'The question.';
comment on column intake_raw.wide_columns.data_type is 'Its Postgres type, or that of its elements.';
comment on column intake_raw.wide_columns.is_array is 'True for several choices, files and questions of repeated blocks.';
comment on column intake_raw.wide_columns.question_text is 'Text of the question when the column was made or the form last changed.';
comment on column intake_raw.wide_columns.question_type is 'Type of the question when the column was made.';
comment on column intake_raw.wide_columns.first_seen_at is 'When the column was made.';
