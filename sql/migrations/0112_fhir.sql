-- Patients, forms and responses as FHIR R4 resources (sql/views/4*_fhir_*.sql). Identified: for the role intake_clinical only.

create schema intake_fhir;
comment on schema intake_fhir is 'Patients, forms and responses as FHIR R4 resources; identified, for the role intake_clinical only.';

create function intake_fhir.as_id(id text) returns text language sql immutable strict parallel safe
  return case when id ~ '^[A-Za-z0-9.-]{1,64}$' then id else encode(sha256(convert_to(id, 'UTF8')), 'hex') end;
comment on function intake_fhir.as_id(text) is 'The id of a resource: that of the service, or its SHA-256 if FHIR does not permit it.';

create function intake_fhir.as_string(value text) returns text language sql immutable strict parallel safe
  return case
    when value !~ '[^[:space:]]' then null
    else regexp_replace(value, '[\x01-\x08\x0b\x0c\x0e-\x1f]', ' ', 'g')
  end;
comment on function intake_fhir.as_string(text) is 'A text as FHIR permits it: null if it is blank, with a space for each control character.';

create function intake_fhir.as_code(value text) returns text language sql immutable strict parallel safe
  return case when value ~ '^[^[:space:]]+( [^[:space:]]+)*$' then value end;
comment on function intake_fhir.as_code(text) is 'A code as FHIR permits it; null for any other text.';

create function intake_fhir.as_time(at timestamptz) returns text language sql stable strict parallel safe
  return case
    when at >= '0001-01-01Z' and at < '10000-01-01Z' then to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
  end;
comment on function intake_fhir.as_time(timestamptz) is 'A time as FHIR writes it, in UTC; null if it has no year of four digits.';

create function intake_fhir.as_date(day date) returns text language sql stable strict parallel safe
  return case when day >= '0001-01-01' and day < '10000-01-01' then to_char(day, 'YYYY-MM-DD') end;
comment on function intake_fhir.as_date(date) is 'A date as FHIR writes it; null if it has no year of four digits.';

create function intake_fhir.list_of(item jsonb) returns jsonb language sql immutable strict parallel safe
  return case when item not in ('{}', '[]') then jsonb_build_array(item) end;
comment on function intake_fhir.list_of(jsonb) is 'A list of one item; null if the item is empty, which FHIR does not permit.';

-- A subtype that is a type of FHIR comes from an imported questionnaire, or says the same.
create function intake_fhir.item_type(question_type text, question_subtype text, has_parts boolean) returns text
  language sql immutable parallel safe
  return case
    when has_parts then 'group'
    when question_subtype in ('boolean', 'decimal', 'integer', 'date', 'dateTime', 'time', 'string', 'text', 'url', 'choice',
      'open-choice', 'attachment', 'reference', 'quantity', 'display') then question_subtype
    else case lower(question_type)
      when 'single_choice' then 'choice' when 'multiple_choice' then 'choice' when 'choice' then 'choice'
      when 'radio' then 'choice' when 'dropdown' then 'choice' when 'select' then 'choice'
      when 'multi_select' then 'choice' when 'multiple_select' then 'choice'
      when 'number' then 'decimal' when 'decimal' then 'decimal' when 'numeric' then 'decimal'
      when 'scale' then 'decimal' when 'slider' then 'decimal' when 'rating' then 'decimal' when 'integer' then 'integer'
      when 'checkbox' then 'boolean' when 'boolean' then 'boolean' when 'yes_no' then 'boolean'
      when 'date' then 'date' when 'datetime' then 'dateTime' when 'time' then 'time'
      when 'long_text' then 'text' when 'file' then 'attachment'
      when 'display_only' then 'display' when 'repeated_block' then 'display'
      else 'string'
    end
  end;
comment on function intake_fhir.item_type(text, text, boolean) is 'Type of the item of a Questionnaire that a question becomes; a question with members, or with rows, is a group.';

-- `choice` is what the option of the form is as an answer, where one was chosen.
create function intake_fhir.answer(
  item_type text, choice jsonb, value_text text, value_number numeric, value_boolean boolean, value_date date
) returns jsonb language sql stable parallel safe
  return case
    when choice is not null then choice
    when intake_fhir.as_string(value_text) is null then null
    when item_type = 'boolean' and value_boolean is not null then jsonb_build_object('valueBoolean', value_boolean)
    when item_type = 'integer' and value_number = trunc(value_number) and abs(value_number) < 2147483648
      then jsonb_build_object('valueInteger', trunc(value_number))
    when item_type in ('decimal', 'integer') and value_number is not null
      then jsonb_build_object('valueDecimal', value_number)
    when item_type = 'quantity' and value_number is not null
      then jsonb_build_object('valueQuantity', jsonb_build_object('value', value_number))
    when item_type = 'date' and intake_fhir.as_date(value_date) is not null
      then jsonb_build_object('valueDate', intake_fhir.as_date(value_date))
    when item_type = 'dateTime' and intake_raw.time_of(value_text) is not null
      then jsonb_build_object('valueDateTime', intake_fhir.as_time(intake_raw.time_of(value_text)))
    when item_type = 'time' and value_text ~ '^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$'
      then jsonb_build_object('valueTime', rpad(value_text, 8, ':00'))
    when item_type = 'url' and value_text !~ '[[:space:]]' then jsonb_build_object('valueUri', value_text)
    else jsonb_build_object('valueString', intake_fhir.as_string(value_text))
  end;
comment on function intake_fhir.answer(text, jsonb, text, numeric, boolean, date) is 'The value of an answer, as the type of its item permits; any other value is a valueString.';

create function intake_fhir.name(first_name text, last_name text) returns jsonb language sql immutable parallel safe
  return case when coalesce(intake_fhir.as_string(first_name), intake_fhir.as_string(last_name)) is not null
    then jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
      'family', intake_fhir.as_string(last_name),
      'given', case when intake_fhir.as_string(first_name) is not null
        then jsonb_build_array(intake_fhir.as_string(first_name)) end))) end;
comment on function intake_fhir.name(text, text) is 'A list of one HumanName; null without any name.';

create function intake_fhir.telecom(phone_number text, email text) returns jsonb language sql immutable parallel safe
  return nullif(
    case when intake_fhir.as_string(phone_number) is null then '[]'
      else jsonb_build_array(jsonb_build_object('system', 'phone', 'value', intake_fhir.as_string(phone_number))) end
    || case when intake_fhir.as_string(email) is null then '[]'
      else jsonb_build_array(jsonb_build_object('system', 'email', 'value', intake_fhir.as_string(email))) end,
    '[]');
comment on function intake_fhir.telecom(text, text) is 'A list of ContactPoints; null without any.';

create function intake_fhir.address(address text, address2 text, city text, state text, zipcode text) returns jsonb
  language sql immutable parallel safe
  return case when coalesce(intake_fhir.as_string(address), intake_fhir.as_string(address2), intake_fhir.as_string(city),
      intake_fhir.as_string(state), intake_fhir.as_string(zipcode)) is not null
    then jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
      'line', nullif(to_jsonb(array_remove(array[intake_fhir.as_string(address), intake_fhir.as_string(address2)], null)), '[]'),
      'city', intake_fhir.as_string(city),
      'state', intake_fhir.as_string(state),
      'postalCode', intake_fhir.as_string(zipcode)))) end;
comment on function intake_fhir.address(text, text, text, text, text) is 'A list of one Address; null without any part.';
