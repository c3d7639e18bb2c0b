/** The live part of the demo: events of a real service arrive, and each change is waited for until its row shows it. */
import pino from 'pino'
import { expect, it, onTestFinished, vi } from 'vitest'
import { openLive, watchChanges } from '../../../src/commands/demo/live.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { openSession, type Session } from '../../../src/warehouse/connect.ts'
import { json, startService } from '../../api/support/service.ts'
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
    await refused(warehouse.url)
  } finally {
    await warehouse.drop()
  }
})

/** A service that refuses the address of the receiver: nothing goes on. */
async function refused(url: string) {
  const secret = 'whsec_canary'
  let id: object = {}
  await using server = await startService(({ method }, response) => {
    if (method === 'POST') json(response, { ...id, target_url: 'x', signature_secret: secret }, 201)
    else json(response, { detail: 'not this address' }, 400)
  })
  const environments = [{ base_url: server.url, teams: [{ api_key: 'k', api_secret: 's' }] }]
  const service = { environments } as unknown as Emulator
  const open = () => openLive({ url, service, logger: pino({ level: 'silent' }) })
  await expect(open()).rejects.toMatchObject({
    ...{ message: 'the demo: the service returned no webhook id', code: 'internal', verdict: 'stop' },
  })
  id = { id: 'c-1' }
  await expect(open()).rejects.toThrow('400')
  const asked = server.received.map(({ method, body }) => [method, JSON.parse(String(body)).target_url])
  expect(asked).toEqual([
    ['POST', 'http://127.0.0.1:9/webhooks'],
    ['POST', 'http://127.0.0.1:9/webhooks'],
    [asked[2]![0], expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+\/webhooks$/)],
  ])
  await expect(fetch(asked[2]![1])).rejects.toThrow('fetch failed')
}

it('a change whose row does not appear within ten seconds ends the demo, and says which', async () => {
  let now = 0
  const pauses: number[] = []
  vi.spyOn(performance, 'now').mockImplementation(() => now)
  vi.spyOn(systemClock, 'sleep').mockImplementation(async (milliseconds) => {
    pauses.push(milliseconds)
    now += 2_500
  })
  onTestFinished(() => void vi.restoreAllMocks())
  const questions = [{ id: 'q' }]
  const list = (records: object[]) => ({ size: records.length, slice: () => records })
  const world = {
    patients: list([{ id: 'p' }]),
    forms: list([
      { id: 'o', name: 'Other', questions },
      { id: 'f', name: 'Insurance', questions },
    ]),
  }
  const made: unknown[] = []
  const control = {
    world: () => world,
    createPatient: (fields: object) => ({ id: `${made.push(fields)}` }),
    updatePatient: (id: string, fields: object) => ({ id: `${made.push([id, fields])}` }),
    deletePatient: (id: string) => made.push(id),
    renameQuestion: (...words: string[]) => made.push(words),
  }
  const ids: unknown[] = []
  const query = async (_: string, [id]: unknown[]) => {
    ids.push(id)
    return { rows: [{ seen: id !== 'f' }] }
  }
  const watching = watchChanges({ client: { query } } as unknown as Session, { control } as never)
  await expect(watching).rejects.toMatchObject({
    message: 'the demo: no row showed that a question of the form "Insurance" was reworded',
  })
  expect(made).toEqual([
    ...[{ first_name: 'Live', last_name: 'Beispiel' }, ['p', { city: 'Hereabouts' }], 'p'],
    ['f', 'q', 'What is the name of your insurance?'],
  ])
  expect([ids, pauses]).toEqual([
    ['1', '2', 'p', 'f', 'f', 'f', 'f', 'f', 'f'],
    [5, 5, 5, 5, 5],
  ])
})
