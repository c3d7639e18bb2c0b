-- Plain wording for the COMMENTs of earlier migrations. Names, types and rows do not change.

comment on schema intake is 'Normalized tables: one row per record of the service, and its children. Identified health data.';

comment on schema intake_ops is 'Runs, checkpoints, dead letters and drift: how loading went. Contains no health data.';

comment on column intake.teams.environment is 'Environment that the service last reported in the header X-Service-Environment.';

comment on table intake_ops.runs is 'One row per execution of backfill, drain, replay or verify.';
comment on column intake_ops.runs.options is 'Options of the run: streams, teams, switches.';
comment on column intake_ops.runs.error is 'Why the run failed; never contains a value of the source.';

comment on table intake_ops.run_streams is 'One row per run, team and stream: what the run did.';
comment on column intake_ops.run_streams.unchanged is 'Records that did not change.';
comment on column intake_ops.run_streams.deleted is 'Records proved deleted at the service.';
comment on column intake_ops.run_streams.dead_letters is 'Records that became dead letters.';
comment on column intake_ops.run_streams.note is 'Why the stream failed or needs attention; never contains a value of the source.';

comment on table intake_ops.checkpoints is 'Checkpoint of each slice of a stream, and the worker that executes it.';
comment on column intake_ops.checkpoints.slice is 'Slice of the stream; empty for the whole stream.';
comment on column intake_ops.checkpoints.epoch is 'Counts the workers that claimed this slice; a settle from an earlier epoch is rejected.';
comment on column intake_ops.checkpoints.run_id is 'The run that last claimed or settled the slice.';
comment on column intake_ops.checkpoints.updated_at is 'When the slice was last claimed or settled.';

comment on table intake_ops.dead_letters is 'Dead letters: records and events that could not be loaded, with the reason. Their content is in intake_raw.set_aside.';
comment on column intake_ops.dead_letters.fingerprint is 'Hash of the content: the same content seen again is the same dead letter.';
comment on column intake_ops.dead_letters.origin is 'Origin: a page of a run, a fetch or an event.';
comment on column intake_ops.dead_letters.reason is 'Why it could not be loaded; never contains a value.';
comment on column intake_ops.dead_letters.status is 'waiting, resolved (a complete scan no longer found it), retried or discarded.';
comment on column intake_ops.dead_letters.seen is 'How often it was seen.';
comment on column intake_ops.dead_letters.created_at is 'When it was first seen.';
comment on column intake_ops.dead_letters.last_seen_at is 'When it was last seen.';
comment on column intake_ops.dead_letters.last_run_id is 'The run that last saw it.';

comment on column intake_ops.problems.path is 'Path of the field, without array positions.';
comment on column intake_ops.problems.reason is 'Why it could not be read; never contains a value.';
comment on column intake_ops.problems.first_seen is 'When it was first seen.';
comment on column intake_ops.problems.last_seen is 'When it was last seen in a new or changed record.';
comment on column intake_ops.problems.count is 'How often it was seen in new or changed records.';

comment on column intake_ops.drift.path is 'Path of the field, without array positions.';
comment on column intake_ops.drift.type is 'JSON type: string, number, boolean, null, object or array.';
comment on column intake_ops.drift.first_seen is 'When it was first seen.';
comment on column intake_ops.drift.last_seen is 'When it was last seen in a new or changed record.';
comment on column intake_ops.drift.count is 'How often it was seen in new or changed records.';

comment on column intake_raw.records.observed_at is 'Lower bound, on the service''s clock, of the time at which this state was read there.';
comment on column intake_raw.records.origin is 'Origin of this state: a page or fetch of a run, or an event.';
comment on column intake_raw.records.payload is 'Payload as received; characters that Postgres cannot store are escaped visibly.';

comment on table intake_raw.record_history is 'Superseded states of records.';
comment on column intake_raw.record_history.observed_at is 'Lower bound, on the service''s clock, of the time at which the superseded state was read there.';
comment on column intake_raw.record_history.origin is 'Origin of the superseded state.';
comment on column intake_raw.record_history.superseded_at is 'When this warehouse replaced the state.';

comment on function intake_raw.keep_superseded() is 'Trigger function: copies the state that an update replaces to intake_raw.record_history.';

comment on table intake_raw.set_aside is 'Content of each dead letter, kept until INTAKE_INBOX_DAYS after the dead letter was settled.';

comment on table intake.patients is 'One row per patient of a team. Identified health data.';
comment on column intake.patients.phone_number is 'Phone number, as the service stores it.';
comment on column intake.patients._deleted_at is 'Version of the tombstone: set when the service no longer has the record; the other columns are then null.';
comment on column intake.patients._origin is 'Origin of this state: a page or fetch of a run, or an event.';
comment on column intake.patients._extra is 'Unknown fields of the payload, by name; null when there are none.';
comment on column intake.patients._problems is 'Fields that could not be read as their type: an array of path, reason and original; null when there are none.';

comment on table intake.patient_tags is 'Tags of a patient; a name may repeat.';
comment on column intake.patient_tags.position is 'Position in the payload, from 1.';

comment on column intake.patient_custom_fields.value is 'Value; one that is not text is stored as its JSON text.';

comment on table intake.forms is 'One row per form of a team.';
comment on column intake.forms._deleted_at is 'Version of the tombstone: set when the service no longer has the record; the other columns are then null.';
comment on column intake.forms._origin is 'Origin of this state: a page or fetch of a run, or an event.';
comment on column intake.forms._extra is 'Unknown fields of the payload, by name; null when there are none.';
comment on column intake.forms._problems is 'Fields that could not be read as their type: an array of path, reason and original; null when there are none.';

comment on column intake.form_questions.position is 'Position in the payload, from 1.';
comment on column intake.form_questions.sort_order is 'Field order of the service.';

comment on column intake.question_choices.position is 'Position in the payload, from 1.';

comment on table intake.packets is 'One row per packet: a set of forms that are sent together.';
comment on column intake.packets._deleted_at is 'Version of the tombstone: set when the service no longer has the record; the other columns are then null.';
comment on column intake.packets._origin is 'Origin of this state: a page or fetch of a run, or an event.';
comment on column intake.packets._extra is 'Unknown fields of the payload, by name; null when there are none.';
comment on column intake.packets._problems is 'Fields that could not be read as their type: an array of path, reason and original; null when there are none.';

comment on table intake.packet_forms is 'Forms of a packet, in order; a form may repeat.';
comment on column intake.packet_forms.position is 'Position in the payload, from 1.';

comment on table intake.documents is 'One row per document of a team.';
comment on column intake.documents._deleted_at is 'Version of the tombstone: set when the service no longer has the record; the other columns are then null.';
comment on column intake.documents._origin is 'Origin of this state: a page or fetch of a run, or an event.';
comment on column intake.documents._extra is 'Unknown fields of the payload, by name; null when there are none.';
comment on column intake.documents._problems is 'Fields that could not be read as their type: an array of path, reason and original; null when there are none.';

comment on table intake.document_input_fields is 'Input fields of a document; none unless requests send X-API-VERSION v2.1.';
comment on column intake.document_input_fields.position is 'Position in the payload, from 1.';

comment on table intake.messages is 'One row per message to a patient. Identified health data.';
comment on column intake.messages.patient_id is 'The recipient.';
comment on column intake.messages.status is 'Delivery status as the service names it: pending, scheduled, sent, failed, cancelled or another.';
comment on column intake.messages.scheduled_at is 'When it is to be sent; null for immediately.';
comment on column intake.messages._deleted_at is 'Version of the tombstone: set when the service no longer has the record; the other columns are then null.';
comment on column intake.messages._origin is 'Origin of this state: a page or fetch of a run, or an event.';
comment on column intake.messages._extra is 'Unknown fields of the payload, by name; null when there are none.';
comment on column intake.messages._problems is 'Fields that could not be read as their type: an array of path, reason and original; null when there are none.';

comment on table intake.responses is 'One row per response: the answers of a patient to a form or document, submitted or not yet. Identified health data.';
comment on column intake.responses.patient_id is 'The patient who answers.';
comment on column intake.responses.form_name is 'Name of the form as given in the response; a form may have different names in different responses.';
comment on column intake.responses.document_id is 'The document, if the response is to a document.';
comment on column intake.responses.is_submitted is 'True when submitted; also for a member of a submitted packet that was never answered.';
comment on column intake.responses.is_skipped is 'True when the logic of the packet skipped the form: the patient did not fill it in.';
comment on column intake.responses.submitted_at is 'When it was submitted; null until then.';
comment on column intake.responses._deleted_at is 'Version of the tombstone: set when the service no longer has the record; the other columns are then null.';
comment on column intake.responses._origin is 'Origin of this state: a page or fetch of a run, or an event.';
comment on column intake.responses._extra is 'Unknown fields of the payload, by name; null when there are none.';
comment on column intake.responses._problems is 'Fields that could not be read as their type: an array of path, reason and original; null when there are none.';

comment on table intake.response_answers is 'One row per value of an answer: each choice, then the free text. A question that was left empty has one row of nulls.';
comment on column intake.response_answers.position is 'Position of the answer in the payload, from 1; a question may have several answers.';
comment on column intake.response_answers.value_position is 'Position of the value in its answer, from 1.';
comment on column intake.response_answers.value_text is 'Text of the choice, or the free text, as received.';
comment on column intake.response_answers.value_number is 'The number, if all of value_text is a finite decimal number, whatever the question''s type.';
comment on column intake.response_answers.value_boolean is 'True for true and yes, false for false and no, in upper or lower case; else null.';
comment on column intake.response_answers.value_date is 'The date, if all of value_text is an ISO date that exists.';

comment on table intake.response_matrix_cells is 'Cells of matrix questions, one row per cell; equal cells of different rows are separate rows.';
comment on column intake.response_matrix_cells.position is 'Position in the payload, from 1.';
comment on column intake.response_matrix_cells.row_id is 'Id or index of the cell''s row, if the service gives one.';
comment on column intake.response_matrix_cells.column_id is 'Id or index of the cell''s column, if the service gives one.';
comment on column intake.response_matrix_cells.value_text is 'Content of the cell, as received.';

comment on table intake.response_files is 'Files that were uploaded with a response: their metadata, never their content.';
comment on column intake.response_files.position is 'Position in the payload, from 1.';
comment on column intake.response_files.url is 'URL without query string and fragment: it locates the file, but does not give access to it.';

comment on column intake.response_signatures.position is 'Position in the payload, from 1.';
comment on column intake.response_signatures.signer_name is 'Name of the signer.';
comment on column intake.response_signatures.has_image is 'True when the service has an image of the signature.';

comment on table intake.webhook_configs is 'One row per webhook configuration of a team at the service.';
comment on column intake.webhook_configs._deleted_at is 'Version of the tombstone: set when the service no longer has the record; the other columns are then null.';
comment on column intake.webhook_configs._origin is 'Origin of this state: a page or fetch of a run, or an event.';
comment on column intake.webhook_configs._extra is 'Unknown fields of the payload, by name; null when there are none.';
comment on column intake.webhook_configs._problems is 'Fields that could not be read as their type: an array of path, reason and original; null when there are none.';

comment on table intake.webhook_deliveries is 'One row per webhook event record: an attempt to deliver. A log: rows are never tombstoned.';
comment on column intake.webhook_deliveries.webhook_config_id is 'The configuration that sent it.';
comment on column intake.webhook_deliveries.status is 'Outcome as the service names it: succeeded, failed or another.';
comment on column intake.webhook_deliveries.response_status_code is 'HTTP status of the receiver''s answer; null when there was no answer.';
comment on column intake.webhook_deliveries.error is 'Error as reported by the service.';
comment on column intake.webhook_deliveries.next_retry_at is 'When the next attempt is due; null when there is none.';
comment on column intake.webhook_deliveries._deleted_at is 'Version of the tombstone: set when the service no longer has the record; the other columns are then null.';
comment on column intake.webhook_deliveries._origin is 'Origin of this state: a page or fetch of a run, or an event.';
comment on column intake.webhook_deliveries._extra is 'Unknown fields of the payload, by name; null when there are none.';
comment on column intake.webhook_deliveries._problems is 'Fields that could not be read as their type: an array of path, reason and original; null when there are none.';

comment on table intake.exports is 'One row per export of a team: the answers to one form as a CSV file.';
comment on column intake.exports.form_id is 'The form whose answers it contains.';
comment on column intake.exports.form_name is 'Name of that form, as given in the list of exports.';
comment on column intake.exports._deleted_at is 'Version of the tombstone: set when the service no longer lists the export; the other columns are then null.';
comment on column intake.exports._origin is 'Origin of this state: a page or fetch of a run, or an event.';
comment on column intake.exports._hash is 'Content hash of the list entry; null when deleted. The hash of the file is in intake_raw.export_files.';
comment on column intake.exports._extra is 'Unknown fields of the payload, by name; null when there are none.';
comment on column intake.exports._problems is 'Fields and cells that could not be read: an array of path, reason and original; null when there are none. Paths that begin with raw_text are places in the file.';

comment on column intake.export_columns.position is 'Position in the file; the first is 8.';
comment on column intake.export_columns.question_id is 'The question of the export''s form whose text equals the title, if there is exactly one.';

comment on table intake.export_rows is 'Rows of an export''s file, one per client, with the seven leading columns.';
comment on column intake.export_rows.row_number is 'Position of the row in the file, from 1, without the header.';
comment on column intake.export_rows.sent_at is 'When the form was sent; read in the team''s time zone.';
comment on column intake.export_rows.completed_at is 'When the form was completed; read in the team''s time zone.';

comment on column intake.export_cells.value is 'Content of the cell, as text.';

comment on table intake_raw.export_files is 'Files of exports: the loaded file, and a later one that could not be read, if there is one.';
comment on column intake_raw.export_files.is_loaded is 'True for the file whose cells are in intake; false for a dead-lettered file.';
comment on column intake_raw.export_files.hash is 'SHA-256 of the bytes as received.';
comment on column intake_raw.export_files.bytes is 'Number of bytes received.';
comment on column intake_raw.export_files.api_version is 'X-API-VERSION of the request; empty for none.';
comment on column intake_raw.export_files.timezone is 'Time zone in which its times were read.';
comment on column intake_raw.export_files.observed_at is 'Lower bound, on the service''s clock, of the time at which this file was read there.';
comment on column intake_raw.export_files.problems is 'Cells that could not be read: an array of path, reason and original.';

comment on table intake_raw.export_chunks is 'Bytes of the files of exports, in order.';
comment on column intake_raw.export_chunks.is_loaded is 'Which file of the export: see export_files.is_loaded.';
comment on column intake_raw.export_chunks.number is 'Position of the chunk in the file, from 1.';
comment on column intake_raw.export_chunks.body is 'The bytes; at most about one megabyte.';

comment on table intake_ops.missed_once is 'Records that the last complete list missed, of streams without an endpoint that fetches by id: a second miss in a row proves the delete.';
comment on column intake_ops.missed_once.run_id is 'The run whose list first missed the record.';
comment on column intake_ops.missed_once.missed_at is 'When the record was first missed.';

comment on function intake.remove_files_of_deleted_exports() is 'Trigger function: removes rows, cells and bytes of deleted exports.';

comment on table intake_raw.list_entries is 'Hash of each record''s list entry at its last fetch: the record is fetched again only when the entry changes.';

comment on table intake_raw.inbox is 'Inbox: webhook events with their exact bytes, committed before they are acknowledged. One partition per UTC day.';
comment on column intake_raw.inbox.event_id is 'Id of the event''s envelope; if it cannot be read, "unreadable:" followed by the hash of the body.';
comment on column intake_raw.inbox.body_hash is 'SHA-256 of the body; part of the key, because an event id may arrive again with newer data.';
comment on column intake_raw.inbox.received_at is 'When the event was received, on the clock of the warehouse.';
comment on column intake_raw.inbox.seq is 'Order in which events were stored.';
comment on column intake_raw.inbox.event_type is 'created, updated, deleted or another; null if it cannot be read.';
comment on column intake_raw.inbox.source is 'Resource of the event: patient, form and so on; null if it cannot be read.';
comment on column intake_raw.inbox.record_id is 'The service''s id of the record; null if the event has none.';
comment on column intake_raw.inbox.status is 'pending, done (its record is loaded, or it is about nothing that is stored) or dead (see intake_ops.dead_letters).';
comment on column intake_raw.inbox.attempts is 'How often loading the event failed.';
comment on column intake_raw.inbox.due_at is 'Not retried before this time; null for immediately. Infinity: dead only because its team was removed.';
comment on column intake_raw.inbox.settled_at is 'When its status changed from pending.';

comment on table intake_raw.inbox_rest is 'Default partition: events of days that have no partition of their own yet.';

comment on sequence intake_raw.inbox_seq is 'Order in which events were stored.';

comment on function intake_raw.add_inbox_day is 'Creates the partition of a day and moves the day''s events from the default partition into it. Returns the number of moved events, or null if the partition exists. Raises 54000 if there are more than most_rows.';

comment on function intake_raw.drop_inbox_day is 'Drops the partition of a day if all of its events were settled before the given time. Returns false if one was not, or if there is no such partition.';

comment on table intake_ops.refetches is 'Records to fetch by id: an event conflicted with the stored state, was partial, or gave only the id.';
comment on column intake_ops.refetches.reason is 'contested (conflict: an event lost to, or tied with, different content), partial (an event did not contain the whole record) or member (of a submitted packet).';
comment on column intake_ops.refetches.origin is 'The event that first requested the fetch.';
comment on column intake_ops.refetches.since is 'For a member: a response that is stored as submitted, and was read at this time or later, is not fetched.';
comment on column intake_ops.refetches.asked is 'Number of requests for this fetch; one answer settles those made before the fetch started.';
comment on column intake_ops.refetches.attempts is 'Number of answers that did not settle it.';
comment on column intake_ops.refetches.requested_at is 'When the fetch was first requested.';
comment on column intake_ops.refetches.due_at is 'Not fetched before this time; a worker that claims the row sets a later time.';

comment on table intake.packet_responses is 'One row per packet that was sent or set up, with the patient''s progress.';
comment on column intake.packet_responses.form_index is 'Number of forms that the patient has completed; null when no progress was reported. Steps may be missing.';
comment on column intake.packet_responses.activity is 'submitted when is_submitted; else progress when form_index is above 0; else setup, before the patient has done anything.';
comment on column intake.packet_responses._deleted_at is 'Version of the tombstone: set when the service no longer has the record; the other columns are then null.';
comment on column intake.packet_responses._origin is 'The event that carried this state.';
comment on column intake.packet_responses._extra is 'Unknown fields of the payload, by name; null when there are none.';
comment on column intake.packet_responses._problems is 'Fields that could not be read as their type: an array of path, reason and original; null when there are none.';

comment on column intake.packet_response_members.position is 'Position in the payload, from 1.';

comment on table intake_ops.schedule_ticks is 'Scheduled times that a serve process has claimed: the process that inserts the row executes the run, so that it runs once.';
comment on column intake_ops.schedule_ticks.job is 'The job: backfill.';
comment on column intake_ops.schedule_ticks.due_at is 'The scheduled time.';
comment on column intake_ops.schedule_ticks.taken_by is 'Random name of the process that claimed it: a process that lost the answer asks again and recognizes its claim.';
comment on column intake_ops.schedule_ticks.taken_at is 'When a process claimed it.';

comment on table intake_ops.events_received is 'Number of signed webhook events per team and hour, to detect that they stopped. Receiving processes write every few seconds: a killed process loses the last few seconds of its count, but no event.';
comment on column intake_ops.events_received.hour is 'The hour, on the clock of the warehouse.';
comment on column intake_ops.events_received.events is 'Events received, without repeated ones.';
comment on column intake_ops.events_received.last_at is 'When the last event of the hour was counted, repeated ones included.';

comment on table intake_ops.analytics_key is 'The key of the pseudonyms in intake_analytics, stored as the inner and outer blocks of HMAC (RFC 2104).';
comment on column intake_ops.analytics_key.is_only is 'Always true: the table has at most one row.';
comment on column intake_ops.analytics_key.origin is 'made (generated here once) or configured (INTAKE_ANALYTICS_KEY).';
comment on column intake_ops.analytics_key.set_at is 'When the key was generated or last changed.';

comment on function intake_ops.hmac_pad(bytea, int) is 'First block of the inner (0x36) or outer (0x5c) hash of HMAC-SHA256.';

comment on table intake_ops.classifications is 'Decides for each question whether analysts see its answers. A question whose text or type differs from the ones decided on is hidden.';
comment on column intake_ops.classifications.wording is 'SHA-256 of the type and text that were decided on, computed by intake_ops.wording().';
comment on column intake_ops.classifications.is_visible is 'True when analysts see the answers.';
comment on column intake_ops.classifications.decided_by is 'type (by its type when first seen: choice, number and checkbox are visible, others are not) or person (classify).';

comment on function intake_ops.wording(text, text) is 'Hash of a question''s type and text; a classification applies to exactly these.';

comment on table intake_raw.question_concepts is 'Concepts, named by the team: questions that ask the same in several versions and languages of a form share one.';

comment on table intake_raw.question_terms is 'How much analysts see of the answers to each question of each form. Updated in the transaction that changes form_questions or classifications. See intake.questions.';
comment on column intake_raw.question_terms.position is 'First position of the question in the form.';
comment on column intake_raw.question_terms.question_text is 'Text of the question in the form.';
comment on column intake_raw.question_terms.question_type is 'Type of the question in the form, as the service names it.';
comment on column intake_raw.question_terms.decided_by is 'type or person (classify); null if nobody decided on this wording.';
comment on column intake_raw.question_terms.shows is 'nothing; structured (choices of the form, numbers, yes and no); or everything (also texts, and the year of dates).';

comment on function intake_raw.terms_of(smallint, text) is 'Computes the terms of the questions of one form.';

comment on function intake_raw.follow_questions() is 'Recomputes the terms of forms whose questions or classifications changed.';

comment on function intake_raw.forget_questions() is 'Marks all questions as no longer asked when form_questions is truncated.';

comment on table intake_ops.view_files is 'Hashes of the files of sql/views that were run last; a file whose hash differs is run again.';
comment on column intake_ops.view_files.hash is 'SHA-256 of the file''s text.';

comment on column intake_raw.wide_views.view_name is 'Name of the view; it stays when the form is renamed.';
comment on column intake_raw.wide_views.signature is 'Hash of the definition''s input; the view is rebuilt only when it changes.';
comment on column intake_raw.wide_views.made_at is 'When the view was last rebuilt.';

comment on table intake_raw.wide_columns is 'Maps questions to columns of wide views. A column is never dropped or renamed and never changes its type.';
comment on column intake_raw.wide_columns.place is 'Position among the columns of questions, from 1, in the order in which they were first seen.';
comment on column intake_raw.wide_columns.data_type is 'Postgres type of the column, or of its elements if it is an array.';
comment on column intake_raw.wide_columns.question_text is 'Text of the question when the column was created or the form last changed.';
comment on column intake_raw.wide_columns.question_type is 'Type of the question when the column was created.';
comment on column intake_raw.wide_columns.first_seen_at is 'When the column was created.';

comment on column intake_raw.records.as_it_came is 'JSON text of the payload as received, if rows show an order of keys or digits of numbers that jsonb does not preserve; else null.';
comment on column intake_raw.records.problems is 'Problems found before mapping: characters that Postgres cannot store, an updated_at in the future. An array of path, reason and original, or null.';

comment on table intake_ops.verifications is 'One row per stream of a verification: compares the tables of intake with what a fresh load of the source would write.';
comment on column intake_ops.verifications.extra is 'Live records that only the warehouse has.';
comment on column intake_ops.verifications.repaired is 'How many of these the same run repaired.';
comment on column intake_ops.verifications.missing_ids is 'All of their ids.';
comment on column intake_ops.verifications.extra_ids is 'All of their ids.';
comment on column intake_ops.verifications.different_ids is 'An array of id and fields; fields are the columns of the root table, and the names of child tables, that differ.';
comment on column intake_ops.verifications.payloads_only is 'Records that are older only in parts of the payload that no table shows, and that the source does not report as updated, such as the name of a patient in a response. Not counted as different.';
comment on column intake_ops.verifications.newer is 'Records that differ because the warehouse received a newer state after the source was read, or because a log grew. Not counted as different.';
comment on column intake_ops.verifications.source_hash is 'Content hash of what a fresh load would write; independent of the order of rows.';
comment on column intake_ops.verifications.warehouse_hash is 'Content hash of the tables, computed in the same way.';
comment on column intake_ops.verifications.note is 'What could not be compared or repaired, and why; null if there is nothing.';
comment on column intake_ops.verifications.deep is 'For exports, with --deep: the rows and cells that were compared with the responses, and the differences by export, response, row and position of the column.';

comment on table intake_ops.erasure_key is 'The key of the hashes in intake_ops.erasures, generated once.';
comment on column intake_ops.erasure_key.is_only is 'Always true: the table has at most one row.';
comment on column intake_ops.erasure_key.made_at is 'When the key was generated.';

comment on table intake_ops.erasures is 'Erased patients and their records: pages and events about them are skipped.';
comment on column intake_ops.erasures.patient_hash is 'Hash of the patient to whom the record belonged; in the patient''s own row, its own hash.';
comment on column intake_ops.erasures.erased_at is 'When it was erased, or first seen after the erasure.';
comment on column intake_ops.erasures.skipped is 'How often a page or event about it was skipped; for a patient, also rows of exports.';
comment on column intake_ops.erasures.last_skipped_at is 'When it was last skipped.';

comment on table intake_ops.alerts is 'One row per alert: what was wrong, since when, and what was posted to INTAKE_ALERT_URL. Counts and names of streams, no value.';
comment on column intake_ops.alerts.cause is 'Cause of the alert, such as backfill_failed, inbox_old or webhooks_silent (docs/operations.md).';
comment on column intake_ops.alerts.stream is 'The stream; empty for an alert about the whole team.';
comment on column intake_ops.alerts.id is 'Id of this occurrence: the posts that raise and clear it carry the same id.';
comment on column intake_ops.alerts.mark is 'Number of distinct findings, for causes that are posted again when it grows; null for others.';
comment on column intake_ops.alerts.figures is 'Counts, and the number of the run, at the time of detection.';
comment on column intake_ops.alerts.raised_at is 'When the alert was raised.';
comment on column intake_ops.alerts.cleared_at is 'When the alert was cleared; null while it is active.';
comment on column intake_ops.alerts.told is 'Kind of the last post: raised or cleared; null for none.';
comment on column intake_ops.alerts.told_mark is 'Value of mark at that post.';
comment on column intake_ops.alerts.told_at is 'When that post was answered 2xx.';
comment on column intake_ops.alerts.attempts is 'Failed posts since then.';
comment on column intake_ops.alerts.due_at is 'When the next post is due after a failed one.';

comment on column intake_ops.dead_letters.settled_at is 'When it was resolved, retried or discarded; its content is removed INTAKE_INBOX_DAYS later.';

comment on column intake_ops.run_streams.erased is 'Records skipped because they belong to an erased patient.';

comment on column intake_raw.question_terms.is_asked is 'False for a question that the form no longer has; its terms stay.';
comment on column intake_raw.question_terms.choices is 'Texts of the choices that the question offers or ever offered.';

comment on function intake_raw.follow_choices() is 'Adds newly offered choices to the terms of questions.';

comment on table intake_raw.answered_questions is 'Questions that responses to each form answer; rows are never removed. Columns of wide views come from these and from question_terms.';
comment on column intake_raw.answered_questions.question_text is 'Text of the question, if several patients were asked the same; a text that one person was asked may be about that person.';
comment on column intake_raw.answered_questions.repeats is 'True when a response answers it several times and it had no column yet.';

comment on table intake_raw.answers_read is 'Progress of answered_questions through the responses.';
comment on column intake_raw.answers_read.is_only is 'Always true: the table has at most one row.';
comment on column intake_raw.answers_read.until is 'When responses were last read.';
comment on column intake_raw.answers_read.oldest is 'Oldest transaction that was open then; rows written by it and later ones are read the next time.';

comment on column intake_raw.records.updated_at is 'updated_at of the payload, if it has a valid one; for a deleted record, the time of its tombstone.';

comment on table intake_ops.defects is 'Errors in intake-sync''s own code, by kind and place. Please report them; no value is stored.';

comment on function intake_ops.hold_erasures(smallint) is 'Blocks erasures and the removal of a team until the transaction ends. Returns the key of the team''s erasure hashes, or null if the team has no erasure. Raises IT001 for a removed team.';

comment on table intake_ops.removed_teams is 'Removed teams: nothing is received or loaded for them. The row of a deleted team stays, so that no process writes under its number again.';
comment on column intake_ops.removed_teams.team_id is 'Number of the team; the number of a deleted team is not in intake.teams and is never reused.';
comment on column intake_ops.removed_teams.name is 'Name of the team when it was removed.';
comment on column intake_ops.removed_teams.data is 'kept or deleted: whether its rows were kept.';
comment on column intake_ops.removed_teams.events is 'Number of events that were pending. Kept ones stay dead in the inbox until they expire, or become pending again when the team is added again.';
comment on column intake_ops.removed_teams.finished_at is 'When the removal ended; null while it runs and when it was interrupted.';

comment on function intake_raw.hold_inbox_of(smallint[]) is 'Blocks the removal of the given teams until the transaction ends, and returns those that are already removed. Called before their events become pending.';

comment on column intake_ops.refetches.failures is 'Number of requests that failed at the service; the delay before the next one grows with it.';

-- Partitions copy the comments of the inbox when they are created. This gives the present ones the new wording.
do $$
declare
  described record;
begin
  for described in
    select c.relname as partition, a.attname as name, col_description(a.attrelid, a.attnum) as comment
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    join pg_attribute a on a.attrelid = i.inhparent and a.attnum > 0 and not a.attisdropped
    where i.inhparent = 'intake_raw.inbox'::regclass
  loop
    execute format(
      'comment on column intake_raw.%I.%I is %L', described.partition, described.name, described.comment
    );
  end loop;
end
$$;
