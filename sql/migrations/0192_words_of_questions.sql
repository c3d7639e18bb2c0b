-- Words of questions are found in the same way in every database: what \m, \M and ~* take for a word depends on its
-- lc_ctype, and with C neither "años" nor "ÂGE" was found. No expression below depends on a collation.

create function intake_ops.has_word(written text, words text) returns boolean language sql immutable parallel safe
  return coalesce(
    translate(
      lower(written collate "C"),
      'ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞŒ', 'àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþœ'
    ) ~ ('(^|[^0-9a-z_À-ÖØ-öø-ɏ])(' || words || ')($|[^0-9a-z_À-ÖØ-öø-ɏ])'),
    false
  );
comment on function intake_ops.has_word(text, text) is 'Whether a text has one of some words, a regular expression in lower case. Capitals count as small ones, whatever the locale of the database.';

create or replace function intake_ops.asks_age(question_text text) returns boolean language sql immutable parallel safe
  return intake_ops.has_word(question_text, 'age|aged|ages|old|older|edad|años|alter|jahre|âge|ans|età|anni|idade|anos|leeftijd|jaar');

create or replace function intake_ops.asks_year(question_text text) returns boolean language sql immutable parallel safe
  return intake_ops.has_word(question_text, 'years?|born|birth|birthday|dob|año|nacimiento|nacido|nacida|jahr|geboren|geburtsjahr|année|naissance|né|née|anno|nascita|ano|nascimento|geboortejaar');
