-- What the views of intake_safe_harbor stand on: decisions for researchers, apart from those for analysts, and codes in place
-- of ids. A limited data set may show a town, a date or a full ZIP code; Safe Harbor may not, so a decision for one says
-- nothing about the other.

create schema intake_safe_harbor;
comment on schema intake_safe_harbor is 'De-identified views for researchers: HIPAA Safe Harbor, 45 CFR 164.514(b)(2).';
comment on schema intake_analytics is 'Views for analysts: a limited data set under HIPAA, 45 CFR 164.514(e). Without direct identifiers, with dates and ids of records; not de-identified.';

create table intake_ops.research_questions (
  team_id     smallint not null,
  form_id     text not null,
  question_id text not null,
  wording     bytea not null,
  shows       text not null check (shows in ('hidden', 'visible', 'age')),
  decided_at  timestamptz not null default now(),
  primary key (team_id, form_id, question_id, wording)
);
comment on table intake_ops.research_questions is 'Which questions'' answers researchers see (classify set --researchers). Without a decision: choices of the form and ticks, where analysts see them.';
comment on column intake_ops.research_questions.team_id is 'The team.';
comment on column intake_ops.research_questions.form_id is 'The form.';
comment on column intake_ops.research_questions.question_id is 'The question.';
comment on column intake_ops.research_questions.wording is 'SHA-256 of the type and the text that were decided on: intake_ops.wording().';
comment on column intake_ops.research_questions.shows is 'hidden; visible (also numbers, and the year of dates); or age (a number of years: 90 and over are one).';
comment on column intake_ops.research_questions.decided_at is 'When it was decided.';

create table intake_ops.research_tags (
  team_id    smallint not null,
  name       text not null,
  decided_at timestamptz not null default now(),
  primary key (team_id, name)
);
comment on table intake_ops.research_tags is 'The tags of patients that researchers see (classify tag); all others are hidden.';
comment on column intake_ops.research_tags.team_id is 'The team.';
comment on column intake_ops.research_tags.name is 'The tag.';
comment on column intake_ops.research_tags.decided_at is 'When it was decided.';

-- No message of a pseudonym of analysts begins with a word, so that the two never match.
create function intake_ops.research_code(inner_pad bytea, outer_pad bytea, kind text, team_id smallint, id text) returns text
  language sql stable parallel safe
  return left(encode(sha256(outer_pad || sha256(inner_pad || convert_to(kind || ':' || team_id || ':' || id, 'UTF8'))), 'hex'), 32);
comment on function intake_ops.research_code(bytea, bytea, text, smallint, text) is 'The code of a record in intake_safe_harbor: the first half of the HMAC-SHA256 of "kind:team:id" in hexadecimal.';

create function intake_ops.asks_age(question_text text) returns boolean language sql immutable parallel safe
  return coalesce(question_text ~* '\m(age|aged|ages|old|older|edad|años|alter|jahre|âge|ans|età|anni|idade|anos|leeftijd|jaar)\M', false);
comment on function intake_ops.asks_age(text) is 'Whether a question seems to ask for an age. Its answers of 90 and over are one.';

create function intake_ops.asks_year(question_text text) returns boolean language sql immutable parallel safe
  return coalesce(question_text ~* '\m(years?|born|birth|birthday|dob|año|nacimiento|nacido|nacida|jahr|geboren|geburtsjahr|année|naissance|né|née|anno|nascita|ano|nascimento|geboortejaar)\M', false);
comment on function intake_ops.asks_year(text) is 'Whether a question seems to ask for a year. Its answers of 90 years ago or longer are hidden.';

create function intake_ops.choice_of_age(choice text) returns text language sql immutable parallel safe
  return case
    when choice !~ '(^|[^0-9])(9[0-9]|1[0-4][0-9])([^0-9]|$)' then choice
    when substring(choice from '[0-9]{1,6}')::int >= 90 then '90+'
  end;
comment on function intake_ops.choice_of_age(text) is 'A choice of ages: one of 90 and over is 90+; one that reaches from below 90 to above is hidden.';

-- Hashes of 64 bits: comparing and sorting them is many times faster than the texts, and two that meet by chance only hide more
-- or, of two values in one column, show one with the count of both.
create function intake_ops.group_item(team_id smallint, kind text, scope text, question_id text, value text) returns bigint
  language sql immutable parallel safe
  return hashtextextended(
    kind || chr(31) || team_id || chr(31) || coalesce(scope, '') || chr(31) || coalesce(question_id, '') || chr(31) || value, 0);
comment on function intake_ops.group_item(smallint, text, text, text, text) is 'Stands for a value of a column in the views intake_raw.safe_…_groups; null without a value.';
