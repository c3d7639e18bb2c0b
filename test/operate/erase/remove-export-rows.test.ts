/** Rows of exports go by client id, or by number where they have none; what is listed of the other rows stays, in its order. */
import { expect, test } from 'vitest'
import { nothingRemoved } from '../../../src/operate/erase/remove.ts'
import { removeExportRows } from '../../../src/operate/erase/remove-export-rows.ts'
import { openScene } from '../../ingest/drain/scene.ts'

/** Team, export, row, client. */
const ROWS = [
  ...['1 e 1 p', '1 e 2 -', '1 e 3 q', '1 e 4 -', '1 e 10 EHR', '1 e 11 -', '1 e 12 P'],
  ...['1 f 2 -', '1 f 4 -', '1 f 5 q', '1 g 1 q', '2 e 1 p', '2 e 2 -', '2 f 4 -'],
]
const LEFT = ROWS.filter((line) => !['1 e 1 p', '1 e 2 -', '1 e 10 EHR', '1 f 4 -'].includes(line))

const PROBLEMS: Readonly<Record<string, readonly string[]>> = {
  '1 e': [
    ...['raw_text.rows[11].sent_at', 'raw_text.rows[1].sent_at', 'raw_text.header', 'raw_text.rows[10]'],
    ...['name', 'raw_text.rows[2].q', 'raw_text.rows[3].q', 'raw_text.rows[12].archived'],
  ],
  '1 f': ['raw_text.rows[4].sent_at', 'raw_text.rows[4].q'],
  '1 g': ['raw_text.rows[1].sent_at'],
  '2 e': ['raw_text.rows[1].sent_at', 'raw_text.rows[2].q'],
}

test('rows of the patient are removed from the tables and the listed problems; bytes that cannot be searched are removed for the whole team', async () => {
  await using scene = await openScene()
  const { rows } = scene
  const linesOf = async (table: string, columns: string) =>
    (
      await rows<{ line: string }>(
        `select concat_ws(' ', team_id, export_id, ${columns}) as line from ${table} order by team_id, export_id, ${columns}`,
      )
    ).map(({ line }) => line)
  for (const line of ROWS) {
    const [team, exportId, row, client] = line.split(' ')
    await rows(
      `insert into intake.export_rows (team_id, export_id, row_number, client_id) values ($1, $2, $3, nullif($4, '-'))`,
      [team, exportId, row, client],
    )
    await rows(
      `insert into intake.export_cells (team_id, export_id, row_number, position, value) values ($1, $2, $3, 1, $4), ($1, $2, $3, 2, 'x')`,
      [team, exportId, row, client],
    )
  }
  for (const [place, paths] of Object.entries(PROBLEMS)) {
    const [team, exportId] = place.split(' ')
    await rows(
      `insert into intake_raw.export_files
         (team_id, export_id, is_loaded, hash, bytes, is_json_string, api_version, timezone, observed_at, origin, problems)
       values ($1, $2, false, '\\x00', 1, false, '', 'UTC', now(), 'test', $3)`,
      [team, exportId, JSON.stringify(paths.map((path) => ({ path, original: `of ${path}` })))],
    )
    await rows(
      `insert into intake_raw.export_chunks (team_id, export_id, is_loaded, number, body) values ($1, $2, false, 1, '\\x00')`,
      [team, exportId],
    )
  }
  const removed = { ...nothingRemoved(), exportRows: 5 }
  const unnamed = [
    { exportId: 'e', row: 2, values: [] },
    { exportId: 'f', row: 4, values: [] },
    // It has a client id since.
    { exportId: 'f', row: 5, values: [] },
  ]
  await removeExportRows(scene.session.db, 1, { ids: ['p', 'EHR'], unnamed }, removed)

  expect(removed).toEqual({ ...nothingRemoved(), exportRows: 5 + 4 })
  expect(await linesOf('intake.export_rows', `row_number, coalesce(client_id, '-')`)).toEqual(LEFT)
  expect(await linesOf('intake.export_cells', 'row_number, position, value')).toEqual(
    LEFT.flatMap((line) => [line.replace(/ (\S+)$/, ' 1 $1'), line.replace(/ \S+$/, ' 2 x')]),
  )
  const problems = await rows<{ place: string; paths: readonly string[] | null; originals: string | null }>(
    `select concat_ws(' ', team_id, export_id) as place, jsonb_path_query_array(problems, '$[*].path') as paths,
       problems ->> -1 as originals from intake_raw.export_files order by 1`,
  )
  expect(problems.map(({ place, paths }) => [place, paths])).toEqual([
    [
      '1 e',
      [
        ...['raw_text.rows[11].sent_at', 'raw_text.header', 'name', 'raw_text.rows[3].q'],
        'raw_text.rows[12].archived',
      ],
    ],
    ['1 f', null],
    ['1 g', PROBLEMS['1 g']],
    ['2 e', PROBLEMS['2 e']],
  ])
  expect(problems[0]!.originals).toContain('of raw_text.rows[12].archived')
  expect(await rows('select team_id as team, export_id as of from intake_raw.export_chunks')).toEqual([
    { team: 2, of: 'e' },
  ])
})
