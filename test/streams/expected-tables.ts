/**
 * The tables that the contract promises, written out by hand; the fixtures of a stream that came later say what its own
 * are (`tables`).
 */

const meta = {
  _version: 'timestamp with time zone',
  _deleted_at: 'timestamp with time zone',
  _origin: 'text',
  _loaded_at: 'timestamp with time zone',
  _hash: 'bytea',
  _extra: 'jsonb',
  _problems: 'jsonb',
} as const

export const texts = (...names: string[]) => Object.fromEntries(names.map((name) => [name, 'text']))
export const times = (...names: string[]) =>
  Object.fromEntries(names.map((name) => [name, 'timestamp with time zone']))

export interface ExpectedTable {
  /** The primary key, in order. */
  readonly key: readonly string[]
  readonly columns: Readonly<Record<string, string>>
}

export const root = (columns: Record<string, string>): ExpectedTable => ({
  key: ['team_id', 'id'],
  columns: { team_id: 'smallint', id: 'text', ...columns, ...meta },
})

export const child = (key: readonly string[], columns: Record<string, string>): ExpectedTable => ({
  key: ['team_id', ...key],
  columns: { team_id: 'smallint', ...columns },
})

export const EXPECTED_TABLES: Readonly<Record<string, ExpectedTable>> = {
  patients: root({
    ...texts('external_id', 'first_name', 'last_name', 'email', 'phone_number', 'sex_at_birth', 'provider'),
    ...texts('address', 'address2', 'city', 'state', 'zipcode'),
    date_birth: 'date',
    ...times('created_at', 'updated_at'),
  }),
  patient_emergency_contacts: child(
    ['patient_id'],
    texts(
      'patient_id',
      'first_name',
      'last_name',
      'phone_number',
      'relationship',
      'address',
      'address2',
      'city',
      'state',
      'zipcode',
    ),
  ),
  patient_tags: child(['patient_id', 'position'], {
    ...texts('patient_id', 'name', 'color'),
    position: 'integer',
  }),
  patient_custom_fields: child(['patient_id', 'key'], texts('patient_id', 'key', 'value')),
  forms: root({ ...texts('name', 'text'), enabled: 'boolean', ...times('created_at', 'updated_at') }),
  form_questions: child(['form_id', 'position'], {
    ...texts('form_id', 'question_id', 'question_type', 'question_subtype', 'text', 'help_text'),
    ...texts('link_id', 'block_id'),
    position: 'integer',
    sort_order: 'integer',
    page: 'integer',
  }),
  question_choices: child(['form_id', 'question_position', 'position'], {
    ...texts('form_id', 'question_id', 'choice_id', 'text', 'code'),
    points: 'numeric',
    question_position: 'integer',
    position: 'integer',
  }),
  packets: root({ ...texts('name', 'text'), ...times('created_at', 'updated_at') }),
  packet_forms: child(['packet_id', 'position'], { ...texts('packet_id', 'form_id'), position: 'integer' }),
  documents: root({ ...texts('name', 'text'), ...times('created_at', 'updated_at') }),
  document_input_fields: child(['document_id', 'position'], {
    ...texts('document_id', 'field_id', 'name', 'label', 'field_type'),
    position: 'integer',
    required: 'boolean',
    page: 'integer',
  }),
  responses: root({
    ...texts('patient_id', 'form_id', 'form_name', 'packet_id', 'document_id'),
    is_submitted: 'boolean',
    is_skipped: 'boolean',
    is_archived: 'boolean',
    ...times('submitted_at', 'created_at', 'updated_at'),
  }),
  response_answers: child(['response_id', 'position', 'value_position'], {
    ...texts('response_id', 'answer_id', 'question_id', 'question_text', 'choice_id', 'value_text'),
    position: 'integer',
    value_position: 'integer',
    value_number: 'numeric',
    value_boolean: 'boolean',
    value_date: 'date',
  }),
  response_matrix_cells: child(['response_id', 'position'], {
    ...texts('response_id', 'question_id', 'row_id', 'row_text', 'column_id', 'column_text', 'value_text'),
    ...texts('question_text'),
    position: 'integer',
  }),
  response_files: child(['response_id', 'position'], {
    ...texts('response_id', 'file_id', 'question_id', 'name', 'content_type', 'url'),
    position: 'integer',
    size_bytes: 'bigint',
  }),
  response_signatures: child(['response_id', 'position'], {
    ...texts('response_id', 'signature_id', 'question_id', 'signer_name'),
    position: 'integer',
    ...times('signed_at'),
    has_image: 'boolean',
  }),
  packet_responses: root({
    ...texts('packet_id', 'activity'),
    is_submitted: 'boolean',
    is_archived: 'boolean',
    is_queued: 'boolean',
    form_index: 'integer',
    ...times('submitted_at', 'created_at', 'updated_at'),
  }),
  packet_response_members: child(['packet_response_id', 'position'], {
    ...texts('packet_response_id', 'response_id'),
    position: 'integer',
  }),
  messages: root({
    ...texts('patient_id', 'form_id', 'packet_id', 'document_id', 'message_type'),
    ...texts('preferred_delivery_method', 'target_email', 'target_phone_number', 'status', 'content'),
    ...times('scheduled_at', 'sent_at', 'created_at', 'updated_at'),
  }),
  webhook_configs: root({
    target_url: 'text',
    event_types: 'text[]',
    sources: 'text[]',
    is_active: 'boolean',
    ...times('created_at'),
  }),
  exports: root({ ...texts('name', 'form_id', 'form_name'), ...times('created_at') }),
  export_columns: child(['export_id', 'position'], {
    ...texts('export_id', 'title', 'question_id'),
    position: 'integer',
  }),
  export_rows: child(['export_id', 'row_number'], {
    ...texts('export_id', 'client_id', 'first_name', 'last_name', 'email'),
    row_number: 'integer',
    ...times('sent_at', 'completed_at'),
    archived: 'boolean',
  }),
  export_cells: child(['export_id', 'row_number', 'position'], {
    ...texts('export_id', 'value'),
    row_number: 'integer',
    position: 'integer',
  }),
  webhook_deliveries: root({
    ...texts('event_id', 'webhook_config_id', 'event_type', 'source', 'status', 'error'),
    response_status_code: 'integer',
    attempts: 'integer',
    ...times('created_at', 'next_retry_at'),
  }),
}
