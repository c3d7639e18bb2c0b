-- What a question was, and what it offered, stays known when its form no longer says so: answers that analysts saw, they
-- go on seeing. A choice is what the form offers or offered, by its words: an id beside other words shows nothing.

alter table intake_raw.question_terms add column is_asked boolean not null default true;
alter table intake_raw.question_terms add column choices text[] not null default '{}';
comment on column intake_raw.question_terms.is_asked is 'False for a question that the form no longer has; it keeps its terms.';
comment on column intake_raw.question_terms.choices is 'Texts of the choices that it offers, or ever offered.';

-- A question that stands in a form twice with two texts or types is two questions, of which nothing is shown.
create or replace function intake_raw.terms_of(of_team smallint, of_form text) returns setof intake_raw.question_terms
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
  ), known as (
    select asked.question_id, asked.position, asked.question_text, asked.question_type,
      coalesce(kinds.kind, 'other') as kind, asked.is_one, true as is_asked, null::text as shown
    from asked
    left join kinds on kinds.written = lower(asked.question_type)
    union all
    select t.question_id, t.position, t.question_text, t.question_type, t.kind, true, false, t.shows
    from intake_raw.question_terms t
    where t.team_id = of_team and t.form_id = of_form
      and not exists (select from asked where asked.question_id = t.question_id)
  ), offered as (
    select question_id, array_agg(distinct text order by text) as texts
    from (
      select question_id, text from intake.question_choices where team_id = of_team and form_id = of_form
      union all
      select question_id, unnest(choices) from intake_raw.question_terms where team_id = of_team and form_id = of_form
    ) each
    where text is not null
    group by question_id
  )
  select of_team, of_form, known.question_id, known.position, known.question_text, known.question_type, known.kind,
    own.decided_by,
    case
      when not known.is_one then 'nothing'
      when own.is_visible then case own.decided_by when 'person' then 'everything' else 'structured' end
      when own.is_visible is null and not known.is_asked then known.shown
      when own.is_visible is null and known.kind in ('choice', 'number', 'checkbox') and not exists (
        select from intake_ops.classifications c
        where c.team_id = of_team and c.form_id = of_form and c.question_id = known.question_id
      ) then 'structured'
      else 'nothing'
    end,
    known.is_asked, coalesce(offered.texts, '{}')
  from known
  left join offered using (question_id)
  left join intake_ops.classifications own
    on own.team_id = of_team and own.form_id = of_form and own.question_id = known.question_id
    and own.wording = intake_ops.wording(known.question_type, known.question_text)
$$;

-- The rows are locked before they are computed: whoever decides on a question while its form changes decides on what
-- the form says then.
create or replace function intake_raw.follow_questions() returns trigger language plpgsql as $$
declare
  form record;
begin
  for form in select distinct team_id, form_id from touched order by team_id, form_id loop
    perform from intake_raw.question_terms t
    where t.team_id = form.team_id and t.form_id = form.form_id order by t.question_id for update;
    insert into intake_raw.question_terms as held select * from intake_raw.terms_of(form.team_id, form.form_id)
    on conflict (team_id, form_id, question_id) do update
      set position = excluded.position, question_text = excluded.question_text, question_type = excluded.question_type,
        kind = excluded.kind, decided_by = excluded.decided_by, shows = excluded.shows, is_asked = excluded.is_asked,
        choices = excluded.choices
      where held is distinct from excluded;
  end loop;
  return null;
end
$$;

create or replace function intake_raw.forget_questions() returns trigger language plpgsql as $$
begin
  update intake_raw.question_terms set is_asked = false where is_asked;
  return null;
end
$$;
comment on function intake_raw.forget_questions() is 'Without questions nothing is asked.';

create function intake_raw.follow_choices() returns trigger language plpgsql as $$
begin
  update intake_raw.question_terms t
  set choices = array(select distinct each from unnest(t.choices || offered.texts) each order by each)
  from (
    select team_id, form_id, question_id, array_agg(distinct text) as texts
    from touched where text is not null group by team_id, form_id, question_id
  ) offered
  where t.team_id = offered.team_id and t.form_id = offered.form_id and t.question_id = offered.question_id
    and not offered.texts <@ t.choices;
  return null;
end
$$;
comment on function intake_raw.follow_choices() is 'Adds to the terms of questions the choices that they offer now and did not before.';

create trigger follow_inserted after insert on intake.question_choices
  referencing new table as touched for each statement execute function intake_raw.follow_choices();
create trigger follow_updated after update on intake.question_choices
  referencing new table as touched for each statement execute function intake_raw.follow_choices();

update intake_raw.question_terms t set choices = offered.texts
from (
  select team_id, form_id, question_id, array_agg(distinct text order by text) as texts
  from intake.question_choices where text is not null group by team_id, form_id, question_id
) offered
where offered.team_id = t.team_id and offered.form_id = t.form_id and offered.question_id = t.question_id;
