/**
 * `intake-sync webhooks create`: creates a configuration and stores its signature secret in the warehouse.
 *
 * Invariant: reports success only after the secret is stored. Checks that it can be stored before the request; if
 * storing fails nevertheless, deletes the configuration again, and names it if that fails too. Once the request is
 * sent, a signal does not interrupt the work.
 */
import { requireMigrated } from '../../analytics/migrate.ts'
import type { Client } from '../../api/client.ts'
import { ApiError, MissingSecretError } from '../../api/errors.ts'
import { createWebhookConfig, deleteWebhookConfig, listWebhookConfigs } from '../../api/resources/webhooks.ts'
import { type Config, readConfig } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { IntakeError, UsageError, verdictOf } from '../../core/errors.ts'
import { recordId } from '../../core/identifiers.ts'
import { isObject } from '../../core/json.ts'
import { teamIdOf } from '../../load/teams.ts'
import {
  keyOf,
  placeOf,
  type SecretKey,
  seal,
  secretStates,
  storeSecret,
  tryStore,
} from '../../warehouse/webhook-secrets.ts'
import { type Context, oneTeam, openService, openWarehouse, printJson } from '../context.ts'
import { table } from '../printable.ts'
import { paragraph } from '../terminal.ts'
import { type FieldOptions, fieldsOf, linesOf, type ShownConfig, shownConfig } from './fields.ts'
import { withStore } from './store.ts'

export interface CreateOptions extends FieldOptions {
  readonly url: string
  readonly team?: string
  readonly json?: true
}

export async function createWebhook(context: Context, options: CreateOptions): Promise<void> {
  const fields = { ...fieldsOf(options), target_url: options.url }
  const config = readConfig(context.env)
  const team = oneTeam(config, options.team)
  if (config.encryptionKey === null) throw keyMissing()
  const key = keyOf(config.encryptionKey)
  await using warehouse = await openWarehouse(context, config)
  await requireMigrated(warehouse.url)
  const teamId = await withStore(warehouse.url, async (db) => {
    const id = await teamIdOf(db, team.name)
    await tryStore(db, id)
    return id
  })
  context.signal.throwIfAborted()
  using _notice = announceDelay(context)
  await using client = openService(context, config, team, { signal: new AbortController().signal })
  const { configId, secret, created } = await create(client, fields)
  try {
    const place = { teamId, configId }
    await storeWithRetry(warehouse.url, place, seal(secret, key, placeOf(place)))
  } catch (error) {
    throw await undone(client, configId, error, 'its secret could not be stored')
  }
  if (options.json) printJson(context, { ...created, signature_secret: secret, secret_stored: true })
  else context.stdout.write(createdText(context, created, secret))
}

function createdText(context: Context, created: ShownConfig, secret: string): string {
  const secretText = `signature secret, stored encrypted in the warehouse and shown only this once:\n${secret}\n`
  const next = `next: intake-sync webhooks test ${created.id} sends an event to intake-sync serve`
  return `created\n${table(linesOf(created))}\n${secretText}\n${paragraph(context, next, 0)}`
}

async function create(
  client: Client,
  fields: Parameters<typeof createWebhookConfig>[1],
): Promise<{ configId: string; secret: string; created: ShownConfig }> {
  try {
    const { record, raw } = await createWebhookConfig(client, fields)
    const reading = recordId(raw)
    if (reading.kind !== 'id') throw new MissingSecretError(client.paths.webhookConfigs, null)
    return { configId: reading.id, secret: record.signature_secret, created: shownConfig(raw) }
  } catch (error) {
    if (error instanceof ApiError && !error.outcomeKnown) throw outcomeUnknown(error)
    if (!(error instanceof MissingSecretError)) throw error
    if (error.id !== null) throw await undone(client, error.id, null, 'the answer has no signature secret')
    throw new IntakeError('the webhook was created, but the answer cannot be read: its secret is lost', {
      code: error.code,
      verdict: 'stop',
      hint: 'find it with `intake-sync webhooks list`, delete it, and ask the service’s operators',
    })
  }
}

const STORE_TRIES = 3
const STORE_PAUSE_MS = 1_000

/** Retries transient faults (a restart, a lock), which must not lose the secret. */
async function storeWithRetry(url: string, place: SecretKey, box: Uint8Array): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await withStore(url, (db) => storeSecret(db, place, box))
    } catch (error) {
      if (verdictOf(error) !== 'retry' || tries === STORE_TRIES) throw error
      await systemClock.sleep(STORE_PAUSE_MS)
    }
  }
}

/** Deletes the created configuration and returns the error to throw. */
async function undone(client: Client, id: string, cause: unknown, what: string): Promise<IntakeError> {
  const failure = cause instanceof IntakeError ? cause : null
  const why = failure === null ? what : `${what}: ${failure.message}`
  const { code = 'secret_missing', hint } = failure ?? {}
  const deleted = await deleteWebhookConfig(client, id).then(
    () => true,
    (error: unknown) => verdictOf(error) === 'gone',
  )
  if (deleted) {
    const message = `the webhook was created and deleted again: ${why}`
    return new IntakeError(message, { code, verdict: 'stop', ...(hint === undefined ? {} : { hint }) })
  }
  return new IntakeError(`the webhook ${id} was created and could not be deleted again: ${why}`, {
    code,
    verdict: 'stop',
    hint: `delete it, since its secret is lost: intake-sync webhooks delete ${id}`,
  })
}

function outcomeUnknown({ message, code }: ApiError): IntakeError {
  const hint =
    'check `intake-sync webhooks list`, and delete the configuration if it exists: its secret is lost'
  return new IntakeError(message, { code, verdict: 'stop', hint })
}

function keyMissing(): UsageError {
  return new UsageError(
    'INTAKE_ENCRYPTION_KEY is not set, and webhook secrets are stored only in encrypted form',
    'set it to 32 random bytes in base64 (openssl rand -base64 32), and keep a copy in a safe place',
    'INTAKE_ENCRYPTION_KEY',
    'setting_missing',
  )
}

function announceDelay({ signal, stderr }: Context): Disposable {
  const say = () => void stderr.write('finishing started work; interrupt again to stop at once\n')
  signal.addEventListener('abort', say, { once: true })
  return { [Symbol.dispose]: () => signal.removeEventListener('abort', say) }
}

export interface WebhookResult {
  readonly id: string
  readonly created: boolean
}

/** The webhook that `init` creates on demand; one whose secret is stored is not made again. */
export async function ensureWebhook(context: Context, config: Config, url: string): Promise<WebhookResult> {
  const team = oneTeam(config, undefined)
  await using warehouse = await openWarehouse(context, config)
  await using client = openService(context, config, team)
  const stored = await withStore(warehouse.url, (db) => secretStates(db, team.name))
  for await (const page of listWebhookConfigs(client)) {
    for (const { id, target_url } of page.raw.filter(isObject).map(shownConfig)) {
      if (id !== null && target_url === url && stored.get(id) === 'stored') return { id, created: false }
    }
  }
  // Its secret is stored; it is shown nowhere else than by `webhooks create` itself.
  let document = ''
  const stdout = { write: (text: string | Uint8Array) => (document += String(text)) }
  await createWebhook({ ...context, stdout }, { url, json: true })
  return { id: String((JSON.parse(document) as { id: unknown }).id), created: true }
}
