-- Questionnaires that are scored: their items, the points of each choice and the bands of the score. intake_analytics.scores
-- applies them to responses.
create table intake_ops.instruments (
  instrument     text primary key,
  title          text not null,
  source         text not null,
  least_answered smallint not null,
  zero_item      smallint,
  is_built_in    boolean not null,
  hash           bytea not null,
  imported_at    timestamptz not null default now()
);
comment on table intake_ops.instruments is 'Scored questionnaires: those of the program, and those imported with intake-sync instruments import.';
comment on column intake_ops.instruments.instrument is 'Its short name, such as phq-9.';
comment on column intake_ops.instruments.title is 'Its full name.';
comment on column intake_ops.instruments.source is 'The publication that the points, bands and rule for missing items come from.';
comment on column intake_ops.instruments.least_answered is 'Items that must be answered for a score. Where fewer than all are, the score is the mean of the answered items times all items, rounded.';
comment on column intake_ops.instruments.zero_item is 'An item whose answer of 0 points makes the items without an answer count as 0; null for none.';
comment on column intake_ops.instruments.is_built_in is 'True if it comes with the program.';
comment on column intake_ops.instruments.hash is 'SHA-256 of its definition.';
comment on column intake_ops.instruments.imported_at is 'When this definition was imported.';

create table intake_ops.instrument_items (
  instrument text not null references intake_ops.instruments on delete cascade,
  item       smallint not null,
  codes      text[] not null,
  wordings   text[] not null,
  primary key (instrument, item)
);
comment on table intake_ops.instrument_items is 'Items of an instrument, and how its questions are recognised.';
comment on column intake_ops.instrument_items.instrument is 'The instrument.';
comment on column intake_ops.instrument_items.item is 'Place of the item, from 1.';
comment on column intake_ops.instrument_items.codes is 'Concepts (classify set --concept) that mean this item, LOINC codes among them; INSTRUMENT/ITEM always does.';
comment on column intake_ops.instrument_items.wordings is 'Texts of a question without a concept that mean this item, as intake_ops.plain_wording writes them.';

create table intake_ops.instrument_points (
  instrument text not null,
  item       smallint not null,
  choice     text not null,
  points     numeric not null,
  primary key (instrument, item, choice),
  foreign key (instrument, item) references intake_ops.instrument_items on delete cascade
);
comment on table intake_ops.instrument_points is 'Points of the choices of an item.';
comment on column intake_ops.instrument_points.instrument is 'The instrument.';
comment on column intake_ops.instrument_points.item is 'The item.';
comment on column intake_ops.instrument_points.choice is 'Text of the choice, as intake_ops.plain_wording writes it.';
comment on column intake_ops.instrument_points.points is 'Its points.';

create table intake_ops.instrument_bands (
  instrument text not null references intake_ops.instruments on delete cascade,
  sex        text not null check (sex in ('any', 'female', 'male')),
  from_score numeric not null,
  band       text not null,
  primary key (instrument, sex, from_score)
);
comment on table intake_ops.instrument_bands is 'What a score means.';
comment on column intake_ops.instrument_bands.instrument is 'The instrument.';
comment on column intake_ops.instrument_bands.sex is 'Sex at birth of the patients it is for: any, female or male.';
comment on column intake_ops.instrument_bands.from_score is 'The least score of the band; it ends where the next one begins.';
comment on column intake_ops.instrument_bands.band is 'Its name.';

create function intake_ops.plain_wording(wording text) returns text language sql immutable parallel safe
  return btrim(regexp_replace(
    regexp_replace(lower(wording), '^[[:space:]]*[(]?[0-9]{1,3}[a-z]?[.):][[:space:]]*', ''),
    '[[:punct:][:space:]“”„‘’–—…]+', ' ', 'g'
  ));
comment on function intake_ops.plain_wording(text) is 'A text in lower case, without its number in a list, with one space in place of punctuation and blanks.';
