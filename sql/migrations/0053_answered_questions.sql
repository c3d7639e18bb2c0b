-- Which questions responses answer: a form may no longer ask them, or never have asked them while anybody looked, and a
-- response may answer one several times. Kept, so that answers are read for it once and not at each look.

create table intake_raw.answered_questions (
  team_id       smallint not null,
  form_id       text not null,
  question_id   text not null,
  question_text text,
  repeats       boolean not null,
  primary key (team_id, form_id, question_id)
);
comment on table intake_raw.answered_questions is 'The questions that responses to each form answer; none is ever taken away. Columns of wide views are made of them and of question_terms.';
comment on column intake_raw.answered_questions.team_id is 'The team.';
comment on column intake_raw.answered_questions.form_id is 'The form.';
comment on column intake_raw.answered_questions.question_id is 'The question.';
comment on column intake_raw.answered_questions.question_text is 'Its text, where several patients were asked the same; a text that one was asked may be about them.';
comment on column intake_raw.answered_questions.repeats is 'Whether some response answers it several times, for which there was no column yet.';

create table intake_raw.answers_read (
  is_only boolean primary key default true check (is_only),
  until   timestamptz not null,
  oldest  bigint not null
);
comment on table intake_raw.answers_read is 'How far answered_questions follows the responses.';
comment on column intake_raw.answers_read.is_only is 'True: there is one row.';
comment on column intake_raw.answers_read.until is 'When responses were last looked through.';
comment on column intake_raw.answers_read.oldest is 'The oldest transaction that was open then: what it and later ones wrote is looked at the next time.';
insert into intake_raw.answers_read (until, oldest) values ('-infinity', 0);

-- One row for ever: autovacuum never looks at it, and without statistics every view is planned as if there were hundreds.
analyze intake_ops.analytics_key;
