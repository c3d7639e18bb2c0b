-- Fields that people type are shown only if they contain a word of a list. The limits for ages of 90 and over and for ZIP
-- areas of 20,000 people or fewer are those of 45 CFR 164.514(b)(2) and of the HHS guidance (Census 2000).
create or replace view intake_analytics.patients with (security_barrier = true) as
select p.team_id,
  intake_ops.pseudonym(k.inner_pad, k.outer_pad, p.team_id, p.id) as patient,
  case when born.age < 90 then extract(year from p.date_birth)::int end as birth_year,
  case
    when born.age >= 90 then '90+'
    when born.age < 90 then format('%s-%s', born.age / 10 * 10, born.age / 10 * 10 + 9)
  end as age_band,
  case
    when zip.area in ('036', '059', '063', '102', '203', '556', '692', '790', '821', '823', '830', '831', '878',
      '879', '884', '890', '893') then '000'
    else zip.area
  end as zip3,
  states.code as state,
  sexes.word as sex_at_birth,
  coalesce(tags.names, '{}') as tags,
  intake_ops.provider(k.inner_pad, k.outer_pad, p.team_id, p.provider) as provider
from intake.patients p
cross join intake_ops.analytics_key k
cross join lateral (
  select case when isfinite(p.date_birth) and p.date_birth <= today.day then extract(year from age(today.day, p.date_birth))::int end as age
  from (select (now() at time zone 'UTC')::date as day) today
) born
cross join lateral (select substring(trim(p.zipcode) from '^([0-9]{3})[0-9]{2}(?:-?[0-9]{4})?$') as area) zip
left join (
  values
    ('AL', 'ALABAMA'), ('AK', 'ALASKA'), ('AZ', 'ARIZONA'), ('AR', 'ARKANSAS'), ('CA', 'CALIFORNIA'),
    ('CO', 'COLORADO'), ('CT', 'CONNECTICUT'), ('DE', 'DELAWARE'), ('DC', 'DISTRICT OF COLUMBIA'),
    ('FL', 'FLORIDA'), ('GA', 'GEORGIA'), ('HI', 'HAWAII'), ('ID', 'IDAHO'), ('IL', 'ILLINOIS'), ('IN', 'INDIANA'),
    ('IA', 'IOWA'), ('KS', 'KANSAS'), ('KY', 'KENTUCKY'), ('LA', 'LOUISIANA'), ('ME', 'MAINE'), ('MD', 'MARYLAND'),
    ('MA', 'MASSACHUSETTS'), ('MI', 'MICHIGAN'), ('MN', 'MINNESOTA'), ('MS', 'MISSISSIPPI'), ('MO', 'MISSOURI'),
    ('MT', 'MONTANA'), ('NE', 'NEBRASKA'), ('NV', 'NEVADA'), ('NH', 'NEW HAMPSHIRE'), ('NJ', 'NEW JERSEY'),
    ('NM', 'NEW MEXICO'), ('NY', 'NEW YORK'), ('NC', 'NORTH CAROLINA'), ('ND', 'NORTH DAKOTA'), ('OH', 'OHIO'),
    ('OK', 'OKLAHOMA'), ('OR', 'OREGON'), ('PA', 'PENNSYLVANIA'), ('RI', 'RHODE ISLAND'), ('SC', 'SOUTH CAROLINA'),
    ('SD', 'SOUTH DAKOTA'), ('TN', 'TENNESSEE'), ('TX', 'TEXAS'), ('UT', 'UTAH'), ('VT', 'VERMONT'),
    ('VA', 'VIRGINIA'), ('WA', 'WASHINGTON'), ('WV', 'WEST VIRGINIA'), ('WI', 'WISCONSIN'), ('WY', 'WYOMING'),
    ('PR', 'PUERTO RICO'), ('GU', 'GUAM'), ('VI', 'VIRGIN ISLANDS'), ('AS', 'AMERICAN SAMOA'),
    ('MP', 'NORTHERN MARIANA ISLANDS')
) as states (code, name) on upper(trim(p.state)) in (states.code, states.name)
left join (
  values
    ('female', 'Female'), ('f', 'Female'), ('male', 'Male'), ('m', 'Male'), ('intersex', 'Intersex'), ('i', 'Intersex'),
    ('other', 'Other'), ('o', 'Other'), ('x', 'Other'), ('unknown', 'Unknown'), ('u', 'Unknown'),
    ('undisclosed', 'Unknown'), ('not specified', 'Unknown'), ('prefer not to say', 'Unknown')
) as sexes (written, word) on sexes.written = lower(trim(p.sex_at_birth))
left join (
  select team_id, patient_id, array_agg(name order by position) as names
  from intake.patient_tags
  where name is not null
  group by team_id, patient_id
) tags on tags.team_id = p.team_id and tags.patient_id = p.id
where p._deleted_at is null
  and p.team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_analytics.patients is 'One row per patient, without anything that identifies a person.';
comment on column intake_analytics.patients.team_id is 'The team (intake_analytics.teams).';
comment on column intake_analytics.patients.patient is 'Pseudonym: HMAC-SHA256 of team and id. The same in every view, as long as the key stays.';
comment on column intake_analytics.patients.birth_year is 'Year of birth; null from the age of 90.';
comment on column intake_analytics.patients.age_band is 'Age today (the day in UTC) in bands of ten years; 90+ from the age of 90.';
comment on column intake_analytics.patients.zip3 is 'First three digits of the ZIP code; 000 where that area has 20,000 people or fewer; null for anything but a ZIP code.';
comment on column intake_analytics.patients.state is 'State or territory of the United States, two letters; null for anything else.';
comment on column intake_analytics.patients.sex_at_birth is 'Female, Male, Intersex, Other or Unknown; null for any other word.';
comment on column intake_analytics.patients.tags is 'Names of the patient''s tags.';
comment on column intake_analytics.patients.provider is 'Provider of the patient: the id (a UUID), or a pseudonym of any other text.';
