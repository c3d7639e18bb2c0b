-- Forms with their questions and choices, packets and documents (specification, section 2.3).

create table intake.forms (
  team_id smallint not null,
  id text not null,
  name text,
  text text,
  enabled boolean,
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
comment on table intake.forms is 'One row a form of a team.';
comment on column intake.forms.team_id is 'The team (intake.teams).';
comment on column intake.forms.id is 'The service''s id of the form.';
comment on column intake.forms.name is 'Name of the form.';
comment on column intake.forms.text is 'Description of the form.';
comment on column intake.forms.enabled is 'True when the form can be filled in.';
comment on column intake.forms.created_at is 'When the service created the record.';
comment on column intake.forms.updated_at is 'When the service last changed the record.';
comment on column intake.forms._version is 'Orders the states of this record; see intake_raw.records.';
comment on column intake.forms._deleted_at is 'Set when the service no longer has the record; the other columns are then null.';
comment on column intake.forms._origin is 'Where this state came from: a page or fetch of a run, or an event.';
comment on column intake.forms._loaded_at is 'When this warehouse last wrote the row.';
comment on column intake.forms._hash is 'Content hash of the payload; null when deleted.';
comment on column intake.forms._extra is 'Fields that this version of intake-sync does not know, by name.';
comment on column intake.forms._problems is 'Fields that could not be read as their type: an array of path, reason and original.';

create table intake.form_questions (
  team_id smallint not null,
  form_id text not null,
  position int not null,
  question_id text,
  question_type text,
  question_subtype text,
  text text,
  help_text text,
  sort_order int,
  primary key (team_id, form_id, position)
);
comment on table intake.form_questions is 'Questions of a form, in the order of the payload; texts may repeat or be empty.';
comment on column intake.form_questions.team_id is 'The team (intake.teams).';
comment on column intake.form_questions.form_id is 'The form.';
comment on column intake.form_questions.position is 'Place in the payload, from 1.';
comment on column intake.form_questions.question_id is 'The service''s id of the question.';
comment on column intake.form_questions.question_type is 'Type, for example short_text.';
comment on column intake.form_questions.question_subtype is 'Subtype, if any.';
comment on column intake.form_questions.text is 'Text of the question.';
comment on column intake.form_questions.help_text is 'Help text; may be empty.';
comment on column intake.form_questions.sort_order is 'The service''s order.';

create table intake.question_choices (
  team_id smallint not null,
  form_id text not null,
  question_position int not null,
  position int not null,
  question_id text,
  choice_id text,
  text text,
  primary key (team_id, form_id, question_position, position)
);
comment on table intake.question_choices is 'Choices of a question.';
comment on column intake.question_choices.team_id is 'The team (intake.teams).';
comment on column intake.question_choices.form_id is 'The form.';
comment on column intake.question_choices.question_position is 'Position of the question in form_questions.';
comment on column intake.question_choices.position is 'Place in the payload, from 1.';
comment on column intake.question_choices.question_id is 'The service''s id of the question.';
comment on column intake.question_choices.choice_id is 'The service''s id of the choice.';
comment on column intake.question_choices.text is 'Text of the choice.';

create table intake.packets (
  team_id smallint not null,
  id text not null,
  name text,
  text text,
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
comment on table intake.packets is 'One row a packet: a set of forms sent together.';
comment on column intake.packets.team_id is 'The team (intake.teams).';
comment on column intake.packets.id is 'The service''s id of the packet.';
comment on column intake.packets.name is 'Name of the packet.';
comment on column intake.packets.text is 'Description of the packet.';
comment on column intake.packets.created_at is 'When the service created the record.';
comment on column intake.packets.updated_at is 'When the service last changed the record.';
comment on column intake.packets._version is 'Orders the states of this record; see intake_raw.records.';
comment on column intake.packets._deleted_at is 'Set when the service no longer has the record; the other columns are then null.';
comment on column intake.packets._origin is 'Where this state came from: a page or fetch of a run, or an event.';
comment on column intake.packets._loaded_at is 'When this warehouse last wrote the row.';
comment on column intake.packets._hash is 'Content hash of the payload; null when deleted.';
comment on column intake.packets._extra is 'Fields that this version of intake-sync does not know, by name.';
comment on column intake.packets._problems is 'Fields that could not be read as their type: an array of path, reason and original.';

create table intake.packet_forms (
  team_id smallint not null,
  packet_id text not null,
  position int not null,
  form_id text,
  primary key (team_id, packet_id, position)
);
comment on table intake.packet_forms is 'Forms of a packet, in order; a form may stand twice.';
comment on column intake.packet_forms.team_id is 'The team (intake.teams).';
comment on column intake.packet_forms.packet_id is 'The packet.';
comment on column intake.packet_forms.position is 'Place in the payload, from 1.';
comment on column intake.packet_forms.form_id is 'The form.';

create table intake.documents (
  team_id smallint not null,
  id text not null,
  name text,
  text text,
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
comment on table intake.documents is 'One row a document of a team.';
comment on column intake.documents.team_id is 'The team (intake.teams).';
comment on column intake.documents.id is 'The service''s id of the document.';
comment on column intake.documents.name is 'Name of the document.';
comment on column intake.documents.text is 'Description of the document.';
comment on column intake.documents.created_at is 'When the service created the record.';
comment on column intake.documents.updated_at is 'When the service last changed the record.';
comment on column intake.documents._version is 'Orders the states of this record; see intake_raw.records.';
comment on column intake.documents._deleted_at is 'Set when the service no longer has the record; the other columns are then null.';
comment on column intake.documents._origin is 'Where this state came from: a page or fetch of a run, or an event.';
comment on column intake.documents._loaded_at is 'When this warehouse last wrote the row.';
comment on column intake.documents._hash is 'Content hash of the payload; null when deleted.';
comment on column intake.documents._extra is 'Fields that this version of intake-sync does not know, by name.';
comment on column intake.documents._problems is 'Fields that could not be read as their type: an array of path, reason and original.';

create table intake.document_input_fields (
  team_id smallint not null,
  document_id text not null,
  position int not null,
  field_id text,
  name text,
  label text,
  field_type text,
  required boolean,
  page int,
  primary key (team_id, document_id, position)
);
comment on table intake.document_input_fields is 'Input fields of a document; there are none unless X-API-VERSION v2.1 is asked for.';
comment on column intake.document_input_fields.team_id is 'The team (intake.teams).';
comment on column intake.document_input_fields.document_id is 'The document.';
comment on column intake.document_input_fields.position is 'Place in the payload, from 1.';
comment on column intake.document_input_fields.field_id is 'The service''s id of the field.';
comment on column intake.document_input_fields.name is 'Name of the field.';
comment on column intake.document_input_fields.label is 'Label of the field.';
comment on column intake.document_input_fields.field_type is 'Type of the field.';
comment on column intake.document_input_fields.required is 'True when the field must be filled in.';
comment on column intake.document_input_fields.page is 'Page of the document.';
