/** An erasure removes every trace of the patient's records, and nothing of other records, streams and teams. */
import { expect, test } from 'vitest'
import type { StreamName } from '../../../src/core/envelope.ts'
import { nothingRemoved, removeRecords } from '../../../src/operate/erase/remove.ts'
import { openScene } from '../../ingest/drain/scene.ts'

const STATE = `now(), now(), '\\x00', 'test'`

/** Columns and values; the first three are of the team, the stream and the record. */
const TRACES: Readonly<Record<string, readonly [columns: string, values: string]>> = {
  'intake_raw.records': ['team_id, stream, id, version, observed_at, hash, origin', `$1, $2, $3, ${STATE}`],
  'intake_raw.record_history': [
    'team_id, stream, id, version, observed_at, hash, origin, deleted, superseded_at',
    `$1, $2, $3, ${STATE}, false, now()`,
  ],
  'intake_raw.list_entries': ['team_id, stream, id, hash', `$1, $2, $3, '\\x00'`],
  'intake_raw.known_pages': [
    'team_id, stream, ids, page, is_next, reader, bytes, hashes',
    `$1, $2, E'before\\n' || $3 || E'\\nafter', (select count(*) from intake_raw.known_pages), false, '', '', ''`,
  ],
  'intake_ops.refetches': ['team_id, stream, id, reason, origin', `$1, $2, $3, 'contested', 'x'`],
  'intake_ops.missed_once': ['team_id, stream, id, run_id', '$1, $2, $3, 1'],
  'intake_ops.dead_letters': [
    'team_id, stream, record_id, fingerprint, origin, reason',
    `$1, $2, $3, gen_random_uuid(), 'page', 'why'`,
  ],
  'intake_raw.inbox': [
    'team_id, source, record_id, event_id, body_hash, received_on, received_at, body',
    `$1, left($2, -1), $3, gen_random_uuid(), '\\x00', '2026-01-01', now(), ''`,
  ],
}

const ALL = [
  [1, 'patients', 'gone'],
  [1, 'patients', 'gone too'],
  [1, 'patients', 'another'],
  [1, 'forms', 'gone'],
  [2, 'patients', 'gone'],
] as const

test('of each trace, that of the erased records', async () => {
  await using scene = await openScene()
  const { rows } = scene
  for (const place of ALL) {
    for (const [table, [columns, values]] of Object.entries(TRACES))
      await rows(`insert into ${table} (${columns}) values (${values})`, [...place])
    const [team, stream, id] = place
    await rows(
      `insert into intake_ops.scans (team_id, stream, request, started_at, began_at, first_page, pages)
       values ($1, $2, '', now(), now(), '{}', 1) on conflict do nothing`,
      [team, stream],
    )
    if (stream !== 'patients') continue
    await rows(
      `insert into intake.patients (team_id, id, _version, _origin) values ($1, $2, now(), 'test')`,
      [team, id],
    )
    await rows(
      `insert into intake.patient_tags (team_id, patient_id, position, name) values ($1, $2, 1, 'x')`,
      [team, id],
    )
    await rows(`insert into intake_ops.former_identities (team_id, id, hash) values ($1, $2, '')`, [team, id])
  }
  const run = `insert into intake_ops.runs (kind, status) values ('verify', 'succeeded') returning run_id as id`
  const runs: string[] = []
  for (let time = 0; time < 3; time += 1) runs.push((await rows<{ id: string }>(run))[0]!.id)
  const [first, second, third] = runs as [string, string, string]
  const differ = JSON.stringify(['b', 'gone', 'a'].map((id) => ({ id, columns: ['city'] })))
  const verify = (
    runId: string,
    team: number,
    stream: string,
    missing: string,
    extra: string,
    different: string,
  ) =>
    rows(
      `insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different,
         repaired, missing_ids, extra_ids, different_ids) values ($1, $2, $3, false, 9, 9, 3, 3, 3, 0, $4, $5, $6)`,
      [runId, team, stream, missing, extra, different],
    )
  await verify(first, 1, 'patients', '{b,gone,a}', '{}', '[]')
  await verify(second, 1, 'patients', '{}', '{}', differ)
  await verify(third, 1, 'patients', '{}', '{z,gone too,y}', '[]')
  await verify(first, 1, 'forms', '{gone}', '{gone}', '[{"id": "gone"}]')
  await verify(first, 2, 'patients', '{gone}', '{gone}', '[{"id": "gone"}]')

  // Rows of exports are compared with responses: a response that has the id of a patient is another.
  const compared = ['r1', 'gone', 'r2', 'r3'].map((id) => ({ export_id: 'e', response_id: id }))
  for (const [runId, team] of [
    [first, 1],
    [first, 2],
  ] as const) {
    await verify(runId, team, 'exports', '{}', '{}', '[]')
    await rows(`update intake_ops.verifications set deep = $2 where team_id = $1 and stream = 'exports'`, [
      team,
      JSON.stringify({ rows: 9, differences: compared }),
    ])
  }

  const removed = nothingRemoved()
  const found = new Map<StreamName, readonly string[]>([
    ['patients', ['gone', 'gone too']],
    ['responses', ['r3', 'r1']],
  ])
  await removeRecords(scene.session.db, { teamId: 1, id: 'gone' }, found, removed)

  expect(removed).toEqual({ records: 2, history: 2, events: 2, deadLetters: 2, exportRows: 0 })
  const left = ALL.slice(2)
  for (const [table, [columns]] of Object.entries(TRACES)) {
    const [team, stream, id] = columns.split(', ')
    const named = table === 'intake_raw.known_pages' ? `split_part(ids, E'\\n', 2)` : id
    const lines = await rows<{ line: string }>(
      `select concat_ws(' ', ${team}, rtrim(${stream}, 's'), ${named}) as line from ${table} order by ctid`,
    )
    expect([table, lines.map(({ line }) => line)]).toEqual([
      table,
      left.map(([team, stream, id]) => `${team} ${stream.slice(0, -1)} ${id}`),
    ])
  }
  const persons = [
    { team: 1, id: 'another' },
    { team: 2, id: 'gone' },
  ]
  expect(await rows('select team_id as team, id from intake.patients order by 1')).toEqual(persons)
  expect(await rows('select team_id as team, patient_id as id from intake.patient_tags order by 1')).toEqual(
    persons,
  )
  // Of the other records of the patient, no former identity is kept.
  expect(await rows('select team_id as team, id from intake_ops.former_identities order by 1, 2')).toEqual([
    { team: 1, id: 'another' },
    { team: 1, id: 'gone too' },
    { team: 2, id: 'gone' },
  ])
  expect(await rows('select team_id as team, stream from intake_ops.scans order by 1')).toEqual([
    { team: 1, stream: 'forms' },
    { team: 2, stream: 'patients' },
  ])
  const verified = `select run_id as run, missing_ids as missing, extra_ids as extra, different_ids as different, missing::int as count
    from intake_ops.verifications where team_id = $1 and stream = $2 order by run_id`
  expect(await rows(verified, [1, 'patients'])).toEqual([
    { run: first, missing: ['b', 'a'], extra: [], different: [], count: 3 },
    {
      ...{ run: second, missing: [], extra: [], count: 3 },
      different: [
        { id: 'b', columns: ['city'] },
        { id: 'a', columns: ['city'] },
      ],
    },
    { run: third, missing: [], extra: ['z', 'y'], different: [], count: 3 },
  ])
  const differences = await rows(
    `select team_id as team, deep -> 'rows' as rows, jsonb_path_query_array(deep, '$.differences[*].response_id') as ids
     from intake_ops.verifications where stream = 'exports' order by 1`,
  )
  expect(differences).toEqual([
    { team: 1, rows: 9, ids: ['gone', 'r2'] },
    { team: 2, rows: 9, ids: ['r1', 'gone', 'r2', 'r3'] },
  ])
  const untouched = { run: first, missing: ['gone'], extra: ['gone'], different: [{ id: 'gone' }], count: 3 }
  for (const [team, stream] of [
    [1, 'forms'],
    [2, 'patients'],
  ])
    expect(await rows(verified, [team, stream])).toEqual([untouched])
})
