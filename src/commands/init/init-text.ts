/** What `init` prints at its end. Invariant: no secret. */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { CONFIG_FILE, ENV_FILE } from '../../config/settings.ts'
import type { Check } from '../../operate/doctor/check.ts'
import type { Context } from '../context.ts'
import { checksText } from '../inspect/doctor.ts'
import { fittedTable, formatSeconds, paragraph } from '../terminal.ts'
import type { WebhookResult } from '../webhooks/create.ts'
import { quoted } from './deploy.ts'
import type { TeamProbe } from './probe.ts'
import { differenceText } from './settings-file.ts'
import type { Difference } from './settings-json.ts'

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
  const rate =
    permitted_rate === null ? 'no limit seen' : `${Math.round(permitted_rate * 10) / 10} permitted a second`
  const about = `a first backfill makes ${is_lower_bound ? 'at least' : 'about'} ${requests} requests (${rate}): about ${formatSeconds(seconds)}`
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
