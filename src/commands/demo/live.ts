/**
 * The live part of the demo: a webhook of the emulated service, `serve` as its receiver, and changes at the service.
 *
 * Invariant: a figure is the time from the change at the service until a query returns its row. A row that does not
 * appear fails the demo.
 */
import type { Logger } from 'pino'
import { openClient } from '../../api/client.ts'
import { changeWebhookConfig, createWebhookConfig } from '../../api/resources/webhooks.ts'
import { systemClock } from '../../core/clock.ts'
import { IntakeError } from '../../core/errors.ts'
import { recordId } from '../../core/identifiers.ts'
import type { Emulator } from '../../emulator/server.ts'
import { openServe, type Serving } from '../../operate/serve/serve.ts'
import { ENDPOINTS } from '../../streams/catalogue.ts'
import type { Session } from '../../warehouse/connect.ts'
import { demoTeam, REWORDED_FORM } from './service.ts'

export interface LiveChange {
  /** What happened at the service. */
  readonly what: string
  /** From the change until a query returned its row. */
  readonly seconds: number
}

export interface LiveOptions {
  /** Of the warehouse. */
  readonly url: string
  readonly service: Emulator
  readonly logger: Logger
}

const ANYWHERE = { host: '127.0.0.1', port: 0 } as const

/** Starts `serve` and subscribes it to all events of the service. */
export async function openLive({ url, service, logger }: LiveOptions): Promise<Serving> {
  const team = demoTeam(service)
  await using client = openClient({
    ...team,
    endpoints: ENDPOINTS,
    clock: systemClock,
    random: Math.random,
    logger,
  })
  // Creating the webhook returns the secret that the receiver needs; the receiver's address is known only once it runs.
  const { record } = await createWebhookConfig(client, { target_url: 'http://127.0.0.1:9/webhooks' })
  const reading = recordId(record)
  if (reading.kind !== 'id') throw failed('the service returned no webhook id')
  const serving = await openServe({
    ...{ url, logger, clock: systemClock, random: Math.random },
    teams: [team],
    ingestTeams: [{ name: team.name, webhookSecrets: [record.signature_secret] }],
    ...{ ingest: ANYWHERE, admin: ANYWHERE, drain: true, cron: null },
    ...{ inboxDays: 30, encryptionKey: null, backfill: async () => {} },
  })
  try {
    await changeWebhookConfig(client, reading.id, { target_url: `${serving.ingest}/webhooks` })
    return serving
  } catch (error) {
    await serving.close()
    throw error
  }
}

interface Step {
  readonly what: string
  /** Makes the change and returns the id of the changed record. */
  readonly make: () => string
  /** An SQL condition that is true once the row with the id `$1` shows the change. */
  readonly seen: string
}

/** Makes one change after another and waits for the row of each. */
export async function watchChanges(session: Session, service: Emulator): Promise<readonly LiveChange[]> {
  const changes: LiveChange[] = []
  for (const { what, make, seen } of stepsOf(service)) {
    const begun = performance.now()
    const id = make()
    while (!(await isTrue(session, seen, id))) {
      if (performance.now() - begun > PATIENCE_MS) throw failed(`no row showed that ${what}`)
      await systemClock.sleep(PAUSE_MS)
    }
    changes.push({ what, seconds: Math.round(performance.now() - begun) / 1000 })
  }
  return changes
}

const PATIENCE_MS = 10_000
const PAUSE_MS = 5

function stepsOf({ control }: Emulator): readonly Step[] {
  const { patients, forms } = control.world()
  const [moved, left] = [1_100, 2_200].map((at) => patients.slice(at, 1)[0]!.id)
  const form = forms.slice(0, forms.size).find((each) => each.name === REWORDED_FORM)!
  return [
    {
      what: 'a patient was created',
      make: () => control.createPatient({ first_name: 'Live', last_name: 'Beispiel' }).id,
      seen: "exists (select from intake.patients where id = $1 and first_name = 'Live')",
    },
    {
      what: 'a patient moved',
      make: () => control.updatePatient(moved!, { city: 'Hereabouts' }).id,
      seen: "exists (select from intake.patients where id = $1 and city = 'Hereabouts')",
    },
    {
      what: 'a patient was deleted',
      make() {
        control.deletePatient(left!)
        return left!
      },
      seen: 'exists (select from intake.patients where id = $1 and _deleted_at is not null)',
    },
    {
      what: `a question of the form "${REWORDED_FORM}" was reworded`,
      make() {
        control.renameQuestion(form.id, form.questions[0]!.id, 'What is the name of your insurance?')
        return form.id
      },
      seen: `exists (select from intake.form_questions
        where form_id = $1 and text = 'What is the name of your insurance?')`,
    },
  ]
}

async function isTrue(session: Session, condition: string, id: string): Promise<boolean> {
  const { rows } = await session.client.query<{ seen: boolean }>(`select ${condition} as seen`, [id])
  return rows[0]!.seen
}

function failed(message: string): IntakeError {
  return new IntakeError(`the demo: ${message}`, { code: 'internal', verdict: 'stop' })
}
