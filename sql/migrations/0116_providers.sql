-- A provider is shown as the identifier that the service gives it, a UUID. The upload of patients takes any text there: anything
-- else becomes a pseudonym, by which responses can still be counted.
create function intake_ops.provider(inner_pad bytea, outer_pad bytea, team_id smallint, provider text) returns text
  language sql stable parallel safe
  return case
    when provider ~ '^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$' then provider
    when btrim(provider) <> '' then intake_ops.pseudonym(inner_pad, outer_pad, team_id, 'provider ' || provider)
  end;
comment on function intake_ops.provider(bytea, bytea, smallint, text) is 'The provider as analysts see it: a UUID as it is, any other text as a pseudonym.';
