/** What `init` asks, and what it prints at its end. Invariant: only a terminal is asked; no secret is shown. */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { CONFIG_FILE, ENV_FILE } from '../../config/settings.ts'
import type { Check } from '../../operate/doctor/check.ts'
import { type Context, ExitCode } from '../context.ts'
import { checksText } from '../inspect/doctor.ts'
import { fittedTable, formatSeconds, paragraph } from '../terminal.ts'
import type { WebhookResult } from '../webhooks/create.ts'
import { DEPLOYMENTS, type Deployment, quoted } from './deploy.ts'
import type { TeamProbe } from './probe.ts'
import { differenceText } from './settings-file.ts'
import type { Difference, Settings } from './settings-json.ts'

export interface Terminal {
  readonly input: Readable & { readonly isTTY?: boolean }
  readonly output: Writable & { readonly isTTY?: boolean }
}

export interface Questions extends AsyncDisposable {
  /** The settings without which nothing can be tried. The warehouse is asked for the first time only. */
  missing(settings: Settings, isFirst: boolean): Promise<Settings>
  /** Other credentials, after the service refused those; null to give up. */
  again(failure: Check): Promise<Settings | null>
  further(): Promise<{ webhookUrl?: string; deploy?: Deployment }>
}

/** Null off a terminal. */
export async function openQuestions(
  { signal }: Context,
  terminal: Terminal = { input: process.stdin, output: process.stderr },
): Promise<Questions | null> {
  const { input, output } = terminal
  if (input.isTTY !== true || output.isTTY !== true) return null
  const clack = await import('@clack/prompts')
  const common = { input, output, signal }
  const answered = <Value>(value: Value): Exclude<Value, symbol> => {
    if (!clack.isCancel(value)) return value as Exclude<Value, symbol>
    throw signal.aborted ? signal.reason : new ExitCode(130)
  }
  const text = async (message: string, placeholder: string, isOptional = false) => {
    const validate = (value: string | undefined) =>
      isOptional || (value ?? '').trim() !== '' ? undefined : 'Write something.'
    return (answered(await clack.text({ ...common, message, placeholder, validate })) ?? '').trim()
  }
  const secret = async (message: string) => answered(await clack.password({ ...common, message })).trim()
  const credentials = async () => ({
    INTAKE_API_KEY: await secret('Its API key'),
    INTAKE_API_SECRET: await secret('Its API secret'),
  })
  return {
    async missing(settings, isFirst) {
      const own: Record<string, string> = {}
      const isSet = (name: string) => (settings[name] ?? settings[`${name}_FILE`]) !== undefined
      if (isSet('INTAKE_CONFIG')) return own
      if (!isSet('INTAKE_BASE_URL'))
        own.INTAKE_BASE_URL = await text('Address of the service', 'https://intake.example.com')
      if (!isSet('INTAKE_API_KEY') || !isSet('INTAKE_API_SECRET')) Object.assign(own, await credentials())
      if (!isFirst || isSet('DATABASE_URL')) return own
      const url = await text(
        'Warehouse (leave empty for an embedded Postgres)',
        'postgres://user@host/database',
        true,
      )
      return url === '' ? own : { ...own, DATABASE_URL: url }
    },
    async again({ name, detail }) {
      clack.log.warn(`${name}: ${detail}`, { output })
      const retry = answered(await clack.confirm({ ...common, message: 'Try other credentials?' }))
      return retry ? await credentials() : null
    },
    async further() {
      const webhookUrl = await text(
        'Public address of serve for webhooks (leave empty for none)',
        'https://…/webhooks',
        true,
      )
      const options = [
        { value: 'none' as const, label: 'not now' },
        ...Object.entries(DEPLOYMENTS).map(([value, label]) => ({ value: value as Deployment, label })),
      ]
      const deploy = answered(await clack.select({ ...common, message: 'How will it run?', options }))
      return { ...(webhookUrl === '' ? {} : { webhookUrl }), ...(deploy === 'none' ? {} : { deploy }) }
    },
    async [Symbol.asyncDispose]() {
      input.pause()
    },
  }
}

export interface InitResult {
  readonly path: string
  readonly changed: readonly Difference[]
  readonly probe: readonly TeamProbe[]
  readonly webhook: WebhookResult | null
  readonly notes: readonly string[]
  readonly checks: readonly Check[]
}

/** 32 bytes in base64. */
export function generatedKey(): string {
  return randomBytes(32).toString('base64')
}

export function resultText(context: Context, result: InitResult, deploy: string): string {
  const { path, changed, probe, webhook, notes, checks } = result
  const lines = (texts: readonly string[], indent = 0) =>
    texts.map((text) => paragraph(context, text, indent)).join('')
  const parts = [
    ...probe.map((each) => probeText(context, each)),
    `settings in ${path}: ${changed.length === 0 ? 'nothing to change' : `${changed.length} changed`}\n`,
    lines(
      changed.map((each) => differenceText(each, path)),
      2,
    ),
    webhook === null
      ? ''
      : `webhook ${webhook.id}: ${webhook.created ? 'created, its secret is stored' : 'there already'}\n`,
    lines(notes.map((note) => `note: ${note}`)),
    `\n${checksText(context, checks)}`,
    deploy === '' ? '' : `\n${deploy}`,
  ]
  return `${parts.join('')}\n${nextText(context, result)}`
}

function probeText(context: Context, probe: InitResult['probe'][number]): string {
  const { base_url, environment, streams, requests, is_lower_bound, permitted_rate, seconds } = probe
  const rows = streams.map(({ stream, count, page, by_id, error }) => [
    stream,
    error === null ? (count ?? `${page} or more`) : '-',
    error ?? (by_id ? `pages of ${page}, then each by itself` : `pages of ${page}`),
  ])
  const total = `a first backfill makes ${is_lower_bound ? 'at least' : 'about'} ${requests} requests`
  const about =
    permitted_rate === null
      ? `${total}: about ${formatSeconds(seconds)}, longer if the service limits requests`
      : `${total} (${Math.round(permitted_rate * 10) / 10} permitted a second): about ${formatSeconds(seconds)}`
  const head = `service ${base_url}${environment === null ? '' : `, ${environment}`}`
  const table = fittedTable(context, [['stream', 'records', 'listed in'], ...rows], 2)
  return `${head}\n\n${table}\n${paragraph(context, about, 0)}\n`
}

function nextText(context: Context, { path, webhook }: InitResult): string {
  const [first, second] = [resolve(ENV_FILE), resolve(CONFIG_FILE)]
  const isDefault = path === first || (path === second && !existsSync(first))
  const lines = [
    ...(isDefault ? [] : [`export INTAKE_ENV_FILE=${quoted(path)}`]),
    'intake-sync backfill',
    'intake-sync psql --as analyst',
    ...(webhook === null ? [] : ['intake-sync serve', `intake-sync webhooks test ${webhook.id}`]),
  ]
  return `next:\n${lines.map((line) => paragraph(context, line, 2)).join('')}`
}
