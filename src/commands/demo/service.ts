/**
 * The service of the demo: the emulator with invented people, and one day of changes.
 *
 * Invariant: `ChangesMade` counts the changes made behind the API, to compare the warehouse with.
 */
import { type Emulator, startEmulator } from '../../emulator/server.ts'
import type { TeamSource } from '../../extract/backfill-options.ts'

export const DEMO_TEAM = 'demo'

/** Enough patients for many pages, few enough that the whole demo takes seconds. */
const PATIENTS = 3_000

/** Milliseconds that every answer takes, as over a network. */
const LATENCY_MS = 30

/** Of the service, as long as nobody breaks it. */
export const DEMO_FAULTS = `slow=${LATENCY_MS}`

/** The form whose question is reworded, and which the queries show. */
export const REWORDED_FORM = 'Insurance'

export interface ChangesMade {
  readonly created: number
  readonly updated: number
  readonly deleted: number
  readonly reworded: number
}

export function startDemoService(): Promise<Emulator> {
  return startEmulator({ port: 0, seed: 1, patients: PATIENTS, faults: DEMO_FAULTS })
}

/** The team that the demo loads: the first one of production. */
export function demoTeam({ environments }: Emulator): TeamSource {
  const { base_url, teams } = environments[0]!
  const { api_key, api_secret } = teams[0]!
  return {
    name: DEMO_TEAM,
    baseUrl: base_url,
    apiKey: api_key,
    apiSecret: api_secret,
    apiVersion: 'v2.1',
    concurrency: 4,
  }
}

/** The current number of records at the service, by stream. */
export function countRecords({ control }: Emulator): Readonly<Record<string, number>> {
  const { patients, forms, packets, documents } = control.world()
  return { patients: patients.size, forms: forms.size, packets: packets.size, documents: documents.size }
}

/** Makes a day's changes: patients are created, updated and deleted; a question is reworded. */
export function advanceWorld({ control }: Emulator): ChangesMade {
  const { patients, forms } = control.world()
  const [mover, renumbered, tagged, first, second] = [400, 800, 1200, 1600, 2000].map(
    (at) => patients.slice(at, 1)[0]!.id,
  )
  const newcomers = [
    { first_name: 'Wanda', last_name: 'Beispiel', email: 'wanda@example.org' },
    { first_name: 'Nils', last_name: 'Muster', phone_number: '555 0100' },
    { first_name: 'Ada', last_name: 'Invented', patient_tags: [{ name: 'New', color: '#00ff00' }] },
  ]
  for (const newcomer of newcomers) control.createPatient(newcomer)
  control.updatePatient(mover!, { address: '1 New Street', city: 'Elsewhere', phone_number: '555 0199' })
  control.updatePatient(renumbered!, { phone_number: null })
  control.updatePatient(tagged!, { patient_tags: [{ name: 'Moved away', color: '#777777' }] })
  control.deletePatient(first!)
  control.deletePatient(second!)
  const form = forms.slice(0, forms.size).find((each) => each.name === REWORDED_FORM)!
  const question = form.questions.find((each) => each.choices.length > 0)!
  control.renameQuestion(form.id, question.id, 'Who pays for your visits?')
  return { created: newcomers.length, updated: 3, deleted: 2, reworded: 1 }
}
