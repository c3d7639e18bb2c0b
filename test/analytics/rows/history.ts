/** The states of records, the change feed, and what clinicians see of questions and columns. */
import { put, putTeams, type Run, type World } from './tables.ts'

const payload = (value: object) => JSON.stringify(value).replaceAll(' ', '~')

async function fill(run: Run): Promise<void> {
  await putTeams(run)
  const states = (rows: readonly string[]) =>
    ['stream id version observed_at deleted hash origin payload', ...rows].join('\n')
  const dated = (updated_at: string | null, created_at = '2026-01-01T00:00Z') =>
    payload({ created_at, updated_at, last_name: updated_at ?? 'none' })
  await put(
    run,
    'intake_raw.record_history',
    states([
      `patients own 2026-01-05T00:00Z 2026-01-05T00:00Z f \\x01 page ${dated('2026-01-03T00:00Z')}`,
      // The stamp is that of the version, then that of the state before, then an earlier one.
      `patients own 2026-01-07T00:00Z 2026-01-07T00:00Z f \\x02 page ${dated('2026-01-07T00:00Z')}`,
      `patients own 2026-01-09T00:00Z 2026-01-09T00:00Z f \\x03 page ${dated('2026-01-07T00:00Z')}`,
      `patients own 2026-01-11T00:00Z 2026-01-11T00:00Z f \\x04 page ${dated('2026-01-02T00:00Z')}`,
      // Without a stamp of its own before: then by the version of that state.
      `patients bare 2026-01-05T00:00Z 2026-01-05T00:00Z f \\x01 page ${dated(null)}`,
      // Two of one version: the tombstone wins, then the later observation.
      `patients tied 2026-01-05T00:00Z 2026-01-07T00:00Z t \\x02 event:1 -`,
      `patients tied 2026-01-05T00:00Z 2026-01-09T00:00Z f \\x01 page ${dated('2026-01-02T00:00Z')}`,
      `patients tied 2026-01-05T00:00Z 2026-01-08T00:00Z f \\x01 page ${dated('2026-01-02T00:00Z')}`,
    ]),
  )
  const of = (part: object) => payload({ id: 'x', ...part })
  await put(
    run,
    'intake_raw.records',
    states([
      `patients own 2026-01-13T00:00Z 2026-01-13T00:00Z f \\x05 page ${dated('2026-01-14T00:00Z')}`,
      `patients bare 2026-01-09T00:00Z 2026-01-09T00:00Z f \\x02 page ${dated('2026-01-04T00:00Z')}`,
      `patients tied 2026-01-04T00:00Z 2026-01-04T00:00Z f \\x03 page ${dated(null)}`,
      // Created after it was read.
      `patients odd 2026-01-09T00:00Z 2026-01-09T00:00Z f \\x02 page ${dated(null, '2026-02-01T00:00Z')}`,
      `patients undated 2026-01-09T00:00Z 2026-01-09T00:00Z f \\x02 page {"id":"undated"}`,
      `patients gone 2026-01-09T00:00Z 2026-01-09T00:00Z t \\x02 page -`,
      `patients whole 2026-01-09T00:00Z 2026-01-09T00:00Z f \\x02 page ${of({
        ...{
          external_id: 'e',
          first_name: 'f',
          last_name: 'l',
          email: 'm',
          phone_number: 'p',
          date_birth: '1980-02-29',
        },
        ...{
          sex_at_birth: 's',
          provider: 'v',
          address: 'a',
          address2: 'b',
          city: 'c',
          state: 't',
          zipcode: 'z',
          created_at: '2026-01-01T00:00Z',
          updated_at: '2026-01-02T00:00Z',
        },
      })}`,
      ...[
        {
          patient: { id: 'p' },
          form: { id: 'f' },
          packet: { id: 'k' },
          document: { id: 'd' },
          is_submitted: true,
        },
        {
          patient: { uid: 'p' },
          form: { uid: 'f' },
          packet: { uid: 'k' },
          document: { uid: 'd' },
          is_skipped: true,
        },
        { patient_id: 'p', form_id: 'f', packet_id: 'k', document_id: 'd', is_archived: true },
        {
          patient: 'p',
          form: 'f',
          packet: 'k',
          document: 'd',
          is_submitted: false,
          is_skipped: false,
          is_archived: false,
        },
        {
          ...{
            patient: { id: 'p', uid: 'q' },
            patient_id: 'r',
            form: { uid: 'f' },
            form_id: 'g',
            packet: 7,
            document: null,
          },
          ...{
            is_submitted: 'yes',
            is_skipped: 'true',
            form_name: 'name',
            submitted_at: '2026-01-02T00:00Z',
            created_at: '2026-01-03T00:00Z',
            updated_at: '2026-01-04T00:00Z',
            answers: [1],
          },
        },
      ].map((part, at) => `responses r${at} 2026-01-09T00:00Z 2026-01-09T00:00Z f \\x02 page ${of(part)}`),
      `webhook_configs w 2026-01-09T00:00Z 2026-01-09T00:00Z f \\x02 page {"id":"w"}`,
    ]),
  )
  await run(
    `insert into intake_raw.removed_records (team_id, stream, key, removed_at)
     select team_id, stream, 'removed', '2026-01-10Z' from intake.teams, unnest(array['patients', 'webhook_deliveries']) stream`,
  )
  await run(`update intake_raw.records set change_seq = 5, changed_at = null`)
  await run(`update intake_raw.records set change_seq = 6, changed_at = '2026-01-12Z' where id = 'gone'`)
  await run(`update intake_raw.removed_records set change_seq = 7`)
  await run(
    `insert into intake_raw.records (team_id, stream, id, version, observed_at, hash, origin, change_seq)
     select team_id, 'patients', id, now(), now(), '', 'test', (pg_snapshot_xmin(pg_current_snapshot())::text::bigint << 20) + more
     from intake.teams, unnest(array['last', 'from-now', 'later'], array[-1, 0, 1 << 40::int]::bigint[]) own (id, more)`,
  )
}

const STATES = 'valid_from, valid_to, known_from, is_current, is_deleted'

export const HISTORY: World = {
  name: 'states and changes',
  ids: [
    'own',
    'bare',
    'tied',
    'odd',
    'undated',
    'gone',
    'whole',
    'r0',
    'r1',
    'r2',
    'r3',
    'r4',
    'w',
    'last',
    'from-now',
    'later',
  ],
  fill,
  promises: [
    {
      promise:
        'a state is valid from its own stamp, if that is later than the state before and not ahead of the version; the first from its creation',
      role: 'intake_clinical',
      query: `select id, ${STATES} from intake.patients_history where id in ('own', 'bare', 'tied', 'odd', 'undated', 'gone')`,
      rows: `
        own     2026-01-01T00:00 2026-01-07T00:00 2026-01-03T00:00 false false
        own     2026-01-07T00:00 2026-01-09T00:00 2026-01-07T00:00 false false
        own     2026-01-09T00:00 2026-01-11T00:00 2026-01-09T00:00 false false
        own     2026-01-11T00:00 2026-01-13T00:00 2026-01-11T00:00 false false
        own     2026-01-13T00:00 -                2026-01-13T00:00 true  false
        bare    2026-01-01T00:00 2026-01-09T00:00 2026-01-05T00:00 false false
        bare    2026-01-09T00:00 -                2026-01-09T00:00 true  false
        tied    2026-01-01T00:00 2026-01-05T00:00 2026-01-02T00:00 false false
        tied    2026-01-05T00:00 2026-01-05T00:00 2026-01-05T00:00 false false
        tied    2026-01-05T00:00 2026-01-05T00:00 2026-01-05T00:00 false true
        tied    2026-01-05T00:00 -                2026-01-05T00:00 true  false
        odd     2026-01-09T00:00 -                2026-01-09T00:00 true  false
        undated 2026-01-09T00:00 -                2026-01-09T00:00 true  false
        gone    2026-01-09T00:00 -                2026-01-09T00:00 true  true`,
    },
    {
      promise: 'of patients have each field',
      role: 'intake_clinical',
      query: `select id, external_id, first_name, last_name, email, phone_number, date_birth, sex_at_birth, provider, address,
          address2, city, state, zipcode, patient_id, _version, created_at, updated_at from intake.patients_history where id = 'whole'`,
      rows: 'whole e f l m p 1980-02-29 s v a b c t z whole 2026-01-09T00:00 2026-01-01T00:00 2026-01-02T00:00',
    },
    {
      promise:
        'of responses name patient, form, packet and document in each way that the service writes them',
      role: 'intake_clinical',
      query: `select id, patient_id, form_id, packet_id, document_id, form_name, is_submitted, is_skipped, is_archived, submitted_at, created_at, updated_at, answers
        from intake.responses_history`,
      rows: `
        r0 p f k d - true  -     -     - - - -
        r1 p f k d - -     true  -     - - - -
        r2 p f k d - -     -     true  - - - -
        r3 p f k d - false false false - - - -
        r4 p f - - name - true - 2026-01-02T00:00 2026-01-03T00:00 2026-01-04T00:00 [1]`,
    },
    {
      promise:
        'changes are those below the oldest open transaction, of the streams that analysts see, people by pseudonym',
      query: `select case when seq < 100 then seq end as seq, stream, id, operation, case when seq < 100 then version end as version,
          case when seq < 100 then changed_at end as changed_at, key = id or stream <> 'patients' as is_key
        from intake_analytics.changes`,
      rows: `
        ${['own', 'bare', 'tied', 'odd', 'undated', 'whole'].map((id) => `5 patients ${id} upsert ${VERSIONS()[id] ?? '2026-01-09T00:00'} ${VERSIONS()[id] ?? '2026-01-09T00:00'} true`).join('\n')}
        ${['r0', 'r1', 'r2', 'r3', 'r4'].map((id) => `5 responses ${id} upsert 2026-01-09T00:00 2026-01-09T00:00 true`).join('\n')}
        - patients last upsert - - true
        6 patients gone delete 2026-01-09T00:00 2026-01-12T00:00 true
        7 patients removed delete 2026-01-10T00:00 2026-01-10T00:00 true`,
    },
    {
      promise: 'clinicians see changes of all streams of their team, by ids and by keys',
      role: 'owner',
      query: `select team_id, case when seq < 100 then seq end as seq, stream, id, operation, case when seq < 100 then version end as version,
          case when seq < 100 then changed_at end as changed_at, key
        from intake.changes where team_id = 1 and id in ('own', 'gone', 'w', 'last', 'from-now', 'later', 'removed') or seq = 7`,
      rows: `
        1 5 patients own upsert 2026-01-13T00:00 2026-01-13T00:00 own
        1 5 webhook_configs w upsert 2026-01-09T00:00 2026-01-09T00:00 w
        1 6 patients gone delete 2026-01-09T00:00 2026-01-12T00:00 gone
        1 - patients last upsert - - last
        1 7 patients removed delete 2026-01-10T00:00 2026-01-10T00:00 removed
        1 7 webhook_deliveries removed delete 2026-01-10T00:00 2026-01-10T00:00 removed
        2 7 patients removed delete 2026-01-10T00:00 2026-01-10T00:00 removed
        2 7 webhook_deliveries removed delete 2026-01-10T00:00 2026-01-10T00:00 removed`,
    },
  ],
}

function VERSIONS(): Readonly<Record<string, string>> {
  return { own: '2026-01-13T00:00', tied: '2026-01-04T00:00' }
}
