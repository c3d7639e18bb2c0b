/** Verification while events arrive continuously: newer records are distinguished from different ones. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { wallClock } from '../../../src/emulator/clock.ts'
import { startActivity } from '../../../src/emulator/world/clinic-changes.ts'
import { openScene } from '../../e2e/support/scene.ts'
import { createWebhook, settled, startServing, until } from '../../e2e/support/serving.ts'
import type { Ended } from '../../support/cli.ts'
import { runCommand } from '../../support/run-command.ts'

interface Found {
  readonly source: number
  readonly warehouse: number
  readonly missing: readonly string[]
  readonly extra: readonly string[]
  readonly different: readonly { readonly id: string; readonly fields: readonly string[] }[]
  readonly note: string | null
}

const FED = 'patients,forms,packets,documents,packet_responses'

it('changes by events during the comparison are no difference, and changes by hand are', async () => {
  await using scene = await openScene()
  expect((await scene.backfill()).code).toBe(0)
  const serving = await startServing(scene.env)
  const still = new AbortController()
  try {
    await createWebhook(scene.env, serving.document.webhooks!)
    const { control } = scene.emulator
    control.updatePatient(control.world().patients.at(0)!.id, { city: 'First' })
    // The first event waits for the secret to be looked up, and is sent again.
    await until('the first event is there', async () => {
      return (await scene.query(`select from intake.patients where city = 'First'`)).length > 0
    })
    startActivity(control.world(), 15, 'verify', wallClock, still.signal)
    await sleep(500)
    const [form] = await scene.query<{ id: string }>('select id from intake.forms order by id limit 1')
    await scene.query(`update intake.forms set text = 'by hand' where id = $1`, [form!.id])
    const during = await runCommand(['verify', '--json', '--streams', FED], scene.env)
    const found = foundIn(during)
    const nothing = { missing: [], extra: [], different: [] }
    const wrong = { ...nothing, different: [{ id: form!.id, fields: ['text'] }] }
    for (const [name, stream] of Object.entries(found)) {
      expect({ name, ...stream }).toMatchObject({ name, ...(name === 'forms' ? wrong : nothing) })
    }
    expect(during.code).toBe(4)
    expect(found.packet_responses!.note).toContain('stored payloads')

    still.abort()
    await settled(scene)
    const repaired = await runCommand(
      ['verify', '--json', '--repair', '--streams', `${FED},responses`],
      scene.env,
    )
    expect(repaired.code, repaired.output).toBe(0)
    // No event reports that a response has lost its patient.
    for (const { fields } of foundIn(repaired).responses!.different) expect(fields).toContain('patient_id')
    expect((await runCommand(['verify', '--streams', `${FED},responses`], scene.env)).code).toBe(0)
  } finally {
    still.abort()
    await serving.stop()
  }
})

function foundIn({ stdout }: Ended): Record<string, Found> {
  return (JSON.parse(stdout) as { streams: Record<string, Found> }).streams
}
