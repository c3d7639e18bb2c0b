-- Optional, and no migration: distributes a migrated warehouse over the nodes of a Citus cluster, for many teams. Rows of one
-- team stay together on one node. docs/scaling.md says what is not proved; run it on a copy first, while no process of
-- intake-sync runs, as the owner of the schemas:
--
--   create extension citus;   -- shared_preload_libraries = 'citus', and the nodes added
--   psql -v ON_ERROR_STOP=1 -f sql/citus.sql
--
-- intake_ops, the inbox and what describes wide views stay on the coordinator.

begin;

-- Triggers of these tables count rows and note changes. Citus refuses tables with triggers otherwise.
set local citus.enable_unsafe_triggers = on;

-- Small, and joined by every team: a copy on each node.
select create_reference_table('intake.teams');
select create_reference_table('intake.forms');
select create_reference_table('intake.form_questions');
select create_reference_table('intake.question_choices');
select create_reference_table('intake.packets');
select create_reference_table('intake.packet_forms');
select create_reference_table('intake.documents');
select create_reference_table('intake.document_input_fields');

-- By team: the first table decides the placement of the others, which are all other tables of the schema.
select create_distributed_table('intake.patients', 'team_id', colocate_with => 'none');
do $$
declare
  placed constant text[] := array['patients', 'teams', 'forms', 'form_questions', 'question_choices', 'packets', 'packet_forms',
    'documents', 'document_input_fields'];
  others constant regclass[] := array(
    select oid from pg_class
    where relnamespace = 'intake'::regnamespace and relkind in ('r', 'p') and relname <> all (placed) order by relname);
  other regclass;
begin
  foreach other in array others loop
    perform create_distributed_table(other, 'team_id', colocate_with => 'intake.patients');
  end loop;
end $$;

-- Payloads, next to the rows that were loaded from them. The files come before the chunks that reference them.
select create_distributed_table('intake_raw.records', 'team_id', colocate_with => 'intake.patients');
select create_distributed_table('intake_raw.record_history', 'team_id', colocate_with => 'intake.patients');
select create_distributed_table('intake_raw.removed_records', 'team_id', colocate_with => 'intake.patients');
select create_distributed_table('intake_raw.known_pages', 'team_id', colocate_with => 'intake.patients');
select create_distributed_table('intake_raw.list_entries', 'team_id', colocate_with => 'intake.patients');
select create_distributed_table('intake_raw.export_files', 'team_id', colocate_with => 'intake.patients');
select create_distributed_table('intake_raw.export_chunks', 'team_id', colocate_with => 'intake.patients');

commit;
