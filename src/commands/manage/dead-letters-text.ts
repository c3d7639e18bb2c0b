/** Dead letters as text and as JSON. Invariant: contents appear only with `--show-values`. */
import type { DeadLetterList, DeadLetterWithBody, StoredDeadLetter } from '../../operate/dead-letters.ts'
import type { Retried } from '../../operate/retry-dead-letters.ts'

import type { Context } from '../context.ts'
import { printable } from '../printable.ts'
import { colored, fittedTable, minute, paragraph } from '../terminal.ts'

export function listText(context: Context, { deadLetters, total }: DeadLetterList, status: string): string {
  if (deadLetters.length === 0)
    return status === 'all' ? 'no dead letters\n' : `no dead letter is ${status}\n`
  const teams = new Set(deadLetters.map(({ team }) => team))
  const ofTeam = (team: string) => (teams.size > 1 ? [printable(team)] : [])
  const ofStatus = (cell: string) => (status === 'all' ? [cell] : [])
  const head = ['id', ...ofTeam('team'), 'stream', ...ofStatus('status'), 'seen', 'last seen (UTC)', 'reason']
  const rows = deadLetters.map((each) => [
    each.id,
    ...ofTeam(each.team),
    each.stream,
    ...ofStatus(each.status),
    each.seen,
    minute(each.last_seen_at),
    printable(each.reason),
  ])
  const more =
    total > deadLetters.length ? `the newest ${deadLetters.length} of ${total}; --limit shows more\n` : ''
  return fittedTable(context, [head, ...rows], head.length - 1) + more
}

export function deadLetterDocument(
  { body, ...deadLetter }: DeadLetterWithBody,
  withValues: boolean,
): unknown {
  const content = { content: body?.toString('utf8') ?? null, content_bytes: body?.length ?? null }
  return withValues ? { ...deadLetter, ...content } : deadLetter
}

export function deadLetterText(
  context: Context,
  deadLetter: DeadLetterWithBody,
  withValues: boolean,
): string {
  const { body } = deadLetter
  const facts = factsText(context, [
    ['dead letter', String(deadLetter.id)],
    ['status', deadLetter.status],
    ['team', printable(deadLetter.team)],
    ['stream', deadLetter.stream],
    ['record', deadLetter.record_id === null ? '-' : printable(deadLetter.record_id)],
    ['origin', printable(deadLetter.origin)],
    ['first seen', `${minute(deadLetter.created_at)} UTC`],
    ['last seen', `${minute(deadLetter.last_seen_at)} UTC${lastRun(deadLetter)}`],
    ['seen', String(deadLetter.seen)],
    ...(deadLetter.settled_at === null ? [] : [['settled', `${minute(deadLetter.settled_at)} UTC`] as const]),
    ['content', contentOf(body, withValues)],
  ])
  const content = withValues && body !== null ? `${shownContent(body)}\n` : ''
  return `${colored(context, 'yellow', paragraph(context, printable(deadLetter.reason), 0))}${facts}${content}`
}

/** One value per line. A value that is too long for the terminal is wrapped, not cut. */
function factsText(context: Context, facts: readonly (readonly [name: string, value: string])[]): string {
  const indent = Math.max(...facts.map(([name]) => name.length)) + 2
  return facts
    .map(([name, value]) => name.padEnd(indent) + paragraph(context, value, indent).slice(indent))
    .join('')
}

function lastRun({ last_run_id }: StoredDeadLetter): string {
  return last_run_id === null ? '' : `, by run ${last_run_id}`
}

function contentOf(body: Buffer | null, withValues: boolean): string {
  if (body === null) return 'removed (INTAKE_INBOX_DAYS)'
  return `${body.length} bytes${withValues ? ':' : '; --show-values prints it'}`
}

/** JSON is indented; anything else is one line of printable text. */
function shownContent(body: Buffer): string {
  const text = body.toString('utf8')
  try {
    return JSON.stringify(JSON.parse(text), null, 2).split('\n').map(printable).join('\n')
  } catch {
    return printable(text)
  }
}

const OUTCOMES = {
  pending: 'back in the inbox: drained while serve runs',
  asked: 'scheduled to be fetched by id: fetched while serve runs',
  loaded: 'loaded from the stored content',
} as const

export function retriedText(context: Context, tried: readonly Retried[]): string {
  if (tried.length === 0) return 'no dead letter is waiting\n'
  return tried
    .map((each) =>
      each.outcome === 'not_possible'
        ? paragraph(context, `${each.id}  not tried: ${each.why}`, 0)
        : `${each.id}  ${OUTCOMES[each.outcome]}\n`,
    )
    .join('')
}
