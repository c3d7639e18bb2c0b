/**
 * A small warehouse of fixed content for commands that are recorded: two teams with the same ids and different figures, and a
 * removed one; runs of each kind and end, dead letters of each status, questions, and records with a history.
 */
import { openWarehouse, query } from '../e2e/support/scene.ts'
import { configOf } from '../e2e/support/teams.ts'

const PATIENT = (n: number, city: string) => `{"id": "p${n}", "city": "${city}"}`

const ROWS = `
  insert into intake.teams (name, environment) values ('north', 'production'), ('south', null), ('gone', 'sandbox');
  insert into intake_ops.removed_teams (team_id, name, data, events, removed_at, finished_at)
    values (3, 'gone', 'kept', 2, '2026-01-04T05:06:07Z', '2026-01-04T05:06:08Z');

  insert into intake_ops.runs (kind, status, started_at, finished_at, error, options) values
    ('backfill', 'succeeded', '2026-01-01T02:00:00Z', '2026-01-01T02:01:05Z', null, '{"streams": ["patients", "forms"]}'),
    ('backfill', 'needs_attention', '2026-01-02T02:00:00Z', '2026-01-02T02:00:04.4Z', null, '{"teams": ["north", "south"]}'),
    ('verify', 'needs_attention', '2026-01-03T02:00:00Z', '2026-01-03T03:30:00Z', 'it is not equal', '{"teams": ["north", "south"], "streams": ["patients"]}'),
    ('replay', 'succeeded', '2026-01-04T02:00:00Z', '2026-01-04T02:00:59.6Z', null, '{}'),
    ('backfill', 'failed', '2026-01-05T02:00:00Z', '2026-01-05T02:00:00.04Z', 'GET /v2/forms: the service failed', '{}'),
    ('backfill', 'running', '2026-01-06T02:00:00Z', null, null, '{}');
  insert into intake_ops.run_streams (run_id, team_id, stream, status, requests, throttled, fetched, changed, unchanged, deleted, dead_letters, problems, seconds, note) values
    (1, 1, 'patients', 'succeeded', 12, 1, 1200, 7, 1193, 2, 0, 3, 60.5, null), (1, 1, 'forms', 'succeeded', 2, 0, 30, 4, 26, 0, 0, 0, 1, null),
    (2, 1, 'forms', 'needs_attention', 3, 0, 31, 1, 30, 0, 1, 0, 2, 'one record cannot be read'), (2, 2, 'forms', 'succeeded', 4, 2, 5, 5, 0, 1, 0, 0, 3, null),
    (3, 1, 'patients', 'needs_attention', 5, 0, 0, 0, 0, 0, 0, 0, 4, '1 missing'), (3, 2, 'patients', 'succeeded', 6, 0, 0, 0, 0, 0, 0, 0, 5, null),
    (5, 2, 'forms', 'failed', 1, 0, 0, 0, 0, 0, 0, 0, 0.04, 'GET /v2/forms: the service failed');
  insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different, repaired, newer, missing_ids, extra_ids, different_ids)
    values (3, 1, 'patients', false, 10, 9, 1, 0, 2, 0, 4, '{p7}', '{}', '[]'), (3, 2, 'patients', true, 5, 5, 0, 0, 0, 0, 0, '{}', '{}', '[]');
  insert into intake_ops.slices (run_id, team_id, stream, spec, state, owner, claimed_at, settled_at, result)
    values (4, 1, 'forms', '{"kind": "replay"}', 'done', 'host-1', '2026-01-04T02:00:01Z', '2026-01-04T02:00:59Z', '{"status": "succeeded", "records": 7, "rewritten": 2, "removed": 1}');
  insert into intake_ops.run_log (run_id, line, at, level, team_id, stream, message) values
    (2, 1, '2026-01-02T02:00:01Z', 'info', 1, 'forms', 'reading'), (2, 2, '2026-01-02T02:00:02Z', 'warn', 2, 'forms', 'waits 3 s'), (2, 3, '2026-01-02T02:00:04Z', 'info', null, null, 'ended');

  insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, origin, payload) values
    (1, 'patients', 'p1', '2026-01-05', '2026-01-05', false, '\\xaa01', 'run:2 page:1', '${PATIENT(1, 'Bonn')}'),
    (1, 'patients', 'p2', '2026-01-02', '2026-01-02T01:00Z', true, '', 'run:1 scan', null),
    (1, 'forms', 'f', '2026-01-01', '2026-01-01', false, '\\xcc01', 'run:1 page:1', '{"id": "f"}'),
    (2, 'patients', 'p1', '2026-01-03', '2026-01-03', false, '\\xbb01', 'event:e1', '${PATIENT(1, 'Kiel')}'),
    (3, 'patients', 'p1', '2026-01-04', '2026-01-04', false, '\\xdd01', 'run:1 page:9', '${PATIENT(1, 'Jena')}');
  insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, payload, superseded_at) values
    (1, 'patients', 'p1', '2026-01-01', '2026-01-01', false, '\\xaa00', 'run:1 page:2', '${PATIENT(1, 'Ulm')}', '2026-01-05T00:00:01Z'),
    (1, 'patients', 'p2', '2026-01-01', '2026-01-01', false, '\\xaa02', 'run:1 page:2', '${PATIENT(2, 'Ulm')}', '2026-01-02T01:00:01Z');
  insert into intake_ops.refetches (team_id, stream, id, reason, origin, due_at) values (1, 'patients', 'p1', 'partial', 'event:e7', '2026-01-07T00:00:00Z');
  insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body, status) values
    (1, 'e1', '\\x01', '2026-01-03', '2026-01-03T10:00:00Z', 'updated', 'patient', 'p1', '{"data": {"id": "p1"}}', 'pending'),
    (1, 'e2', '\\x02', '2026-01-03', '2026-01-03T11:00:00Z', null, 'form', 'f', '{}', 'pending'),
    (2, 'e1', '\\x01', '2026-01-04', '2026-01-04T10:00:00Z', 'created', 'patient', 'p1', '{"data": {"id": "p1"}}', 'done');

  insert into intake_ops.drift (team_id, stream, path, type, count) values (1, 'patients', 'new_field', 'string', 3), (2, 'forms', 'x', 'number', 1);
  insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason, status, seen, created_at, last_seen_at, last_run_id, settled_at) values
    (1, 'patients', 'p7', 'a', 'run:2 page:1', 'has a field that cannot be read', 'waiting', 3, '2026-01-01T01:00Z', '2026-01-02T02:00Z', 2, null),
    (2, 'patients', 'p7', 'a', 'run:2 page:4', 'was refused', 'waiting', 1, '2026-01-01T03:00Z', '2026-01-03T04:00Z', null, null),
    (1, 'inbox', null, 'b', 'event:e9', 'is not JSON', 'waiting', 1, '2026-01-01T05:00Z', '2026-01-01T06:00Z', null, null),
    (1, 'forms', null, 'c', 'run:1 page:1', 'has no id', 'discarded', 2, '2026-01-01T07:00Z', '2026-01-04T08:00Z', 1, '2026-01-05T09:00Z'),
    (2, 'exports', 'x', 'd', 'run:1 file', 'the file is malformed', 'waiting', 1, '2026-01-01T08:00Z', '2026-01-05T01:00Z', 1, null),
    (1, 'forms', 'f', 'e', 'run:1 page:2', 'was refused', 'retried', 1, '2026-01-01T07:00Z', '2026-01-05T08:00Z', null, '2026-01-05T09:00Z');
  insert into intake_raw.set_aside (dead_letter_id, body) values (1, '{"id": "p7", "city": ["Köln"]}'), (2, '{"id": "p7"}'), (3, '{"cut'), (5, 'a,b');

  insert into intake.patients (team_id, id, _version, _origin, _loaded_at, _hash) select team_id, id, version, origin, version, hash from intake_raw.records where stream = 'patients' and not deleted;
  insert into intake.patient_tags (team_id, patient_id, position, name) values (1, 'p1', 1, 'Fall risk'), (2, 'p1', 1, 'Fall risk'), (2, 'p1', 2, 'Late');
  insert into intake.forms (team_id, id, name, _version, _origin) values (1, 'f', 'Intake', now(), 'x'), (1, 'g', null, now(), 'x'), (2, 'f', 'Intake', now(), 'x');
  insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text) values
    (1, 'f', 1, 'story', 'long_text', 'Tell us, "please"'), (1, 'f', 2, 'weight', 'number', 'Weight'), (1, 'g', 1, 'weight', 'number', 'Weight'),
    (1, 'g', 2, 'none', 'long_text', null), (2, 'f', 1, 'story', 'long_text', 'Tell us, "please"');
  insert into intake_ops.access (login, team_id, granted_at) values ('intake_analyst', 1, '2026-01-01T02:03:04Z'), ('role_that_is_gone', 2, '2026-01-02T02:03:04Z');
  insert into intake_ops.webhook_secrets (team_id, config_id, secret) values (1, 'w', ''), (2, 'w', '')
`

/** Files that the commands name. */
export const FILES: Readonly<Record<string, string>> = {
  // As Windows saves it.
  'own.json': `\ufeff${JSON.stringify({
    ...{
      instrument: 'own',
      title: 'Our own',
      source: 'ourselves',
      least_answered: 1,
      points: { No: 0, Yes: 1 },
    },
    ...{ items: [{ codes: [], wordings: ['Weight'] }], bands: [{ from: 0, band: 'low' }] },
  })}`,
  'broken.json': '{"instrument": "broken"}',
  'decisions.csv': [
    'form,question_text,visibility,concept,team',
    'Intake,"Tell us, ""please""",visible,,north',
    ',Weight,,weight,',
    'g,,,,\n',
  ].join('\n'),
}

export interface RecordedWorld extends AsyncDisposable {
  readonly url: string
  /** Both teams, at a service that nobody can reach, and no psql. */
  readonly env: Readonly<Record<string, string>>
}

export async function openRecordedWorld(): Promise<RecordedWorld> {
  const { url, drop } = await openWarehouse()
  await query(url, `set timezone to 'UTC'; ${ROWS}`)
  const access = { baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's' }
  const env = {
    ...configOf(['north', 'south'].map((name) => ({ name, ...access }))),
    ...{ DATABASE_URL: url, LOG_LEVEL: 'error', PATH: '/nowhere' },
  }
  return { url, env: env as Readonly<Record<string, string>>, [Symbol.asyncDispose]: drop }
}
