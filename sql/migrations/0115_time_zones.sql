-- Daily figures count the days of the team, whatever the zone of the session that asks.

alter table intake.teams add column timezone text not null default 'UTC';
comment on column intake.teams.timezone is 'Time zone of the team (INTAKE_TIMEZONE, or timezone of a team in INTAKE_CONFIG): the days of daily_volume are its days.';
