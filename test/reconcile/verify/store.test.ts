/** Stored differences between exports and responses, after an erasure. */
import { expect, test } from 'vitest'
import { forgetResponses, storeChannels } from '../../../src/reconcile/verify/store.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'

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
