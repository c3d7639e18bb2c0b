-- The columns of the example view QuestionnaireResponseItems of SQL on FHIR come first, by their names there.
create or replace view intake_fhir.questionnaire_response_items with (security_barrier = true) as
select intake_fhir.as_id(response_id) as id,
  'Questionnaire/' || intake_fhir.as_id(form_id) as questionnaire,
  intake_fhir.as_id(patient_id) as patient_id,
  authored,
  link_id as item_link_id,
  text as item_text,
  value ->> 'valueString' as answer_value_string,
  (value ->> 'valueInteger')::int as answer_value_integer,
  (value ->> 'valueBoolean')::boolean as answer_value_boolean,
  (value ->> 'valueDate')::date as answer_value_date,
  coalesce(value ->> 'valueDecimal', value #>> '{valueQuantity,value}')::numeric as answer_value_decimal,
  (value ->> 'valueDateTime')::timestamptz as answer_value_date_time,
  (value ->> 'valueTime')::time as answer_value_time,
  value #>> '{valueCoding,code}' as answer_value_code,
  value #>> '{valueCoding,display}' as answer_value_display,
  coalesce(value #>> '{valueAttachment,url}', value ->> 'valueUri') as answer_value_url,
  group_link_id, instance, row_link_id, position, value_position, response_id, team_id
from intake_raw.fhir_answers
where team_id = any ((select intake_ops.teams_of(current_user::text))::smallint[]);

comment on view intake_fhir.questionnaire_response_items is 'Each answer of the QuestionnaireResponses, flat, with the columns of the view QuestionnaireResponseItems of SQL on FHIR; one row without a value for an item without an answer.';
comment on column intake_fhir.questionnaire_response_items.id is 'The QuestionnaireResponse.';
comment on column intake_fhir.questionnaire_response_items.questionnaire is 'Reference to the Questionnaire.';
comment on column intake_fhir.questionnaire_response_items.patient_id is 'Id of the Patient.';
comment on column intake_fhir.questionnaire_response_items.authored is 'When the response was submitted, else last changed.';
comment on column intake_fhir.questionnaire_response_items.item_link_id is 'linkId of the item.';
comment on column intake_fhir.questionnaire_response_items.item_text is 'Text of the question as the response shows it, else as the form does.';
comment on column intake_fhir.questionnaire_response_items.answer_value_string is 'The answer as valueString: texts, and choices without a code.';
comment on column intake_fhir.questionnaire_response_items.answer_value_integer is 'The answer as valueInteger.';
comment on column intake_fhir.questionnaire_response_items.answer_value_boolean is 'The answer as valueBoolean.';
comment on column intake_fhir.questionnaire_response_items.answer_value_date is 'The answer as valueDate.';
comment on column intake_fhir.questionnaire_response_items.answer_value_decimal is 'The answer as valueDecimal, or the value of a valueQuantity.';
comment on column intake_fhir.questionnaire_response_items.answer_value_date_time is 'The answer as valueDateTime.';
comment on column intake_fhir.questionnaire_response_items.answer_value_time is 'The answer as valueTime.';
comment on column intake_fhir.questionnaire_response_items.answer_value_code is 'Code of the valueCoding: of a choice with a code.';
comment on column intake_fhir.questionnaire_response_items.answer_value_display is 'Display of the valueCoding.';
comment on column intake_fhir.questionnaire_response_items.answer_value_url is 'Address of the valueAttachment, or the valueUri.';
comment on column intake_fhir.questionnaire_response_items.group_link_id is 'linkId of the block or matrix that the item is in.';
comment on column intake_fhir.questionnaire_response_items.instance is 'Which repetition of the block, from 1.';
comment on column intake_fhir.questionnaire_response_items.row_link_id is 'linkId of the row of the matrix, if it is a cell of one.';
comment on column intake_fhir.questionnaire_response_items.position is 'Position of the answer, file, signature or cell in the response.';
comment on column intake_fhir.questionnaire_response_items.value_position is 'Position of the value in the answer.';
comment on column intake_fhir.questionnaire_response_items.response_id is 'The service''s id of the response (intake.responses).';
comment on column intake_fhir.questionnaire_response_items.team_id is 'The team (intake.teams).';
