/** What a receipt certifies: of each stream of each team its own figures, under the key of this warehouse. */
import { expect, test } from 'vitest'
import { checkReceipt, receiptKey, signReceipt, verificationFacts } from '../../src/operate/receipts.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { createTestDatabase } from '../support/database.ts'

test('the facts of a verification are those of its run, team by team and stream by stream', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north'), ('south');
    insert into intake_ops.runs (kind, status, started_at, finished_at, options) values
      ('verify', 'succeeded', '2026-01-01', '2026-01-02', '{"teams": ["north", "south"], "streams": ["forms", "packets"]}'),
      ('verify', 'needs_attention', '2026-01-03', '2026-01-04', '{"teams": ["north", "south"], "streams": ["forms", "packets"]}'),
      ('verify', 'running', '2026-01-05', null, '{"teams": ["north"], "streams": ["forms"]}'),
      ('backfill', 'succeeded', '2026-01-05', '2026-01-06', '{"teams": ["north"], "streams": ["forms"]}');
    insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different,
      repaired, newer, payloads_only, source_hash, warehouse_hash, source_content_hash, warehouse_content_hash, note,
      missing_ids, extra_ids, different_ids, deep)
    values (1, 1, 'forms', true, 91, 92, 0, 0, 0, 0, 0, 0, 'o', 'o', 'o', 'o', 'of an earlier run', '{}', '{}', '[]', null),
      (2, 1, 'forms', false, 11, 12, 13, 14, 15, 16, 17, 18, 'a', 'b', 'c', 'd', 'of north', '{id}', '{id}', '[{"id": "id"}]', null),
      (2, 2, 'forms', true, 21, 22, 0, 0, 0, 0, 3, 4, 'e', 'e', null, null, null, '{}', '{}', '[]', null),
      (2, 2, 'packets', true, 31, 31, 0, 0, 0, 0, 0, 0, 'f', 'f', 'g', 'g', null, '{}', '{}', '[]',
        '{"rows": 5, "cellsNotCompared": 6, "differences": []}')`)
  const zero = { missing: 0, extra: 0, different: 0, repaired: 0 }
  expect(await verificationFacts(session.db, 2)).toEqual({
    ...{ run_id: 2, status: 'needs_attention', equal: false },
    started_at: expect.stringMatching(/^2026-01-03/),
    finished_at: expect.stringMatching(/^2026-01-04/),
    teams: {
      north: {
        deep: null,
        streams: {
          forms: {
            ...{ source: 11, warehouse: 12, missing: 13, extra: 14, different: 15, repaired: 16, newer: 17 },
            ...{ payloads_only: 18, source_hash: 'a', warehouse_hash: 'b', source_content_hash: 'c' },
            ...{ warehouse_content_hash: 'd', note: 'of north', error: null },
          },
          packets: {
            ...{ ...zero, source: null, warehouse: null, newer: 0, payloads_only: 0, source_hash: null },
            ...{ warehouse_hash: null, source_content_hash: null, warehouse_content_hash: null, note: null },
            error: 'not compared',
          },
        },
      },
      south: {
        deep: { rows: 5, cells_not_compared: 6, differences: 0 },
        streams: {
          forms: {
            ...{ ...zero, source: 21, warehouse: 22, newer: 3, payloads_only: 4, source_hash: 'e' },
            ...{ warehouse_hash: 'e', source_content_hash: null, warehouse_content_hash: null },
            ...{ note: null, error: null },
          },
          packets: {
            ...{ ...zero, source: 31, warehouse: 31, newer: 0, payloads_only: 0, source_hash: 'f' },
            ...{ warehouse_hash: 'f', source_content_hash: 'g', warehouse_content_hash: 'g' },
            ...{ note: null, error: null },
          },
        },
      },
    },
  })
  // Equal with every stream compared and without a difference, whatever else needs attention; not with one, nor without a stream.
  const isEqual = async (change: string) => {
    await session.client.query(change)
    return (await verificationFacts(session.db, 1))!.equal
  }
  await session.client.query(`
    update intake_ops.runs set options = '{"teams": ["north"], "streams": ["forms"]}' where run_id = 1`)
  const set = (figures: string) => isEqual(`update intake_ops.verifications set ${figures} where run_id = 1`)
  expect(await set('newer = 5, payloads_only = 6')).toBe(true)
  for (const kind of ['missing', 'extra', 'different']) {
    expect([kind, await set(`${kind} = 1, repaired = 1`)]).toEqual([kind, false])
    expect(await set(`${kind} = 0`)).toBe(true)
  }
  expect(await set(`deep = '{"differences": [{"export_id": "e"}, {"export_id": "f"}]}'`)).toBe(false)
  expect((await verificationFacts(session.db, 1))!.teams.north!.deep).toEqual({ differences: 2 })
  expect(await set(`deep = '{"differences": []}'`)).toBe(true)
  expect(await isEqual(`update intake_ops.runs set status = 'needs_attention' where run_id = 1`)).toBe(true)
  expect(
    await isEqual(
      `update intake_ops.runs set options = options || '{"streams": ["forms", "packets"]}' where run_id = 1`,
    ),
  ).toBe(false)
  // Of two teams, the exports of one differ.
  await session.client.query(`
    update intake_ops.runs set options = '{"teams": ["south", "north"], "streams": ["forms"]}' where run_id = 1;
    insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different,
      repaired, missing_ids, extra_ids, different_ids) values (1, 2, 'forms', true, 1, 1, 0, 0, 0, 0, '{}', '{}', '[]')`)
  const setNorth = (deep: string) =>
    isEqual(`update intake_ops.verifications set deep = '${deep}' where run_id = 1 and team_id = 1`)
  expect(await setNorth('{"differences": [{"export_id": "e"}]}')).toBe(false)
  expect(await setNorth('{"differences": []}')).toBe(true)
  // One that is in progress, a run of another kind, and one that does not exist.
  for (const run of [3, 4, 5]) expect(await verificationFacts(session.db, run)).toBeNull()
})

test('a receipt says what it is, when and by which version it was issued, and is valid under the key of its warehouse alone', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  const issuedAt = new Date('2026-03-04T05:06:07.089Z')
  const receipt = { kind: 'erasure', issuedAt, facts: { erased: { records: 3 }, none: undefined } } as const
  const text = await signReceipt(session.db, '1.2.3', receipt)
  const key = await receiptKey(session.db)
  const { signature, ...body } = JSON.parse(text)
  expect(body).toEqual({
    ...{ format: 'intake-sync receipt', format_version: 1, kind: 'erasure', version: '1.2.3' },
    ...{ issued_at: '2026-03-04T05:06:07.089Z', erased: { records: 3 } },
  })
  expect(signature).toEqual({ algorithm: 'Ed25519', public_key: key, value: expect.any(String) })
  expect(checkReceipt(text, key)).toMatchObject({ valid: true, receipt: body })
  await session.client.query('update intake_ops.receipt_key set seed = sha256(seed)')
  expect(checkReceipt(text, await receiptKey(session.db))).toEqual({
    ...{ valid: false, reason: 'another key signed it' },
  })
  // A key that is as long as none of this kind is, though the receipt names it.
  for (const bytes of [31, 33]) {
    const other = Buffer.alloc(bytes, 7).toString('base64')
    const named = JSON.stringify({ ...body, signature: { ...signature, public_key: other } })
    expect(checkReceipt(named, other)).toEqual({
      ...{ valid: false, reason: 'the public key is not one of Ed25519' },
    })
  }
})
