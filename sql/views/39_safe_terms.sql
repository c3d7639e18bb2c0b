-- An age as of today: the years since it was chosen are added, as they are to numbers. Open ends ("65 or older") have no
-- upper limit of their own; "under 18" begins at 0.
create or replace function intake_raw.safe_age(choice text, years int) returns text language sql immutable parallel safe
  return (
    select case
        when count(*) = 0 then choice
        when choice !~* '^\s*(<|≤|under|below|less|younger|up to)' and min(age) + coalesce(years, 0) >= 90 then '90+'
        when max(age) + years < 90 then choice
      end
    from (select own[1]::int as age from regexp_matches(choice, '[0-9]+', 'g') as own where length(own[1]) < 4) ages
  );
comment on function intake_raw.safe_age(text, int) is 'A choice of ages that was given so many years ago: 90+ where all who gave it are 90 or older by now; null where some may be, or nobody knows when it was given.';

-- A choice as it may be shown when it is given: in a question of ages 90+ is one; none with an e-mail or social security
-- number, nor in a question of years one of ninety years ago; and none that seems to be a day, a month, a quarter, an old
-- year, a ZIP code or a telephone number, unless somebody decided on the question.
create or replace function intake_raw.safe_choice(choice text, is_age boolean, is_year boolean, is_decided boolean) returns text
  language sql stable parallel safe
  return case
    when choice ~* '@[a-z0-9-]+[.]' or choice ~ '(^|[^0-9])[0-9]{3}-[0-9]{2}-[0-9]{4}([^0-9]|$)' then null
    when substring(choice from case when is_year then '(?:^|[^0-9])(1[0-9]{3})(?:[^0-9]|$)'
        when not is_decided then '(?:^|[^0-9])(1[89][0-9]{2})(?:[^0-9]|$)' end)::int
      <= extract(year from now() at time zone 'UTC') - 90 then null
    when not is_decided and (
      choice ~ '(^|[^0-9])[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}([^0-9]|$)|(^|[^0-9])([12][0-9]{3}[-/.](0?[1-9]|1[0-2])|(0?[1-9]|1[0-2])[-/.][12][0-9]{3})([^0-9]|$)|(^|[^0-9])[0-9]{5}(-[0-9]{4})?([^0-9]|$)|[0-9][-. ()0-9]{7,}[0-9]'
      or choice ~* '^\s*may\s*$'
      -- `.*` takes the rest of the text, so that no word has to end or begin at the digit.
      or intake_ops.has_word(choice, 'q[1-4]|january|february|march|april|june|july|august|september|october|november|december'
        '|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre'
        '|janvier|février|fevrier|mars|avril|juin|juillet|août|aout|septembre|octobre|novembre|décembre|decembre'
        '|januar|februar|märz|maerz|juni|juli|oktober|dezember|januari|februari|maart|augustus'
        '|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre'
        '|janeiro|fevereiro|março|maio|junho|julho|setembro|outubro|novembro|dezembro'
        '|(jan|feb|mar|apr|may|mai|mei|jun|jul|aug|sept?|oct|nov|dec|spring|summer|autumn|fall|winter)[.,]?\s+(of\s+)?[0-9].*'
        '|.*[0-9](st|nd|rd|th|er|º|[.])?\s+((of|de)\s+)?(jan|feb|mar|apr|may|mai|mei|jun|jul|aug|sept?|oct|nov|dec)')
    ) then null
    when is_age then intake_raw.safe_age(choice, 0)
    else choice
  end;
comment on function intake_raw.safe_choice(text, boolean, boolean, boolean) is 'A choice as researchers may see it; null for one that seems to be a date, a ZIP code, a number of a person or a year of ninety years ago.';

-- How much of each question's answers researchers see. A question that was hidden, or was decided to be an age, stays so when
-- it is reworded, until somebody decides again. Choices of a question that seems to ask for a place smaller than a state are
-- hidden until somebody decides.
create or replace view intake_raw.safe_terms as
select q.team_id, q.form_id, q.question_id, q.kind,
  coalesce(d.shows, case
    when former.shows = 'hidden' then 'hidden'
    when q.kind = 'choice' and intake_ops.has_word(q.question_text, 'city|cities|town|towns|village|county|counties|borough|parish|municipality|neighbou?rhood|zip|zipcode|post ?code|postal|ciudad|pueblo|condado|municipio|barrio|stadt|gemeinde|landkreis|ville|commune|città|comune|quartiere|cidade|município|bairro|gemeente|woonplaats')
      then 'hidden'
    else 'type'
  end) as shows,
  coalesce(d.shows, former.shows, '') = 'age' or intake_ops.asks_age(q.question_text) as is_age,
  intake_ops.asks_year(q.question_text) as is_year, coalesce(d.shows = 'visible', false) as is_decided,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'form', q.team_id, q.form_id) as form_code,
  intake_ops.research_code(k.inner_pad, k.outer_pad, 'question', q.team_id, q.question_id) as question_code,
  array(
    select own.choice from unnest(q.choices) as own (choice)
    where intake_raw.safe_choice(own.choice, false, intake_ops.asks_year(q.question_text), coalesce(d.shows = 'visible', false)) is null
  ) as hidden_choices,
  intake_ops.group_item(q.team_id, 'question', q.form_id, q.question_id, q.question_id) as question_item,
  intake_ops.group_item(q.team_id, 'form', null, null, q.form_id) as form_item
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
