-- An item counts if its choice is one that analysts see (intake_ops.shown_of) and that has points. A form is scored if it has
-- a question for each item of the instrument. Two different points for one item, from two questions or a repeated answer,
-- count as none. Responses and items are united and grouped, not joined: the planner cannot estimate how many answers have
-- points, and would compare each with each response.
create or replace view intake_analytics.scores with (security_barrier = true) as
with worth as materialized (
  select asked.*, offered.choice, p.points
  from intake_raw.instrument_terms asked
  cross join lateral unnest(asked.choices) as offered (choice)
  join intake_ops.instrument_points p
    on p.instrument = asked.instrument and p.item = asked.item and p.choice = intake_ops.plain_wording(offered.choice)
), given as (
  select a.team_id, a.response_id, worth.form_id, worth.instrument, worth.item,
    case when min(worth.points) = max(worth.points) then min(worth.points) end as points
  from worth
  join intake.response_answers a
    on a.team_id = worth.team_id and a.question_id = worth.question_id and a.value_text = worth.choice
  left join intake_ops.classifications former
    on former.team_id = worth.team_id and former.form_id = worth.form_id and former.question_id = worth.question_id
    and former.wording = case when a.question_text is distinct from worth.question_text
      then intake_ops.wording(worth.question_type, a.question_text) end
    and former.decided_by = 'person'
  where intake_ops.shown_of(
    worth.shows, worth.kind, worth.question_text, worth.is_reworded, a.question_text, former.shows
  ) <> 'nothing'
  group by a.team_id, a.response_id, worth.form_id, worth.instrument, worth.item
), forms as (
  select asked.team_id, asked.form_id, asked.instrument, own.items
  from intake_raw.instrument_terms asked
  join (select instrument, count(*) as items from intake_ops.instrument_items group by instrument) own using (instrument)
  group by asked.team_id, asked.form_id, asked.instrument, own.items
  having count(distinct asked.item) = own.items
), parts as (
  select team_id, response_id, form_id, instrument, item, points, null::bigint as items, null as patient_id, null::timestamptz as submitted_at
  from given
  union all
  select r.team_id, r.id, r.form_id, forms.instrument, null, null, forms.items, r.patient_id, r.submitted_at
  from forms
  join intake.responses r on r.team_id = forms.team_id and r.form_id = forms.form_id
  where r._deleted_at is null and r.is_submitted and r.is_skipped is not true
), summed as (
  select team_id, response_id, form_id, instrument, count(points) as answered, sum(points) as points,
    array_agg(item) filter (where points = 0) as zero_items, max(items) as items, max(patient_id) as patient_id,
    max(submitted_at) as submitted_at
  from parts
  group by team_id, response_id, form_id, instrument
  having count(items) > 0
)
select r.team_id, r.response_id,
  case when r.patient_id is not null then intake_ops.pseudonym(k.inner_pad, k.outer_pad, r.team_id, r.patient_id) end as patient,
  r.form_id, f.name as form, r.submitted_at, i.instrument, i.title, r.items::int as items,
  r.answered::int as items_answered, scored.score, scored.is_prorated, banded.band
from summed r
join intake_ops.instruments i using (instrument)
cross join intake_ops.analytics_key k
left join intake.forms f on f.team_id = r.team_id and f.id = r.form_id
left join intake.patients p on p.team_id = r.team_id and p.id = r.patient_id
cross join lateral (
  select case
      when r.answered = r.items or i.zero_item = any (r.zero_items) then r.points
      when r.answered >= i.least_answered then round(r.points * r.items / r.answered)
    end as score,
    coalesce(r.answered between i.least_answered and r.items - 1, false)
      and not coalesce(i.zero_item = any (r.zero_items), false) as is_prorated
) scored
left join lateral (
  select b.band from intake_ops.instrument_bands b
  where b.instrument = i.instrument and b.from_score <= scored.score and b.sex in ('any', lower(p.sex_at_birth))
  order by b.from_score desc limit 1
) banded on true;

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
