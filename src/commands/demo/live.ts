/**
 * The live part of the demo: a webhook at the emulated service, `serve` that receives it, and changes whose rows are
 * waited for.
 *
 * Invariant: a figure is the time from the change at the service to its row as a query sees it; a row that does not
 * come fails the demo.
 */
import type { Logger } from 'pino'
import { openClient } from '../../api/client.ts'
import { changeWebhookConfig, createWebhookConfig } from '../../api/resources/webhook-configs.ts'
import { systemClock } from '../../core/clock.ts'
import { IntakeError } from '../../core/errors.ts'
import { recordId } from '../../core/identifiers.ts'
import type { Emulator } from '../../emulator/server.ts'
import { openServe, type Serving } from '../../operate/serve/serve.ts'
import type { Session } from '../../warehouse/connect.ts'
import { demoTeam, REWORDED_FORM } from './service.ts'

export interface LiveChange {
  /** What happened at the service. */
  readonly what: string
  /** Until its row was there. */
  readonly seconds: number
}

export interface LiveOptions {
  /** Of the warehouse. */
  readonly url: string
  readonly service: Emulator
  readonly logger: Logger
}

const ANYWHERE = { host: '127.0.0.1', port: 0 } as const

/** Starts `serve`, and has the service send everything to it. */
export async function openLive({ url, service, logger }: LiveOptions): Promise<Serving> {
  const team = demoTeam(service)
  await using client = openClient({ ...team, clock: systemClock, random: Math.random, logger })
  // The secret is told with the configuration, and the address is known when its receiver runs: it is set then.
  const { record } = await createWebhookConfig(client, { target_url: 'http://127.0.0.1:9/webhooks' })
  const reading = recordId(record)
  if (reading.kind !== 'id') throw failed('the service named no webhook')
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
  /** Makes the change; returns the id of what was changed. */
  readonly make: () => string
  /** Is true of the row with the id `$1` once it is there. */
  readonly seen: string
}

/** One change after another, each watched until its row is there. */
export async function watchChanges(session: Session, service: Emulator): Promise<readonly LiveChange[]> {
  const changes: LiveChange[] = []
  for (const { what, make, seen } of stepsOf(service)) {
    const begun = performance.now()
    const id = make()
    while (!(await isTrue(session, seen, id))) {
      if (performance.now() - begun > PATIENCE_MS) throw failed(`no row told that ${what}`)
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
      what: 'a patient came',
      make: () => control.createPatient({ first_name: 'Live', last_name: 'Beispiel' }).id,
      seen: "exists (select from intake.patients where id = $1 and first_name = 'Live')",
    },
    {
      what: 'a patient moved',
      make: () => control.updatePatient(moved!, { city: 'Hereabouts' }).id,
      seen: "exists (select from intake.patients where id = $1 and city = 'Hereabouts')",
    },
    {
      what: 'a patient left',
      make() {
        control.deletePatient(left!)
        return left!
      },
      seen: 'exists (select from intake.patients where id = $1 and _deleted_at is not null)',
    },
    {
      what: `the form "${REWORDED_FORM}" got a question reworded`,
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
  return new IntakeError(`the demo: ${message}`, { code: 'demo_failed', verdict: 'stop' })
}
