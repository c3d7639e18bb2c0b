-- An answer is shown if the wording that it answers was decided on, whatever the type of its value. The text of the question
-- is stored with each answer and, from here on, with each cell of a matrix.

alter table intake.response_matrix_cells add column question_text text;
comment on column intake.response_matrix_cells.question_text is 'Text of the question as the response shows it; null if it shows none.';

-- The same text that a load writes: the cell's own, else that of an answer to the same question.
update intake.response_matrix_cells cell set question_text = coalesce(shown.own, shown.answered)
from (
  select c.team_id, c.response_id, c.position,
    case when part.record -> 'question' ->> 'id' = c.question_id
      then coalesce(part.record -> 'question' ->> 'text', part.record -> 'question' ->> 'question_text') end as own,
    (select a.question_text from intake.response_answers a
     where a.team_id = c.team_id and a.response_id = c.response_id and a.question_id = c.question_id
       and a.question_text is not null
     order by a.position, a.value_position limit 1) as answered
  from intake.response_matrix_cells c
  left join intake_raw.records r on r.team_id = c.team_id and r.stream = 'responses' and r.id = c.response_id
  cross join lateral (
    select coalesce(r.payload -> 'matrix_cells', r.payload -> 'matrix_answers', r.payload -> 'matrix') -> (c.position - 1) as record
  ) part
) shown
where cell.team_id = shown.team_id and cell.response_id = shown.response_id and cell.position = shown.position
  and coalesce(shown.own, shown.answered) is not null;

alter table intake_ops.classifications add column by_type boolean not null default false;
alter table intake_ops.classifications add column shows text not null generated always as (
  case when not is_visible then 'nothing' when decided_by = 'person' and not by_type then 'everything' else 'structured' end
) stored;
comment on column intake_ops.classifications.by_type is 'True when a person decided that analysts see what the type of the question shows: classify set QUESTION structured.';
comment on column intake_ops.classifications.shows is 'nothing; structured (choices of the form, numbers, yes and no); or everything (also texts, and the year of dates).';

alter table intake_raw.question_terms add column is_reworded boolean not null default false;
alter table intake_raw.question_terms add column waits boolean not null default false;
comment on column intake_raw.question_terms.is_reworded is 'True if the question had another text before: an answer without the text that it answers is hidden.';
comment on column intake_raw.question_terms.waits is 'True if the question was decided on, then reworded, and waits for a decision (classify).';

update intake_raw.question_terms t set is_reworded = true
where (
  select count(*) from intake_ops.classifications c
  where c.team_id = t.team_id and c.form_id = t.form_id and c.question_id = t.question_id
) > 1;

create function intake_ops.shown_of(
  term_shows text, kind text, term_text text, is_reworded boolean, answered_text text, former_shows text
) returns text language sql immutable parallel safe
  return case
    when term_shows is null or term_shows = 'nothing' then 'nothing'
    when answered_text = term_text then term_shows
    when coalesce(answered_text, '') = '' and (not is_reworded or coalesce(term_text, '') = '') then term_shows
    when former_shows = 'nothing' then 'nothing'
    when former_shows = 'everything' then term_shows
    when former_shows = 'structured' or kind = 'choice' then 'structured'
    else 'nothing'
  end;
comment on function intake_ops.shown_of(text, text, text, boolean, text, text) is 'How much analysts see of one answer: as its question''s terms say if it answers the wording that they are about; of a former wording, what a person decided about that, and the choices that the form offers or offered.';

-- A question that a form has twice, with two texts or types, is two questions; no answer to either is shown. A choice
-- question that was shown by its type goes on showing its choices when it is reworded: these are texts of the form.
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
      coalesce(kinds.kind, 'other') as kind, asked.is_one, true as is_asked, null::text as shown,
      t.question_id is not null
        and (t.is_reworded or coalesce(t.question_text, '') <> coalesce(asked.question_text, '')) as is_reworded
    from asked
    left join kinds on kinds.written = lower(asked.question_type)
    left join intake_raw.question_terms t
      on t.team_id = of_team and t.form_id = of_form and t.question_id = asked.question_id
    union all
    select t.question_id, t.position, t.question_text, t.question_type, t.kind, true, false, t.shows, t.is_reworded
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
  ), before as (
    select question_id, (array_agg(shows order by decided_at desc, is_visible))[1] as last_shown, bool_or(is_visible) as was_shown
    from intake_ops.classifications
    where team_id = of_team and form_id = of_form
    group by question_id
  )
  select of_team, of_form, known.question_id, known.position, known.question_text, known.question_type, known.kind,
    own.decided_by,
    case
      when not known.is_one then 'nothing'
      when own.shows is not null then own.shows
      when not known.is_asked then known.shown
      when known.kind in ('choice', 'number', 'checkbox') and before.question_id is null then 'structured'
      when known.kind = 'choice' and before.last_shown = 'structured' then 'structured'
      else 'nothing'
    end,
    known.is_asked, coalesce(offered.texts, '{}'), known.is_reworded,
    known.is_asked and own.shows is null and before.question_id is not null and known.kind <> 'none'
      and (before.was_shown or known.kind in ('choice', 'number', 'checkbox'))
  from known
  left join offered using (question_id)
  left join before using (question_id)
  left join intake_ops.classifications own
    on own.team_id = of_team and own.form_id = of_form and own.question_id = known.question_id
    and own.wording = intake_ops.wording(known.question_type, known.question_text)
$$;

-- Matches columns of exports to questions, by the rule that src/load/exports/match-questions.ts states. The rows that change
-- are locked in the order of their keys, because a form and a file may be loaded at the same time.
create function intake_raw.match_columns(
  of_team smallint, of_export text, of_forms text[], export_columns regclass, exports regclass
) returns bigint language plpgsql as $$
declare
  changed bigint;
begin
  execute format($match$
    with cells as materialized (
      select own.export_id, own.position, own.title, own.question_id, entry.form_id
      from %1$s own
      join %2$s entry on entry.team_id = own.team_id and entry.id = own.export_id
      where own.team_id = $1 and ($2 is null or own.export_id = $2) and ($3 is null or entry.form_id = any ($3))
    ), questions as materialized (
      select form_id, position, question_id, question_type, text
      from intake.form_questions
      where team_id = $1 and form_id in (select form_id from cells)
    ), candidates as (
      select cells.export_id, cells.position, questions.question_id, questions.position as place
      from cells join questions on questions.form_id = cells.form_id and questions.text = cells.title
      union all
      select cells.export_id, cells.position, questions.question_id, questions.position
      from cells join questions on questions.form_id = cells.form_id
        and questions.question_type = 'matrix' and questions.text <> ''
        and starts_with(cells.title, questions.text || ' - ')
        and position(' - ' in substr(cells.title, length(questions.text) + 4)) > 0
    ), matched as (
      select export_id, position, min(question_id) as question_id
      from candidates group by export_id, position
      having count(distinct coalesce('id ' || question_id, 'place ' || place)) = 1
    ), locked as (
      select own.export_id, own.position, matched.question_id
      from %1$s own
      join cells using (export_id, position)
      left join matched using (export_id, position)
      where own.team_id = $1 and own.question_id is distinct from matched.question_id
      order by own.export_id, own.position
      for update of own
    )
    update %1$s own set question_id = locked.question_id
    from locked
    where own.team_id = $1 and own.export_id = locked.export_id and own.position = locked.position
  $match$, export_columns, exports) using of_team, of_export, of_forms;
  get diagnostics changed = row_count;
  return changed;
end
$$;
comment on function intake_raw.match_columns(smallint, text, text[], regclass, regclass) is 'Matches columns of exports to questions of their forms by title; returns the number that changed.';

-- The rows are locked before they are computed: whoever decides on a question while its form changes decides on what
-- the form says then. Columns of exports are matched again when their form changes, once: a load deletes its questions and
-- inserts those that it has now.
create or replace function intake_raw.follow_questions() returns trigger language plpgsql as $$
declare
  form record;
begin
  for form in select distinct team_id, form_id from touched order by team_id, form_id loop
    perform from intake_raw.question_terms t
    where t.team_id = form.team_id and t.form_id = form.form_id order by t.question_id for update;
    insert into intake_raw.question_terms as stored select * from intake_raw.terms_of(form.team_id, form.form_id)
    on conflict (team_id, form_id, question_id) do update
      set position = excluded.position, question_text = excluded.question_text, question_type = excluded.question_type,
        kind = excluded.kind, decided_by = excluded.decided_by, shows = excluded.shows, is_asked = excluded.is_asked,
        choices = excluded.choices, is_reworded = excluded.is_reworded, waits = excluded.waits
      where stored is distinct from excluded;
  end loop;
  if tg_table_name = 'form_questions' and tg_op <> 'DELETE' then
    perform intake_raw.match_columns(team_id, null, array_agg(distinct form_id), 'intake.export_columns', 'intake.exports')
    from touched where form_id is not null group by team_id order by team_id;
  end if;
  return null;
end
$$;

-- A question that waits is recognized as one.
insert into intake_raw.question_terms as stored
select terms.*
from (select distinct team_id, form_id from intake_raw.question_terms) form
cross join lateral intake_raw.terms_of(form.team_id, form.form_id) terms
on conflict (team_id, form_id, question_id) do update
  set shows = excluded.shows, decided_by = excluded.decided_by, is_reworded = excluded.is_reworded, waits = excluded.waits
  where stored is distinct from excluded;
