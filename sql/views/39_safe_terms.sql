-- A choice as it may be shown: in a question of ages 90+ is one; of years, none of ninety years ago or longer; and none that
-- seems to be a day, a month or a ZIP code, unless somebody decided on the question.
create or replace function intake_raw.safe_choice(choice text, is_age boolean, is_year boolean, is_decided boolean) returns text
  language sql stable parallel safe
  return case
    when is_age then intake_ops.choice_of_age(choice)
    when is_year and substring(choice from '(?:^|[^0-9])(1[0-9]{3})(?:[^0-9]|$)')::int
      <= extract(year from now() at time zone 'UTC') - 90 then null
    when is_decided then choice
    when choice ~ '(^|[^0-9])[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}([^0-9]|$)|^\s*[0-9]{5}(-[0-9]{4})?\s*$'
      or choice ~* '\m(january|february|march|april|june|july|august|september|october|november|december)\M|^\s*may\s*$'
      or choice ~* '\m(jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)\M[.]?\s+[0-9]' then null
    else choice
  end;
comment on function intake_raw.safe_choice(text, boolean, boolean, boolean) is 'A choice as researchers may see it; null for one that seems to be a date, a ZIP code or a year of ninety years ago.';

-- How much of each question's answers researchers see. A question that was hidden, or was decided to be an age, stays so when
-- it is reworded, until somebody decides again. Choices of a question that seems to ask for a place smaller than a state are
-- hidden until somebody decides.
create or replace view intake_raw.safe_terms as
select q.team_id, q.form_id, q.question_id, q.kind,
  coalesce(d.shows, case
    when former.shows = 'hidden' then 'hidden'
    when q.kind = 'choice' and q.question_text ~* '\m(city|cities|town|towns|village|county|counties|borough|parish|municipality|neighbou?rhood|zip|zipcode|post ?code|postal|ciudad|pueblo|condado|municipio|barrio|stadt|gemeinde|landkreis|ville|commune|città|comune|quartiere|cidade|município|bairro|gemeente|woonplaats)\M'
      then 'hidden'
    else 'type'
  end) as shows,
  coalesce(d.shows, former.shows, '') = 'age' or intake_ops.asks_age(q.question_text) as is_age,
  intake_ops.asks_year(q.question_text) as is_year, coalesce(d.shows = 'visible', false) as is_decided,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'form', q.team_id, q.form_id) as form_code,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'question', q.team_id, q.question_id) as question_code
from intake_raw.question_terms q
cross join intake_ops.analytics_key k
left join intake_ops.research_questions d
  on d.team_id = q.team_id and d.form_id = q.form_id and d.question_id = q.question_id
  and d.wording = intake_ops.wording(q.question_type, q.question_text)
left join (
  select team_id, form_id, question_id, (array_agg(shows order by decided_at desc, shows))[1] as shows
  from intake_ops.research_questions
  group by team_id, form_id, question_id
) former on former.team_id = q.team_id and former.form_id = q.form_id and former.question_id = q.question_id;

comment on view intake_raw.safe_terms is 'How much of each question''s answers the views of intake_safe_harbor show.';
