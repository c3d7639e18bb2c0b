/** Migrations that have landed: databases that have applied one never apply it again. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { statementsIn } from '../../src/warehouse/migrations.ts'

/** The hash of the statements of each, without the comments before them. A new migration is added here when it lands. */
const LANDED = `
a63505cdd8e2 0001_ops.sql
0cf3c34baee3 0002_raw.sql
274c709d5f98 0003_patients.sql
128298307c12 0004_forms_packets_documents.sql
581b935e2776 0005_webhook_secrets.sql
4bac15ffc5b3 0006_messages.sql
2b02db7bfd84 0007_responses.sql
8e2225945ebd 0008_webhooks.sql
4ab64e4f8549 0009_exports.sql
966891fc9c96 0010_list_entries.sql
bdc9ea5e7e65 0011_inbox.sql
4453cfd3cf95 0012_refetches.sql
d8e7e377e061 0013_packet_responses.sql
9cf5086d5c75 0014_schedule.sql
6242fb901bc6 0020_analytics.sql
d46483a4c273 0021_wide_views.sql
4aec69d2f0e9 0030_as_it_came.sql
3615bdc01d19 0031_verifications.sql
7339d9e459ce 0040_erasures.sql
8f0d8232283e 0041_discarded.sql
a11e375766a1 0050_alerts.sql
d40f596176f9 0051_settled.sql
669da45e6bee 0052_kept_terms.sql
2e5feb41f98c 0053_answered_questions.sql
28d9f07ff0d0 0054_inbox_not_sampled.sql
57af4a198dbd 0055_updated_at.sql
70ed31856cf4 0056_defects.sql
f744915d533b 0060_pending_by_team.sql
4d6ec46ffde1 0061_erasures_by_team.sql
99227d636835 0062_removed_teams.sql
acac01db352b 0065_run_kinds.sql
3a4f291b79ff 0066_refetch_failures.sql
4f52c28e361e 0072_plain_comments.sql
a33468a50413 0073_wordings.sql
cdbef83d6c7f 0074_waiting_questions.sql
64c9e154b762 0075_times_of_records.sql
d9ee331aae75 0076_removed_events.sql
1346b73e8a32 0077_changes.sql
8c6f6c865cfb 0080_private_locks.sql
4173d1fb97d5 0081_access_by_role.sql
8aedfcc6b561 0090_receipt_key.sql
86ebd88d6af6 0091_retention.sql
987fc329256d 0092_record_counts.sql
cc18eb7eb7d4 0093_delivery_checks.sql
4571d3da2ce3 0100_audit.sql
cc84a0a25c43 0110_instruments.sql
9730d02f52b2 0111_question_links.sql
82210ec00c43 0112_fhir.sql
dde99e3fb566 0114_exports_schema.sql
705124b43da2 0115_time_zones.sql
84dfa4ecac33 0116_providers.sql
ca1dffd7f897 0117_form_views.sql
843f32d691c9 0118_safe_harbor.sql
3d3dcc5e188f 0125_run_progress.sql
a715b5d56c73 0134_content_hashes.sql
dd625efe693e 0140_known_pages.sql
085e227fefdf 0145_drop_days.sql
4f2df2d1556d 0150_cancel_runs.sql
3eb8f2b063e5 0151_returned_records.sql
2541de93a412 0152_slices.sql
8585c763934b 0160_budgets.sql
80ff0caa6184 0165_removed_streams.sql
46ed6e6643ec 0166_newest_times.sql
97f316d49925 0167_gone_versions.sql
5dd49f771b8a 0170_slices_waiting.sql
5a9d5edb0a92 0174_scans.sql
aa6082b6fd90 0185_slices_of_other_runs.sql
95943cf3de9a 0190_scans_comment.sql
f90bd19d1a41 0191_slices_of_a_source.sql
82ecfdbad694 0192_words_of_questions.sql
70b51de043f3 0195_figures_of_running_streams.sql
`

test('a migration that has landed says what it said then, so that old and new databases are the same', () => {
  const folder = join(import.meta.dirname, '../../sql/migrations')
  const found = readdirSync(folder)
    .sort()
    .map((name) => {
      const text = statementsIn(readFileSync(join(folder, name), 'utf8')).join(';\n')
      return `${createHash('sha256').update(text).digest('hex').slice(0, 12)} ${name}`
    })
  expect(found).toEqual(LANDED.trim().split('\n'))
})
