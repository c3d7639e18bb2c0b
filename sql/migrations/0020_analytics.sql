-- What the views of intake_analytics stand on: the key of their pseudonyms, which questions may be seen, who sees which
-- team. Nothing here holds health data, and nothing here is for analysts themselves.

create table intake_ops.analytics_key (
  is_only   boolean primary key default true check (is_only),
  inner_pad bytea not null check (length(inner_pad) = 64),
  outer_pad bytea not null check (length(outer_pad) = 64),
  origin    text not null check (origin in ('made', 'configured')),
  set_at    timestamptz not null default now()
);
comment on table intake_ops.analytics_key is 'The one key of the pseudonyms in intake_analytics, as the two blocks with which HMAC begins (RFC 2104).';
comment on column intake_ops.analytics_key.is_only is 'True: there is one row.';
comment on column intake_ops.analytics_key.inner_pad is 'The key, each byte xor 0x36.';
comment on column intake_ops.analytics_key.outer_pad is 'The key, each byte xor 0x5c.';
comment on column intake_ops.analytics_key.origin is 'made (here, once) or configured (INTAKE_ANALYTICS_KEY).';
comment on column intake_ops.analytics_key.set_at is 'When it was made or last changed.';
revoke all on intake_ops.analytics_key from public;

-- RFC 2104, section 2: a key of up to 64 bytes is filled up with zeros; a longer one is hashed first.
create function intake_ops.hmac_pad(key bytea, byte int) returns bytea language plpgsql immutable
  set search_path = pg_catalog, pg_temp as $$
declare
  short bytea := case when length(key) > 64 then sha256(key) else key end;
  pad bytea := decode(repeat(lpad(to_hex(byte), 2, '0'), 64), 'hex');
begin
  for place in 0 .. length(short) - 1 loop
    pad := set_byte(pad, place, get_byte(short, place) # byte);
  end loop;
  return pad;
end
$$;
comment on function intake_ops.hmac_pad(bytea, int) is 'The block with which the inner (0x36) or outer (0x5c) hash of HMAC-SHA256 begins.';
revoke all on function intake_ops.hmac_pad(bytea, int) from public;

-- Plain SQL, so that a query holds the expression itself. Without the pads, which only views read, it tells nothing.
create function intake_ops.pseudonym(inner_pad bytea, outer_pad bytea, team_id smallint, id text) returns text
  language sql stable parallel safe
  return encode(sha256(outer_pad || sha256(inner_pad || convert_to(team_id || ':' || id, 'UTF8'))), 'hex');
comment on function intake_ops.pseudonym(bytea, bytea, smallint, text) is 'HMAC-SHA256 of "team:id" in hexadecimal.';

insert into intake_ops.analytics_key (inner_pad, outer_pad, origin)
select intake_ops.hmac_pad(made.key, 54), intake_ops.hmac_pad(made.key, 92), 'made'
from (
  select sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())) as key
) made;

create table intake_ops.classifications (
  team_id       smallint not null,
  form_id       text not null,
  question_id   text not null,
  wording       bytea not null,
  is_visible    boolean not null,
  decided_by    text not null check (decided_by in ('type', 'person')),
  decided_at    timestamptz not null default now(),
  primary key (team_id, form_id, question_id, wording)
);
comment on table intake_ops.classifications is 'Which questions'' answers analysts see. A question whose text or type is another than those decided on is hidden.';
comment on column intake_ops.classifications.team_id is 'The team.';
comment on column intake_ops.classifications.form_id is 'The form.';
comment on column intake_ops.classifications.question_id is 'The question.';
comment on column intake_ops.classifications.wording is 'SHA-256 of the type and the text that were decided on: intake_ops.wording().';
comment on column intake_ops.classifications.is_visible is 'Whether its answers are seen.';
comment on column intake_ops.classifications.decided_by is 'type (as it was first seen: choice, number and checkbox are visible, the rest is not) or person (classify).';
comment on column intake_ops.classifications.decided_at is 'When it was decided.';

create function intake_ops.wording(question_type text, question_text text) returns bytea
  language sql stable parallel safe
  return sha256(convert_to(coalesce(question_type, '') || E'\n' || coalesce(question_text, ''), 'UTF8'));
comment on function intake_ops.wording(text, text) is 'What a classification is bound to.';

create table intake_raw.question_concepts (
  team_id     smallint not null,
  form_id     text not null,
  question_id text not null,
  concept     text not null,
  primary key (team_id, form_id, question_id)
);
comment on table intake_raw.question_concepts is 'What a question asks, in words of yours: questions of several versions and languages of a form that ask the same share a concept.';
comment on column intake_raw.question_concepts.team_id is 'The team (intake.teams).';
comment on column intake_raw.question_concepts.form_id is 'The form.';
comment on column intake_raw.question_concepts.question_id is 'The question.';
comment on column intake_raw.question_concepts.concept is 'Name of the concept.';

create table intake_raw.question_terms (
  team_id       smallint not null,
  form_id       text not null,
  question_id   text not null,
  position      int not null,
  question_text text,
  question_type text,
  kind          text not null,
  decided_by    text,
  shows         text not null check (shows in ('nothing', 'structured', 'everything')),
  primary key (team_id, form_id, question_id)
);
comment on table intake_raw.question_terms is 'On what terms analysts see the answers to each question of each form: follows form_questions and classifications within the same transaction. See intake.questions.';
comment on column intake_raw.question_terms.team_id is 'The team.';
comment on column intake_raw.question_terms.form_id is 'The form.';
comment on column intake_raw.question_terms.question_id is 'The question.';
comment on column intake_raw.question_terms.position is 'Its first place in the form.';
comment on column intake_raw.question_terms.question_text is 'Its text there.';
comment on column intake_raw.question_terms.question_type is 'Its type there, in the service''s word.';
comment on column intake_raw.question_terms.kind is 'choice, number, checkbox, date, text, matrix, file, signature, none (asks nothing) or other.';
comment on column intake_raw.question_terms.decided_by is 'type or person (classify); null where this wording was not decided on.';
comment on column intake_raw.question_terms.shows is 'nothing; structured (choices of the form, numbers, yes and no); or everything: texts, and of dates the year.';

-- A question that stands in a form twice with two texts or types is two questions, of which nothing is shown.
create function intake_raw.terms_of(of_team smallint, of_form text) returns setof intake_raw.question_terms
  language sql stable as $$
  with asked as (
    select question_id,
      min(position) as position,
      (array_agg(text order by position))[1] as question_text,
      (array_agg(question_type order by position))[1] as question_type,
      count(distinct (coalesce(text, ''), coalesce(question_type, ''))) = 1 as is_one
    from intake.form_questions
    where team_id = of_team and form_id = of_form and question_id is not null
      and octet_length(question_id) <= 500 and octet_length(form_id) <= 500
    group by question_id
  ), kinds (written, kind) as (
    values
      ('single_choice', 'choice'), ('multiple_choice', 'choice'), ('choice', 'choice'), ('radio', 'choice'),
      ('dropdown', 'choice'), ('select', 'choice'), ('multi_select', 'choice'), ('multiple_select', 'choice'),
      ('number', 'number'), ('integer', 'number'), ('decimal', 'number'), ('numeric', 'number'),
      ('scale', 'number'), ('slider', 'number'), ('rating', 'number'),
      ('checkbox', 'checkbox'), ('boolean', 'checkbox'), ('yes_no', 'checkbox'),
      ('date', 'date'), ('datetime', 'date'), ('time', 'text'),
      ('short_text', 'text'), ('long_text', 'text'), ('text', 'text'), ('matrix', 'matrix'),
      ('file', 'file'), ('signature', 'signature'), ('display_only', 'none'), ('repeated_block', 'none')
  )
  select of_team, of_form, asked.question_id, asked.position, asked.question_text, asked.question_type,
    coalesce(kinds.kind, 'other'),
    own.decided_by,
    case
      when not asked.is_one then 'nothing'
      when own.is_visible then case own.decided_by when 'person' then 'everything' else 'structured' end
      when own.is_visible is null and kinds.kind in ('choice', 'number', 'checkbox') and not exists (
        select from intake_ops.classifications c
        where c.team_id = of_team and c.form_id = of_form and c.question_id = asked.question_id
      ) then 'structured'
      else 'nothing'
    end
  from asked
  left join kinds on kinds.written = lower(asked.question_type)
  left join intake_ops.classifications own
    on own.team_id = of_team and own.form_id = of_form and own.question_id = asked.question_id
    and own.wording = intake_ops.wording(asked.question_type, asked.question_text)
$$;
comment on function intake_raw.terms_of(smallint, text) is 'The terms of one form, computed.';

create function intake_raw.follow_questions() returns trigger language plpgsql as $$
declare
  form record;
begin
  for form in select distinct team_id, form_id from touched order by team_id, form_id loop
    delete from intake_raw.question_terms t where t.team_id = form.team_id and t.form_id = form.form_id;
    insert into intake_raw.question_terms select * from intake_raw.terms_of(form.team_id, form.form_id);
  end loop;
  return null;
end
$$;
comment on function intake_raw.follow_questions() is 'Computes the terms of the forms anew whose questions, or the decisions on them, were touched.';

create function intake_raw.forget_questions() returns trigger language plpgsql as $$
begin
  delete from intake_raw.question_terms;
  return null;
end
$$;
comment on function intake_raw.forget_questions() is 'Without questions there are no terms.';

create trigger follow_inserted after insert on intake.form_questions
  referencing new table as touched for each statement execute function intake_raw.follow_questions();
create trigger follow_updated after update on intake.form_questions
  referencing new table as touched for each statement execute function intake_raw.follow_questions();
create trigger follow_deleted after delete on intake.form_questions
  referencing old table as touched for each statement execute function intake_raw.follow_questions();
create trigger follow_truncated after truncate on intake.form_questions
  for each statement execute function intake_raw.forget_questions();
create trigger follow_inserted after insert on intake_ops.classifications
  referencing new table as touched for each statement execute function intake_raw.follow_questions();
create trigger follow_updated after update on intake_ops.classifications
  referencing new table as touched for each statement execute function intake_raw.follow_questions();
create trigger follow_deleted after delete on intake_ops.classifications
  referencing old table as touched for each statement execute function intake_raw.follow_questions();

insert into intake_raw.question_terms
select terms.*
from (select distinct team_id, form_id from intake.form_questions) form
cross join lateral intake_raw.terms_of(form.team_id, form.form_id) terms;

create table intake_ops.access (
  login      text not null,
  team_id    smallint not null references intake.teams,
  granted_at timestamptz not null default now(),
  granted_by text not null default session_user,
  primary key (login, team_id)
);
comment on table intake_ops.access is 'Which logins see which teams, where there are several. With one team, every login that has a role sees it.';
comment on column intake_ops.access.login is 'The Postgres role.';
comment on column intake_ops.access.team_id is 'The team it sees.';
comment on column intake_ops.access.granted_at is 'When it was granted.';
comment on column intake_ops.access.granted_by is 'Who granted it.';

-- Asked once a statement, with the role that the statement runs as. Who owns the tables or writes them sees all teams.
create function intake_ops.teams_of(login text) returns smallint[] language plpgsql stable parallel safe
  security definer set search_path = pg_catalog, pg_temp as $$
declare
  teams smallint[] := array(select team_id from intake.teams order by team_id);
begin
  if cardinality(teams) < 2 or exists (
    select from pg_roles r
    where (r.rolname = 'intake_loader' or r.oid = (select nspowner from pg_namespace where nspname = 'intake'))
      and pg_has_role(login::name, r.oid, 'usage')
  ) then
    return teams;
  end if;
  return array(select a.team_id from intake_ops.access a where a.login = teams_of.login order by a.team_id);
end
$$;
comment on function intake_ops.teams_of(text) is 'The teams that a role sees.';
revoke all on function intake_ops.teams_of(text) from public;

create table intake_ops.view_files (
  name    text primary key,
  hash    bytea not null,
  made_at timestamptz not null default now()
);
comment on table intake_ops.view_files is 'The files of sql/views as they were last run: one that changed is run again.';
comment on column intake_ops.view_files.name is 'The file.';
comment on column intake_ops.view_files.hash is 'SHA-256 of its text.';
comment on column intake_ops.view_files.made_at is 'When it was run.';
