/** What the history says of a backfill whose process was killed, once the next backfill begins. */
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import type { BackfillOptions } from '../../src/extract/backfill-options.ts'
import { planBackfill, planRun } from '../../src/extract/planned-backfill.ts'
import { EVERYTHING } from '../../src/extract/reading/window.ts'
import { forms } from '../../src/streams/forms.ts'
import { packets } from '../../src/streams/packets.ts'
import { patients } from '../../src/streams/patients.ts'
import type { Stream } from '../../src/streams/stream.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { rowsOf } from '../load/loading.ts'
import { createTestDatabase } from '../support/database.ts'
import { sourceNamed } from './support/source-named.ts'

test('a killed backfill is interrupted once the next one begins, whatever that one reads; those that live or wait for workers go on', async () => {
  const database = await createTestDatabase()
  const { url } = database
  const optionsOf = (stream: Stream, name = 'one'): BackfillOptions => ({
    ...{ url, teams: [sourceNamed(name)], streams: [stream], allowMassDelete: false, window: EVERYTHING },
    ...{ dry: false, migrated: true, clock: systemClock, random: Math.random },
    ...{ logger: pino({ level: 'silent' }), signal: new AbortController().signal, onProgress: () => {} },
  })
  try {
    await using lives = await openSession({ url, purpose: 'backfill' })
    await using next = await openSession({ url, purpose: 'backfill' })
    const killed: string[] = []
    for (const name of ['one', 'two']) {
      const session = await openSession({ url, purpose: 'backfill' })
      killed.push((await planRun(optionsOf(patients, name), session)).runId)
      await session.close()
    }
    const alive = (await planRun(optionsOf(forms), lives)).runId
    const waiting = (await planBackfill(optionsOf(packets))).runId
    const statuses = async () => {
      const all = 'select run_id::text as id, status from intake_ops.runs'
      const rows = await rowsOf<{ id: string; status: string }>(next, all)
      return Object.fromEntries(rows.map(({ id, status }) => [id, status]))
    }
    // Postgres takes a moment to end the session of a killed process.
    const sessions = `select pid from pg_stat_activity
      where datname = current_database() and application_name = 'intake-sync backfill'`
    await expect.poll(() => rowsOf(next, sessions)).toHaveLength(2)
    const begun = (await planRun(optionsOf(forms, 'two'), next)).runId
    const found = await statuses()
    expect(killed.map((id) => found[id])).toEqual(['interrupted', 'interrupted'])
    expect(found).toMatchObject({ [alive]: 'running', [waiting]: 'running', [begun]: 'running' })
    const shown = `select distinct error, finished_at from intake_ops.runs where run_id = any ($1)`
    expect(await rowsOf(next, shown, [killed])).toEqual([
      { error: 'the process ended before the run was complete', finished_at: null },
    ])
    const slices = `select distinct stream, state from intake_ops.slices where run_id = any ($1) order by 1`
    expect(await rowsOf(next, slices, [killed])).toEqual([
      { stream: '', state: 'canceled' },
      { stream: 'patients', state: 'canceled' },
    ])
  } finally {
    await database.drop()
  }
})
