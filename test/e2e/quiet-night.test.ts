/** A run after a night without changes sends only the requests it must, and writes only its run record. */
import { expect, it, vi } from 'vitest'
import type { Webhooks } from '../../src/emulator/webhooks/engine.ts'
import { DECLARED } from '../../src/emulator/world/declared-catalogue.ts'
import type { World } from '../../src/emulator/world/world.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { runCommand } from '../support/run-command.ts'
import { DAY, newestOf, plus, responsesOf } from './support/answered.ts'
import { liven } from './support/living.ts'
import { connect, documentOf, openScene, query, type Scene } from './support/scene.ts'

/** Written by every run: the run itself, the time of reading, the checkpoint; and its progress, if it takes a second. */
const RUN_RECORD = [
  ...['intake_ops.runs', 'intake_ops.run_streams', 'intake_ops.slices', 'intake_ops.checkpoints'],
  ...['intake_ops.run_progress', 'intake_ops.run_log', 'intake_ops.budgets'],
]

const SESSIONS =
  "select application_name from pg_stat_activity where datname = current_database() and application_name like 'intake-sync %'"

/**
 * True if changes must be read once more: a transaction of this server, in any database, was open when they were last
 * read, and rows written since it began may have been missed.
 */
const LOOKS_AGAIN = `select exists (select from intake_raw.records
    where change_seq >= (select oldest << 20 from intake_raw.answers_read)) as again`
const LOOKED = 'intake_raw.answers_read'

async function looksAgain(url: string): Promise<boolean> {
  const [row] = await query<{ again: boolean }>(url, LOOKS_AGAIN)
  return row!.again
}

/** Place and writer of every row of every table, and the number of rows ever written to each. */
async function everyRow(url: string): Promise<Readonly<Record<string, readonly string[]>>> {
  // A session reports its statistics when it ends, shortly after it is closed.
  await vi.waitFor(async () => expect(await query(url, SESSIONS)).toEqual([]), { timeout: 60_000 })
  const tables = await query<{ name: string; written: string }>(
    url,
    `select format('%I.%I', schemaname, relname) as name, concat_ws(' ', n_tup_ins, n_tup_upd, n_tup_del) as written
     from pg_stat_user_tables where schemaname like 'intake%' order by 1`,
  )
  const kept = tables.filter(({ name }) => !RUN_RECORD.includes(name))
  const text = kept.map(({ name }) => `select '${name}' as name, ctid || ' ' || xmin as version from ${name}`)
  const versions = await query<{ name: string; version: string }>(
    url,
    `${text.join(' union all ')} order by 1, 2`,
  )
  return Object.fromEntries(
    kept.map(({ name, written }) => [
      name,
      [`ever: ${written}`, ...versions.filter((row) => row.name === name).map(({ version }) => version)],
    ]),
  )
}

/** Expected number of requests per path: every list completely, but responses since the checkpoint. */
function mustAsk(world: World, pageSize: number, webhooks: { configs: number; attempts: number }) {
  const pages = (rows: number) => Math.max(1, Math.ceil(rows / pageSize))
  const day = plus(newestOf(world), -4 * DAY).slice(0, 10)
  const inWindow = responsesOf(world).filter(
    ({ submitted_at }) => submitted_at !== null && submitted_at >= day,
  )
  return {
    'GET /v2/patients': pages(world.patients.size),
    'GET /v2/forms': pages(world.forms.size),
    'GET /v2/packets': pages(world.packets.size),
    'GET /v2/documents': pages(world.documents.size),
    'GET /v2/responses': pages(inWindow.length),
    'GET /v2/messages': pages(world.messages.size),
    'GET /v2/export-csv': pages(world.forms.size),
    // Only the bytes of a file show whether it changed.
    'POST /v2/export-csv': world.forms.size,
    'GET /v2/webhooks': pages(webhooks.configs),
    'GET /v2/webhooks/events': pages(webhooks.attempts),
    ...Object.fromEntries(
      DECLARED.map(({ resource, source }) => [`GET /v2/${resource}`, pages(world.declared(source).size)]),
    ),
  }
}

function asked({ emulator }: Scene): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { method, url } of emulator.control.requests()) {
    const key = `${method} ${url.split('?')[0]}`
    counts[key] = (counts[key] ?? 0) + 1
  }
  return counts
}

it.each([
  'default',
  'response-summaries+summary-lists+event-record-envelope-id',
  'newest-first+unknown-fields+naughty-text+raw-text-quoted+nested-parts',
])('as %s, the second and third run of all streams do so', async (shape) => {
  await using scene = await openScene({ shape, patients: 25, responses: 40 })
  const { control } = scene.emulator
  await liven(scene.emulator, { each: 0, changes: 60 }, shape).still()
  // A run of more than ten seconds says how far it is.
  const first = await runCommand(['backfill'], { ...scene.env, LOG_LEVEL: 'warn' })
  expect(first).toMatchObject({ code: 0, stderr: '' })
  const { configs, attempts } = control.webhooks() as Webhooks
  const webhooks = { configs: configs.table.size, attempts: attempts.listing().size }
  let before = await everyRow(scene.url)
  expect(Object.keys(before).length).toBeGreaterThan(30)
  for (let night = 2; night <= 3; night++) {
    const again = await looksAgain(scene.url)
    control.resetCounters()
    const run = await scene.backfill('--json')
    expect(run.code).toBe(0)
    const { streams } = documentOf(run)
    expect(Object.keys(streams)).toEqual(STREAMS.map(({ name }) => name))
    for (const [name, figures] of Object.entries(streams)) {
      expect({ name, ...figures }).toMatchObject({
        name,
        changed: 0,
        deleted: 0,
        dead_letters: 0,
        note: null,
      })
    }
    expect(asked(scene)).toEqual(mustAsk(control.world(), 10, webhooks))
    const after = await everyRow(scene.url)
    expect(after).toEqual(again ? { ...before, [LOOKED]: after[LOOKED] } : before)
    before = after
  }
  const recorded = await query(
    scene.url,
    'select count(*)::int as streams from intake_ops.run_streams group by run_id order by run_id',
  )
  expect(recorded).toEqual(Array(3).fill({ streams: STREAMS.length }))
})

it('after a run during an open transaction, the next run reads its responses again, and records that it did', async () => {
  await using scene = await openScene({ patients: 25, responses: 40 })
  const other = await connect(scene.url)
  try {
    await other.query('begin; select pg_current_xact_id()')
    expect((await scene.backfill()).code).toBe(0)
  } finally {
    await other.end()
  }
  const before = await everyRow(scene.url)
  expect(await looksAgain(scene.url)).toBe(true)
  expect((await scene.backfill()).code).toBe(0)
  const after = await everyRow(scene.url)
  expect(after[LOOKED]).not.toEqual(before[LOOKED])
  expect(after).toEqual({ ...before, [LOOKED]: after[LOOKED] })
})
