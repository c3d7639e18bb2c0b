/** The live part of the demo: events of a real service arrive, and each change is waited for until its row shows it. */
import pino from 'pino'
import { expect, it } from 'vitest'
import { openLive, watchChanges } from '../../../src/commands/demo/live.ts'
import { startEmulator } from '../../../src/emulator/server.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'

const WORLD = { port: 0, seed: 1, patients: 2_250, forms: 6, packets: 1, documents: 1, responses: 0 }

it('a patient is created, moves and is deleted, a question is reworded, and the rows say so', async () => {
  const warehouse = await openWarehouse()
  await using service = await startEmulator(WORLD)
  const logger = pino({ level: 'silent' })
  try {
    await using _serving = await openLive({ url: warehouse.url, service, logger })
    await using session = await openSession({ url: warehouse.url, purpose: 'demo' })
    const changes = await watchChanges(session, service)
    expect(changes.map(({ what }) => what)).toEqual([
      ...['a patient was created', 'a patient moved', 'a patient was deleted'],
      'a question of the form "Insurance" was reworded',
    ])
    // Seconds, not milliseconds.
    for (const { seconds } of changes) expect([seconds > 0, seconds < 10]).toEqual([true, true])
    const patients = await query(
      warehouse.url,
      `select first_name = 'Live' as is_new, city = 'Hereabouts' as moved, _deleted_at is not null as deleted
       from intake.patients order by 3, 1 desc`,
    )
    expect(patients).toEqual([
      expect.objectContaining({ is_new: true, deleted: false }),
      expect.objectContaining({ is_new: false, moved: true, deleted: false }),
      expect.objectContaining({ deleted: true }),
    ])
    const reworded = `select form.name from intake.form_questions question
      join intake.forms form on (form.team_id, form.id) = (question.team_id, question.form_id)
      where question.text = 'What is the name of your insurance?'`
    expect(await query(warehouse.url, reworded)).toEqual([{ name: 'Insurance' }])
    // Its webhook is the one that the service sends to.
    const teams = await query(warehouse.url, 'select name from intake.teams')
    expect(teams).toEqual([{ name: 'demo' }])
  } finally {
    await warehouse.drop()
  }
})
