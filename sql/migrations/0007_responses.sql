-- Responses with their answers, matrix cells, files and e-signatures (specification, section 2.4). Answers are the many
-- rows of a warehouse: their tables have no index but their keys, so that loading stays fast.

create table intake.responses (
  team_id smallint not null,
  id text not null,
  patient_id text,
  form_id text,
  form_name text,
  packet_id text,
  document_id text,
  is_submitted boolean,
  is_skipped boolean,
  is_archived boolean,
  submitted_at timestamptz,
  created_at timestamptz,
  updated_at timestamptz,
  _version timestamptz not null,
  _deleted_at timestamptz,
  _origin text not null,
  _loaded_at timestamptz not null default now(),
  _hash bytea,
  _extra jsonb,
  _problems jsonb,
  primary key (team_id, id)
);
create index responses_of_patient on intake.responses (team_id, patient_id);
create index responses_of_form on intake.responses (team_id, form_id, submitted_at);
comment on table intake.responses is 'One row a response: what a client submitted, or has yet to submit, for a form or document. Identified health data.';
comment on column intake.responses.team_id is 'The team (intake.teams).';
comment on column intake.responses.id is 'The service''s id of the response.';
comment on column intake.responses.patient_id is 'The patient whose response it is.';
comment on column intake.responses.form_id is 'The form.';
comment on column intake.responses.form_name is 'Name of the form as the response says it; one form may be seen under several.';
comment on column intake.responses.packet_id is 'The packet that the response is part of, if any.';
comment on column intake.responses.document_id is 'The document, if it is the response to one.';
comment on column intake.responses.is_submitted is 'True when submitted; a member of a submitted packet is, answered or not.';
comment on column intake.responses.is_skipped is 'True when packet logic passed the form over: the patient did not fill it in.';
comment on column intake.responses.is_archived is 'True when archived.';
comment on column intake.responses.submitted_at is 'When it was submitted; null before.';
comment on column intake.responses.created_at is 'When the service created the record.';
comment on column intake.responses.updated_at is 'When the service last changed the record.';
comment on column intake.responses._version is 'Orders the states of this record; see intake_raw.records.';
comment on column intake.responses._deleted_at is 'Set when the service no longer has the record; the other columns are then null.';
comment on column intake.responses._origin is 'Where this state came from: a page or fetch of a run, or an event.';
comment on column intake.responses._loaded_at is 'When this warehouse last wrote the row.';
comment on column intake.responses._hash is 'Content hash of the payload; null when deleted.';
comment on column intake.responses._extra is 'Fields that this version of intake-sync does not know, by name.';
comment on column intake.responses._problems is 'Fields that could not be read as their type: an array of path, reason and original.';

create table intake.response_answers (
  team_id smallint not null,
  response_id text not null,
  position int not null,
  value_position int not null,
  answer_id text,
  question_id text,
  question_text text,
  choice_id text,
  value_text text,
  value_number numeric,
  value_boolean boolean,
  value_date date,
  primary key (team_id, response_id, position, value_position)
);
comment on table intake.response_answers is 'One row a value of an answer: each choice, then the free text; one row of nulls for a question answered with nothing.';
comment on column intake.response_answers.team_id is 'The team (intake.teams).';
comment on column intake.response_answers.response_id is 'The response.';
comment on column intake.response_answers.position is 'Place of the answer in the payload, from 1; a question may be answered several times.';
comment on column intake.response_answers.value_position is 'Place of the value in its answer, from 1.';
comment on column intake.response_answers.answer_id is 'The service''s id of the answer.';
comment on column intake.response_answers.question_id is 'The service''s id of the question.';
comment on column intake.response_answers.question_text is 'Text of the question as it was when answered.';
comment on column intake.response_answers.choice_id is 'The choice; null for free text.';
comment on column intake.response_answers.value_text is 'Text of the choice, or the free text, as it came.';
comment on column intake.response_answers.value_number is 'The number, where value_text reads wholly as a finite decimal number, whatever the question''s type.';
comment on column intake.response_answers.value_boolean is 'True for true and yes, false for false and no, in any case; else null.';
comment on column intake.response_answers.value_date is 'The day, where value_text reads wholly as an ISO date that exists.';

create table intake.response_matrix_cells (
  team_id smallint not null,
  response_id text not null,
  position int not null,
  question_id text,
  row_id text,
  row_text text,
  column_id text,
  column_text text,
  value_text text,
  primary key (team_id, response_id, position)
);
comment on table intake.response_matrix_cells is 'Cells of matrix questions; cells that are alike in different rows each have their row.';
comment on column intake.response_matrix_cells.team_id is 'The team (intake.teams).';
comment on column intake.response_matrix_cells.response_id is 'The response.';
comment on column intake.response_matrix_cells.position is 'Place in the payload, from 1.';
comment on column intake.response_matrix_cells.question_id is 'The service''s id of the matrix question.';
comment on column intake.response_matrix_cells.row_id is 'Id or index of the cell''s row, where the service tells one.';
comment on column intake.response_matrix_cells.row_text is 'Text of the cell''s row.';
comment on column intake.response_matrix_cells.column_id is 'Id or index of the cell''s column, where the service tells one.';
comment on column intake.response_matrix_cells.column_text is 'Text of the cell''s column.';
comment on column intake.response_matrix_cells.value_text is 'What stands in the cell, as it came.';

create table intake.response_files (
  team_id smallint not null,
  response_id text not null,
  position int not null,
  file_id text,
  question_id text,
  name text,
  content_type text,
  size_bytes bigint,
  url text,
  primary key (team_id, response_id, position)
);
comment on table intake.response_files is 'Files that were uploaded with a response: what is known of them, never their content.';
comment on column intake.response_files.team_id is 'The team (intake.teams).';
comment on column intake.response_files.response_id is 'The response.';
comment on column intake.response_files.position is 'Place in the payload, from 1.';
comment on column intake.response_files.file_id is 'The service''s id of the file.';
comment on column intake.response_files.question_id is 'The service''s id of the question it answers.';
comment on column intake.response_files.name is 'Name of the file.';
comment on column intake.response_files.content_type is 'Media type.';
comment on column intake.response_files.size_bytes is 'Size in bytes.';
comment on column intake.response_files.url is 'Address without its query string and fragment: where the file lies, no longer a way to get it.';

create table intake.response_signatures (
  team_id smallint not null,
  response_id text not null,
  position int not null,
  signature_id text,
  question_id text,
  signer_name text,
  signed_at timestamptz,
  has_image boolean,
  primary key (team_id, response_id, position)
);
comment on table intake.response_signatures is 'E-signatures of a response, without their images.';
comment on column intake.response_signatures.team_id is 'The team (intake.teams).';
comment on column intake.response_signatures.response_id is 'The response.';
comment on column intake.response_signatures.position is 'Place in the payload, from 1.';
comment on column intake.response_signatures.signature_id is 'The service''s id of the signature.';
comment on column intake.response_signatures.question_id is 'The service''s id of the question it answers.';
comment on column intake.response_signatures.signer_name is 'Name of who signed.';
comment on column intake.response_signatures.signed_at is 'When it was signed.';
comment on column intake.response_signatures.has_image is 'True when the service holds an image of it.';
