/** What a verification stores, and what an erasure removes of it. */
import { expect, test } from 'vitest'
import { forgetResponses, storeChannels, storeVerified } from '../../../src/reconcile/verify/store.ts'
import type { StreamVerified } from '../../../src/reconcile/verify/verify-stream.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'

test('what a comparison with the responses found is stored with the exports of its run and team, and nowhere else', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'store test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north'), ('south');
    insert into intake_ops.runs (kind, options) values ('verify', '{}'), ('verify', '{}')`)
  const sums = { source: 5, warehouse: 6, sourceHash: 'sh', warehouseHash: 'wh' }
  const verified = {
    ...{ missing: ['m'], extra: ['e1', 'e2'], different: [{ id: 'd', fields: ['name'] }], repaired: 7 },
    ...{ sums: { ...sums, sourceContentHash: 'sc', warehouseContentHash: 'wc' }, newer: 8, notDue: 30 },
    ...{ payloadsOnly: 9, note: 'why' },
  } as unknown as StreamVerified
  for (const runId of ['1', '2'])
    for (const teamId of [1, 2])
      for (const stream of ['exports', 'responses'] as const)
        await storeVerified(session.db, { runId, teamId, stream }, verified)
  const channels = { rows: 9, cells: 8, cellsNotCompared: 7, columnsNotCompared: 6, differences: [] }
  await storeChannels(session.db, { runId: '2', teamId: 1 }, channels)
  const { rows } = await session.client.query(
    `select * from intake_ops.verifications order by run_id, team_id, stream`,
  )
  const stored = {
    ...{
      is_equal: false,
      source: '5',
      warehouse: '6',
      missing: '1',
      extra: '2',
      different: '1',
      repaired: '7',
    },
    ...{ missing_ids: ['m'], extra_ids: ['e1', 'e2'], different_ids: [{ id: 'd', fields: ['name'] }] },
    ...{ payloads_only: '9', newer: '38', source_hash: 'sh', warehouse_hash: 'wh', note: 'why', deep: null },
    ...{ source_content_hash: 'sc', warehouse_content_hash: 'wc', verified_at: expect.any(Date) },
  }
  expect(rows).toEqual(
    ['1', '2'].flatMap((run_id) =>
      [1, 2].flatMap((team_id) => [
        {
          ...stored,
          run_id,
          team_id,
          stream: 'exports',
          deep: run_id === '2' && team_id === 1 ? channels : null,
        },
        { ...stored, run_id, team_id, stream: 'responses' },
      ]),
    ),
  )
})

test('responses that were erased are removed, and no other difference: not one without a response, nor another team’s', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'store test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north'), ('south');
    insert into intake_ops.runs (kind, options) values ('verify', '{}');
    insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different,
      repaired, missing_ids, extra_ids, different_ids)
    select 1, team_id, stream, true, 0, 0, 0, 0, 0, 0, '{}', '{}', '[]'
    from intake.teams cross join unnest('{exports,responses}'::text[]) as stream`)
  const at = (response_id: string | null, position: number) => {
    return { export_id: 'e', response_id, row_number: 1, position }
  }
  const differences = [at('r3', 1), at('r1', 2), at(null, 3), at('r2', 4), at('r1', 5)]
  const channels = { rows: 9, cells: 8, cellsNotCompared: 7, columnsNotCompared: 6, differences }
  for (const teamId of [1, 2]) await storeChannels(session.db, { runId: '1', teamId }, channels)
  await forgetResponses(session.db, 1, ['r1', 'r3'])
  const stored = async () => {
    const { rows } = await session.client.query<{ deep: typeof channels | null }>(
      'select deep from intake_ops.verifications order by team_id, stream',
    )
    return rows.map(({ deep }) => deep)
  }
  const left = { ...channels, differences: [at(null, 3), at('r2', 4)] }
  expect(await stored()).toEqual([left, null, channels, null])
  await forgetResponses(session.db, 1, ['r2'])
  await forgetResponses(session.db, 2, ['r1', 'r2', 'r3'])
  expect((await stored()).map((deep) => deep?.differences)).toEqual([
    [at(null, 3)],
    undefined,
    [at(null, 3)],
    undefined,
  ])
})
