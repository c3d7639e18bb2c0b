/** A replay that fails in one stream, or is stopped, reports that, and the other streams are rebuilt. */
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { replay, statusOf } from '../../src/reconcile/replay.ts'
import { forms } from '../../src/streams/forms.ts'
import { littlePatients, startLittleService } from '../e2e/support/little-service.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'

let warehouse: TestDatabase

beforeAll(async () => {
  warehouse = await openWarehouse()
  await using service = await startLittleService(littlePatients(3))
  service.records.forms.push({ id: 'f1', name: 'Intake' }, { id: 'f2', name: 'Other' })
  const env = { ...service.env, DATABASE_URL: warehouse.url }
  const ended = await runCommand(['backfill', '--streams', 'forms,patients'], env)
  expect(ended.code, ended.output).toBe(0)
})
afterAll(() => warehouse.drop())

const rows = (text: string) => query(warehouse.url, text)
const run = (...words: string[]) => runCommand(words, { DATABASE_URL: warehouse.url, LOG_LEVEL: 'silent' })
const silent = pino({ enabled: false })

test('the status of a run is the worst of its streams', () => {
  const all = ['succeeded', 'needs_attention', 'failed', 'interrupted'] as const
  for (let worst = 0; worst < all.length; worst += 1)
    expect(statusOf(all.slice(0, worst + 1).toReversed())).toBe(all[worst])
  expect(statusOf([])).toBe('succeeded')
})

test('a stream that fails says why, and the others are rebuilt; one that differs in nothing is not', async () => {
  await rows(`
    create function fail() returns trigger language plpgsql as $$ begin raise exception using errcode = '53100'; end $$;
    create trigger fail before insert on intake.forms for each row execute function fail();
    update intake.forms set name = 'spoiled' where id = 'f1';
    update intake.patients set last_name = 'spoiled', _loaded_at = '2020-01-01'`)
  const failed = await run('replay', '--streams', 'forms,patients', '--json')
  expect(failed.code, failed.output).toBe(1)
  const { run_id, status, streams } = JSON.parse(failed.stdout)
  expect(status).toBe('failed')
  const reason = expect.stringMatching(/the disk of the warehouse is full.* — free space, then run again$/)
  expect(streams.forms).toMatchObject({ records: 0, rewritten: 0, refused: 0, note: reason })
  expect(streams.patients).toMatchObject({ records: 3, rewritten: 3, removed: 0, note: null })
  expect(await rows(`select status, error from intake_ops.runs where run_id = ${run_id}`)).toEqual([
    { status: 'failed', error: expect.stringMatching(/^default\/forms: the disk/) },
  ])
  expect(
    await rows(`select from intake.patients where last_name = 'spoiled' or _loaded_at < '2026-01-01'`),
  ).toEqual([])
  await rows('drop trigger fail on intake.forms')
  expect((await run('replay', '--streams', 'forms')).code).toBe(0)
  expect(await rows('select name from intake.forms order by id')).toEqual([
    { name: 'Intake' },
    { name: 'Other' },
  ])
})

test('one that is stopped says so, with what to do, and is no failure', async () => {
  const options = {
    ...{ url: warehouse.url, streams: [forms], clock: systemClock, logger: silent },
    ...{ signal: AbortSignal.abort(), onProgress: () => {} },
  }
  const { runId, status, teams } = await replay(options)
  expect(status).toBe('interrupted')
  expect(teams[0]!.streams[0]!.report).toMatchObject({
    ...{ status: 'interrupted', records: 0, note: 'stopped by a signal; run it again to complete it' },
  })
  expect(await rows(`select status from intake_ops.runs where run_id = ${runId}`)).toEqual([{ status }])
})
