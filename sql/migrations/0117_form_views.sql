-- Wide views of responses as analysts see them, one per form. Those of exports get the column response_id.

create schema intake_forms;
comment on schema intake_forms is 'Wide views of responses, one per form and one column per question: what intake_analytics.answers shows, nothing more.';

alter table intake_raw.wide_views drop constraint wide_views_kind_check;
alter table intake_raw.wide_views add constraint wide_views_kind_check check (kind in ('form', 'shown', 'export'));
comment on table intake_raw.wide_views is 'The wide views: of each form in intake, of the same as analysts see it in intake_forms, and of each export in intake_exports.';
comment on column intake_raw.wide_views.kind is 'form, shown (the form as analysts see it) or export.';
comment on column intake_raw.wide_columns.kind is 'form, shown (the form as analysts see it) or export.';
