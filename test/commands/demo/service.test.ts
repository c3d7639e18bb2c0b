/** The service of the demo: who is in it, and what a day changes. */
import { expect, it } from 'vitest'
import { advanceWorld, countRecords, demoTeam, startDemoService } from '../../../src/commands/demo/service.ts'

it('the service has three thousand patients, and a day there makes the changes that it counts', async () => {
  await using service = await startDemoService()
  const { control, environments } = service
  const before = countRecords(service)
  expect(before).toEqual({ patients: 3_000, forms: 12, packets: 4, documents: 4 })
  expect(control.faults()).toEqual([{ name: 'slow', argument: '30', probability: 1, resource: null }])
  const { base_url, teams } = environments[0]!
  expect(demoTeam(service)).toEqual({
    ...{ name: 'demo', baseUrl: base_url, apiKey: teams[0]!.api_key, apiSecret: teams[0]!.api_secret },
    ...{ apiVersion: 'v2.1', concurrency: 4 },
  })
  const { patients, forms } = control.world()
  const all = () => new Map(patients.slice(0, patients.size).map((patient) => [patient.id, patient]))
  const earlier = all()
  const changes = advanceWorld(service)
  expect(changes).toEqual({ created: 3, updated: 3, deleted: 2, reworded: 1 })
  expect(countRecords(service)).toEqual({ ...before, patients: before.patients! + 1 })
  const later = all()
  const ids = [...earlier.keys()]
  expect(ids.filter((id) => !later.has(id))).toEqual([ids[1600], ids[2000]])
  const fields = (id: string) => {
    const old = earlier.get(id) as unknown as Record<string, unknown>
    return Object.entries(later.get(id)!).filter(
      ([name, value]) => name !== 'updated_at' && JSON.stringify(value) !== JSON.stringify(old[name]),
    )
  }
  const changed = ids.filter(
    (id) => later.has(id) && later.get(id)!.updated_at !== earlier.get(id)!.updated_at,
  )
  expect(changed.map((id) => [ids.indexOf(id), Object.fromEntries(fields(id))])).toEqual([
    [400, { address: '1 New Street', city: 'Elsewhere', phone_number: '555 0199' }],
    // Has no number; the service counts the update.
    [800, {}],
    [1200, { patient_tags: [{ name: 'Moved away', color: '#777777' }] }],
  ])
  const newcomers = [...later.values()].filter(({ id }) => !earlier.has(id))
  expect(newcomers.map((each) => [each.first_name, each.last_name, each.email, each.phone_number])).toEqual([
    ['Wanda', 'Beispiel', 'wanda@example.org', null],
    ['Nils', 'Muster', null, '555 0100'],
    ['Ada', 'Invented', null, null],
  ])
  expect(newcomers[2]!.patient_tags).toEqual([{ name: 'New', color: '#00ff00' }])
  const asked = forms
    .slice(0, forms.size)
    .flatMap(({ name, questions }) => questions.map((one) => ({ name, ...one })))
  const reworded = asked.filter(({ text }) => text === 'Who pays for your visits?')
  expect(reworded.map(({ name, choices }) => [name, choices.length > 0])).toEqual([['Insurance', true]])
})
