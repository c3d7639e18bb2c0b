-- What a person has discarded waits no more when it is met again: it is looked up by what it is.

create index dead_letters_discarded on intake_ops.dead_letters (team_id, stream, fingerprint) where status = 'discarded';
