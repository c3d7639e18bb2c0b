/** The ids of kept pages, which a continued scan counts as seen: those of its own list, except the pages that it reads again. */
import { expect, test } from 'vitest'
import { openSeenIds } from '../../../src/extract/scan/seen-ids.ts'
import { openRig } from '../support/reading.ts'

test('the ids of kept pages count as seen, except on pages that are read again; the scan began when the earlier one did', async () => {
  await using rig = await openRig()
  const places = [
    [rig.teamId, 'patients'],
    [rig.teamId, 'forms'],
    [rig.otherId, 'patients'],
  ] as const
  for (const [teamId, stream] of places) {
    await rig.rows(
      `insert into intake_ops.scans (team_id, stream, request, started_at, began_at, first_page, pages)
       values ($1, $2, 'r', now(), now(), '{}', 5)`,
      [teamId, stream],
    )
    await rig.rows(
      `insert into intake_ops.scan_pages (team_id, stream, page, facts, ids)
       select $1, $2, page, '{}', array[page || 'a', page || 'b'] from generate_series(1, 5) as page`,
      [teamId, stream],
    )
    // The kept pages of other teams and streams have these ids only.
    await rig.rows(
      `update intake_ops.scan_pages set ids = array['other'] where not (team_id = $1 and stream = 'patients')`,
      [rig.teamId],
    )
  }
  const seenIds = await openSeenIds(rig.session)
  const beganAt = '2026-01-02 03:04:05.678901+00'
  expect(seenIds.beganAt).not.toBe(beganAt)
  const place = { teamId: rig.teamId, stream: 'patients' } as const
  await seenIds.restore(place, { beganAt }, [1, 4])
  seenIds.add('2a')
  expect(await seenIds.ids()).toEqual(['2a', '2b', '3a', '3b', '5a', '5b'])
  expect(await seenIds.repeated()).toEqual(['2a'])
  expect(seenIds.beganAt).toBe(beganAt)
  // Where no page is read again, all are.
  const all = await openSeenIds(rig.session)
  await all.restore(place, { beganAt }, [])
  expect(await all.count()).toBe(10)
})
