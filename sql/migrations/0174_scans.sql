-- How far the scan of a list has come: a scan that ended early is continued where it was.

create table intake_ops.scans (
  team_id    smallint not null,
  stream     text not null,
  request    text not null,
  started_at timestamptz not null,
  began_at   timestamptz not null,
  newest     timestamptz,
  first_page jsonb not null,
  pages      integer not null,
  kept_at    timestamptz not null default now(),
  primary key (team_id, stream)
);
comment on table intake_ops.scans is 'Scans of lists that have not ended, or ended early; the row goes when the stream''s checkpoint moves.';
comment on column intake_ops.scans.team_id is 'The team (intake.teams).';
comment on column intake_ops.scans.stream is 'The stream.';
comment on column intake_ops.scans.request is 'What the scan requests; only a scan that requests the same continues it.';
comment on column intake_ops.scans.started_at is 'A time not after the beginning of the scan, on the service''s clock.';
comment on column intake_ops.scans.began_at is 'When the scan began, on the clock of the warehouse.';
comment on column intake_ops.scans.newest is 'Latest date of the records seen, for streams with a date filter.';
comment on column intake_ops.scans.first_page is 'Facts about the first page; if they change, the scan begins again.';
comment on column intake_ops.scans.pages is 'Number of rows in intake_ops.scan_pages; with another number, the scan begins again.';
comment on column intake_ops.scans.kept_at is 'When the row was last written; the scan begins again if that is more than an hour ago.';

create table intake_ops.scan_pages (
  team_id smallint not null,
  stream  text not null,
  page    integer not null,
  facts   jsonb not null,
  ids     text[] not null,
  primary key (team_id, stream, page),
  foreign key (team_id, stream) references intake_ops.scans on delete cascade
);
-- Ids hardly compress.
alter table intake_ops.scan_pages alter column ids set storage external;
comment on table intake_ops.scan_pages is 'Pages of these scans whose records are all stored, so that they need not be read again.';
comment on column intake_ops.scan_pages.team_id is 'The team (intake.teams).';
comment on column intake_ops.scan_pages.stream is 'The stream.';
comment on column intake_ops.scan_pages.page is 'Number of the page, from 1.';
comment on column intake_ops.scan_pages.facts is 'Number of records, count of the list, link to the next page and hash of the ids of the page.';
comment on column intake_ops.scan_pages.ids is 'Ids of the records on the page.';
