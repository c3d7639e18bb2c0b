/** `backfill --dry-run` reports what a run would do, and writes nothing. */
import { describe, expect, it } from 'vitest'
import { documentOf, openScene, query } from './support/scene.ts'
import { rowVersions } from './support/tables.ts'

describe.concurrent('a dry run', () => {
  it('creates nothing in an empty database, and reports what a run would do', async () => {
    await using scene = await openScene({}, { empty: true })
    const run = await scene.backfill('--dry-run', '--json')
    expect(run.code).toBe(0)
    const document = documentOf(run)
    expect(document).toMatchObject({ run_id: null, status: 'succeeded' })
    expect(document.streams.patients).toMatchObject({ fetched: 45, changed: 45, unchanged: 0, deleted: 0 })
    const made = await query(scene.url, "select nspname from pg_namespace where nspname like 'intake%'")
    expect(made).toEqual([])
  })

  it('writes nothing to a loaded one, and finds changed and deleted records', async () => {
    await using scene = await openScene()
    const { control } = scene.emulator
    expect((await scene.backfill()).code).toBe(0)
    const { patients } = control.world()
    control.updatePatient(patients.at(1)!.id, { last_name: 'Changed' })
    control.deletePatient(patients.at(2)!.id)
    const before = await everything(scene.url)
    const run = await scene.backfill('--dry-run', '--json')
    expect(run.code).toBe(0)
    expect(documentOf(run).streams.patients).toMatchObject({ changed: 1, deleted: 1, unchanged: 43 })
    expect(await everything(scene.url)).toEqual(before)
  })
})

/** Rows of the warehouse and of its bookkeeping. */
async function everything(url: string): Promise<unknown> {
  const ops = ['runs', 'run_streams', 'checkpoints', 'dead_letters', 'problems', 'drift']
  const counts = await Promise.all(
    ops.map((table) =>
      query(url, `select '${table}' as name, xmin::text, ctid::text from intake_ops.${table} t order by 3`),
    ),
  )
  return [await rowVersions(url), counts]
}
