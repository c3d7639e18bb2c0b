-- An item counts if its choice is one that analysts see (intake_ops.shown_of) and that has points. A form is scored if it has
-- a question for each item of the instrument. Two different points for one item, from two questions or a repeated answer,
-- count as none.
create or replace view intake_analytics.scores with (security_barrier = true) as
with items as materialized (
  select i.team_id, i.form_id, i.question_id, q.shows, q.kind, q.question_type, q.question_text, q.is_reworded, q.choices, i.instrument, i.item
  from intake_analytics.instrument_questions i
  join intake_raw.question_terms q using (team_id, form_id, question_id)
), forms as materialized (
  select items.team_id, items.form_id, items.instrument, own.items
  from items
  join (select instrument, count(*) as items from intake_ops.instrument_items group by instrument) own using (instrument)
  group by items.team_id, items.form_id, items.instrument, own.items
  having count(distinct items.item) = own.items
), given as (
  select a.team_id, a.response_id, items.form_id, items.instrument, items.item,
    case when count(distinct p.points) = 1 then min(p.points) end as points
  from forms
  join items using (team_id, form_id, instrument)
  join intake.response_answers a on a.team_id = items.team_id and a.question_id = items.question_id
  left join intake_ops.classifications former
    on former.team_id = items.team_id and former.form_id = items.form_id and former.question_id = items.question_id
    and former.wording = case when a.question_text is distinct from items.question_text
      then intake_ops.wording(items.question_type, a.question_text) end
    and former.decided_by = 'person'
  join intake_ops.instrument_points p
    on p.instrument = items.instrument and p.item = items.item and p.choice = intake_ops.plain_wording(a.value_text)
  where a.value_text = any (items.choices)
    and intake_ops.shown_of(
      items.shows, items.kind, items.question_text, items.is_reworded, a.question_text, former.shows
    ) <> 'nothing'
  group by a.team_id, a.response_id, items.form_id, items.instrument, items.item
), summed as (
  select team_id, response_id, form_id, instrument, count(points) as answered, sum(points) as points,
    array_agg(item) filter (where points = 0) as zero_items
  from given
  group by team_id, response_id, form_id, instrument
)
select r.team_id, r.id as response_id,
  case when r.patient_id is not null then intake_ops.pseudonym(k.inner_pad, k.outer_pad, r.team_id, r.patient_id) end as patient,
  r.form_id, f.name as form, r.submitted_at, i.instrument, i.title, forms.items::int as items,
  coalesce(s.answered, 0)::int as items_answered, scored.score, scored.is_prorated, banded.band
from forms
join intake_ops.instruments i using (instrument)
join intake.responses r on r.team_id = forms.team_id and r.form_id = forms.form_id
cross join intake_ops.analytics_key k
left join summed s
  on s.team_id = r.team_id and s.response_id = r.id and s.form_id = r.form_id and s.instrument = forms.instrument
left join intake.forms f on f.team_id = r.team_id and f.id = r.form_id
left join intake.patients p on p.team_id = r.team_id and p.id = r.patient_id
cross join lateral (
  select case
      when s.answered = forms.items or i.zero_item = any (s.zero_items) then s.points
      when s.answered >= i.least_answered then round(s.points * forms.items / s.answered)
    end as score,
    coalesce(s.answered between i.least_answered and forms.items - 1, false)
      and not coalesce(i.zero_item = any (s.zero_items), false) as is_prorated
) scored
left join lateral (
  select b.band from intake_ops.instrument_bands b
  where b.instrument = i.instrument and b.from_score <= scored.score and b.sex in ('any', lower(p.sex_at_birth))
  order by b.from_score desc limit 1
) banded on true
where r._deleted_at is null and r.is_submitted and r.is_skipped is not true;

comment on view intake_analytics.scores is 'One row per submitted response and instrument (intake-sync instruments list) that its form asks.';
comment on column intake_analytics.scores.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.scores.response_id is 'The response (intake_analytics.responses).';
comment on column intake_analytics.scores.patient is 'Pseudonym of the patient (intake_analytics.patients).';
comment on column intake_analytics.scores.form_id is 'The form.';
comment on column intake_analytics.scores.form is 'Name of the form as it is now.';
comment on column intake_analytics.scores.submitted_at is 'When the response was submitted.';
comment on column intake_analytics.scores.instrument is 'Short name of the instrument, such as phq-9.';
comment on column intake_analytics.scores.title is 'Full name of the instrument.';
comment on column intake_analytics.scores.items is 'Items of the instrument.';
comment on column intake_analytics.scores.items_answered is 'Items answered with a choice that has points and may be seen.';
comment on column intake_analytics.scores.score is 'Sum of the points; null where too few items were answered for a score.';
comment on column intake_analytics.scores.is_prorated is 'True if items without an answer took the mean of the others, as the instrument allows.';
comment on column intake_analytics.scores.band is 'What the score means; null where that depends on the sex at birth and it is not known.';
