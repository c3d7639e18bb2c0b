/**
 * `intake-sync webhooks update`, `delete` and `test`: change one configuration by its id.
 *
 * Invariant: `delete` retires the stored secret only after the service has confirmed the deletion.
 */
import type { Answer } from '../../api/client.ts'
import {
  changeWebhookConfig,
  deleteWebhookConfig,
  replaceWebhookConfig,
  testWebhookConfig,
} from '../../api/resources/webhooks.ts'
import { readConfig } from '../../config/config.ts'
import { IntakeError, UsageError, verdictOf } from '../../core/errors.ts'
import { isObject } from '../../core/json.ts'
import { retireSecret } from '../../warehouse/webhook-secrets.ts'
import { type Context, detailOf, ExitCode, oneTeam, openService, printJson } from '../context.ts'
import { shown, table } from '../printable.ts'
import { type FieldOptions, fieldsOf, linesOf, shownConfig } from './fields.ts'
import { openExistingWarehouse, withStore } from './store.ts'

export interface OneOptions {
  readonly team?: string
  readonly json?: true
}

export interface UpdateOptions extends OneOptions, FieldOptions {
  readonly replace?: true
}

export async function updateWebhook(context: Context, id: string, options: UpdateOptions): Promise<void> {
  const fields = fieldsOf(options)
  if (Object.keys(fields).length === 0) {
    throw new UsageError('no field to change was given', 'use --url, --events, --sources or --active')
  }
  const whole = options.replace ? { ...fields, target_url: required(fields.target_url) } : null
  const config = readConfig(context.env)
  const team = oneTeam(config, options.team)
  await using client = openService(context, config, team)
  const { raw } = await (whole === null
    ? changeWebhookConfig(client, id, fields)
    : replaceWebhookConfig(client, id, whole))
  const after = shownConfig(raw)
  if (options.json) printJson(context, after)
  else context.stdout.write(`updated\n${table(linesOf(after))}`)
}

function required(url: string | undefined): string {
  if (url !== undefined) return url
  throw new UsageError(
    '--replace needs --url',
    'a full update sets every field: add --url, or leave out --replace',
    '--url',
  )
}

export async function deleteWebhook(context: Context, id: string, options: OneOptions): Promise<void> {
  const config = readConfig(context.env)
  const team = oneTeam(config, options.team)
  await using warehouse = await openExistingWarehouse(context, config)
  const retire = async () =>
    warehouse !== null && (await withStore(warehouse.url, (db) => retireSecret(db, team.name, id)))
  await using client = openService(context, config, team)
  try {
    await deleteWebhookConfig(client, id)
  } catch (error) {
    if (verdictOf(error) === 'gone') await retire()
    throw error
  }
  const retired = await retire().catch((error: unknown) => {
    throw notRetired(id, error)
  })
  if (options.json) printJson(context, { id, deleted: true, secret_retired: retired })
  else context.stdout.write(`deleted ${shown(id)}${retired ? '; its stored secret is retired' : ''}\n`)
}

function notRetired(id: string, error: unknown): IntakeError {
  const why = error instanceof IntakeError ? `: ${error.message}` : ''
  return new IntakeError(`the webhook ${id} is deleted, but its stored secret could not be retired${why}`, {
    code: error instanceof IntakeError ? error.code : 'internal',
    verdict: 'stop',
    hint: 'delete it again once the warehouse is writable; the service will answer that it does not exist',
  })
}

export async function testWebhook(context: Context, id: string, options: OneOptions): Promise<void> {
  const config = readConfig(context.env)
  await using client = openService(context, config, oneTeam(config, options.team))
  let refusal: Answer | undefined
  const onRefusal = (answer: Answer) => {
    refusal = answer
  }
  let answer: Answer
  try {
    answer = await testWebhookConfig(client, id, { onRefusal })
  } catch (error) {
    const detail = refusal === undefined ? null : detailOf(refusal)
    if (detail !== null && !options.json) context.stdout.write(`the service says: ${detail}\n`)
    throw error
  }
  const outcome = outcomeOf(answer.body)
  if (options.json) printJson(context, { id, status: answer.status, outcome })
  else context.stdout.write(testText(id, outcome))
  if (outcome !== null && /^fail/i.test(outcome.status)) throw new ExitCode(1)
}

interface TestOutcome {
  readonly status: string
  readonly response_status_code: string | null
  readonly error: string | null
}

/** The outcome of the delivery, if the answer contains one (specification: not shown). */
function outcomeOf(body: unknown): TestOutcome | null {
  if (!isObject(body) || typeof body.status !== 'string') return null
  const { status, response_status_code: code, error } = body
  return { status, response_status_code: shown(code) || null, error: shown(error) || null }
}

function testText(id: string, outcome: TestOutcome | null): string {
  if (outcome === null) {
    return `the service accepted the test of ${shown(id)}; to see the outcome: intake-sync webhooks events\n`
  }
  const { status, response_status_code: code, error } = outcome
  const why = [code === null ? [] : `the receiver answered ${code}`, error ?? []].flat().join(', ')
  return `the test of ${shown(id)}: ${shown(status)}${why === '' ? '' : ` (${why})`}\n`
}
