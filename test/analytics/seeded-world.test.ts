/**
 * Compares what tables and views show of a generated world with test/analytics/seeded-world.txt, column by column: how many
 * values, how many different ones, and a digest. After an intended change,
 * `npx vitest run test/analytics/seeded-world.test.ts -u` updates the recording; read the difference before you commit it.
 */
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openScene, type Scene } from '../e2e/support/scene.ts'
import { stillAt } from '../emulator/still-clock.ts'
import { runCommand } from '../support/run-command.ts'
import { withSession } from '../support/sessions.ts'

/** In March 2026. */
const still = stillAt(1_772_323_200_000_000)

/** Of the time of the run, or of ages, which grow: from ninety on, the year of birth is hidden. */
const CHANGING =
  /^(_loaded_at|_version|_change_seq|age_.*|birth_year|first_seen_at|known_from|lag|last_run_at|last_updated|version)$/

interface Column {
  readonly name: string
  readonly column: string
}

let scene: Scene

beforeAll(async () => {
  scene = await openScene({
    clock: still,
    patients: 150,
    responses: 400,
    forms: 13,
    packets: 9,
    pageSize: 100,
  })
  const env = { ...scene.env, INTAKE_ANALYTICS_KEY: 'a key that only this test has' }
  const { code, output } = await runCommand(['backfill'], env)
  expect([code, output]).toEqual([0, expect.anything()])
})

afterAll(async () => {
  await scene[Symbol.asyncDispose]()
})

it('each column of each table and view shows what it showed', async () => {
  const columns = await scene.query<Column>(
    `select format('%I.%I', n.nspname, c.relname) as name, a.attname as column
     from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
     where n.nspname ~ '^intake(_analytics|_safe_harbor|_fhir|_forms|_exports)?$' and c.relkind in ('r', 'p', 'v')
       and c.relname <> 'changes' and not c.relispartition and a.attnum > 0 and not a.attisdropped
     order by 1, a.attnum`,
  )
  const lines = await withSession(scene.url, async (client) => {
    await client.query("set timezone to 'UTC'")
    const found: string[] = []
    for (const name of new Set(columns.map((each) => each.name))) {
      const own = columns.filter((each) => each.name === name && !CHANGING.test(each.column))
      const parts = own.map(({ column }, at) => {
        const value = `replace(t.${client.escapeIdentifier(column)}::text, '${scene.env.INTAKE_BASE_URL}', '')`
        return `concat_ws(' ', count(${value}), count(distinct ${value}),
          left(md5(coalesce(string_agg(${value}, e'\\n' order by ${value} collate "C"), '')), 12)) as c${at}`
      })
      const { rows } = await client.query<Record<string, string>>(
        `select count(*)::text as rows, ${parts.join(', ')} from ${name} t`,
      )
      found.push(`${name}: ${rows[0]!.rows} rows`)
      for (const [at, { column }] of own.entries()) found.push(`  ${column}: ${rows[0]![`c${at}`]}`)
    }
    return found
  })
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(join(import.meta.dirname, 'seeded-world.txt'))
})
