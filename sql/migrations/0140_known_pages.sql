-- What the entries of each page of a list were, by their bytes: an entry with bytes that are known is not parsed again.

create table intake_raw.known_pages (
  team_id    smallint not null,
  stream     text not null,
  is_next    boolean not null,
  page       integer not null,
  reader     text not null,
  updated_to timestamptz,
  ids        text not null,
  bytes      bytea not null,
  hashes     bytea not null,
  primary key (team_id, stream, is_next, page)
);
-- Hashes do not compress, and ids hardly.
alter table intake_raw.known_pages alter column ids set storage external;
alter table intake_raw.known_pages alter column bytes set storage external;
alter table intake_raw.known_pages alter column hashes set storage external;
comment on table intake_raw.known_pages is 'The entries of each page of a stream''s list when it was last read, by which they are recognized without parsing them.';
comment on column intake_raw.known_pages.team_id is 'The team (intake.teams).';
comment on column intake_raw.known_pages.stream is 'The stream.';
comment on column intake_raw.known_pages.is_next is 'True while the scan that wrote the row reads: it replaces the row of the page when the scan ends.';
comment on column intake_raw.known_pages.page is 'Number of the page, from 1.';
comment on column intake_raw.known_pages.reader is 'The program and settings that read the entries; others may read the same bytes differently.';
comment on column intake_raw.known_pages.updated_to is 'Latest updated_at of the entries; null if none has one.';
comment on column intake_raw.known_pages.ids is 'Ids of the entries, in the order of the page, one in a line.';
comment on column intake_raw.known_pages.bytes is 'For each entry, the first 128 bits of the SHA-256 of its bytes.';
comment on column intake_raw.known_pages.hashes is 'For each entry, the content hash of its record (intake_raw.records.hash).';
