/**
 * `intake-sync explain STREAM ID`: the states of a row, their origins, and why the current one won.
 *
 * Invariant: values appear only with `--show-values`; no request is sent to the service.
 */
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { canonicalText } from '../../core/canonical.ts'
import {
  type Change,
  type Explained,
  type ExplainedEvent,
  type ExplainedState,
  explain,
} from '../../operate/explain.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import type { Stream } from '../../streams/stream.ts'
import { warehouseTeam } from '../../warehouse/teams.ts'
import { type Context, printJson, requireWarehouse } from '../context.ts'
import { requireStream } from '../options.ts'
import { printable, shown } from '../printable.ts'
import { colored, minute, paragraph } from '../terminal.ts'

interface Options {
  readonly team?: string
  readonly showValues?: true
  readonly json?: true
}

export function explainCommand(context: Context): Command {
  return new Command('explain')
    .description('where a row came from: each version, its origin, and why it won or lost')
    .argument('<stream>', ALL_STREAMS.map(({ name }) => name).join(', '))
    .argument('<id>', 'the service’s id of the record')
    .option('--team <name>', 'the team, if the warehouse has several')
    .option('--show-values', 'print the old and new values, which are health data')
    .option('--json', 'print one JSON document')
    .action(async (name: string, id: string, options: Options) => {
      const stream = streamCalled(name)
      const config = readConfig(context.env)
      await using warehouse = await requireWarehouse(context, config)
      await requireMigrated(warehouse.url)
      const team = await warehouseTeam(warehouse.url, options.team)
      const version = config.teams.find((each) => each.name === team.name)?.apiVersion ?? 'v2.1'
      const explained = await explain(warehouse.url, { teamId: team.teamId, stream, id }, version)
      const about = { team: team.name, stream: stream.name, id, withValues: options.showValues === true }
      if (options.json) printJson(context, explainDocument(explained, about))
      else context.stdout.write(explainText(context, explained, about))
    })
}

function streamCalled(name: string): Stream {
  const known = ALL_STREAMS.map((stream) => stream.name)
  requireStream(name, known, 'stream')
  return ALL_STREAMS[known.indexOf(name)]!
}

/** The output of `explain`, as text and as JSON. Invariant: values appear only with `--show-values`. */
export interface About {
  readonly team: string
  readonly stream: string
  readonly id: string
  readonly withValues: boolean
}

export function explainDocument(explained: Explained, { withValues, ...about }: About): unknown {
  const { states, events, deadLetters, refetch } = explained
  return {
    ...about,
    states: states.map((state) => ({
      version: state.version,
      observed_at: state.observedAt,
      deleted: state.deleted,
      hash: state.hash === '' ? null : state.hash,
      origin: state.origin,
      superseded_at: state.supersededAt,
      is_held: state.supersededAt === null,
      won_by: state.wonBy,
      changes: state.changes.map(({ field, kind, before, after }) =>
        withValues ? { field, kind, before: plain(before), after: plain(after) } : { field, kind },
      ),
      ...(withValues ? { payload: state.payload === null ? null : JSON.parse(state.payload) } : {}),
    })),
    events: events.map(({ eventId, eventType, receivedAt, outcome, ...event }) => ({
      event_id: eventId,
      event_type: eventType,
      received_at: receivedAt,
      ...event,
      told: outcome,
    })),
    dead_letters: deadLetters,
    refetch,
  }
}

function plain(value: unknown): unknown {
  return value === undefined ? null : JSON.parse(canonicalText(value))
}

export function explainText(context: Context, explained: Explained, about: About): string {
  const { states, events, deadLetters, refetch } = explained
  const newest = states.at(-1)
  const title = `${about.stream} ${printable(about.id)} of team ${printable(about.team)}`
  const now =
    newest === undefined
      ? 'not stored'
      : newest.deleted
        ? 'deleted'
        : `stored, from ${originOf(explained, newest)}`
  const parts = [
    paragraph(context, `${title}: ${now}`, 0),
    ...(states.length === 0 ? [] : ['\nstates, newest first:\n']),
    ...states.toReversed().map((state) => stateText(context, explained, state, about)),
    ...(events.length === 0 ? [] : ['\nevents, in order of arrival:\n']),
    ...events.map((event) => eventText(context, event)),
    ...(deadLetters.length === 0 ? [] : ['\ndead letters:\n']),
    ...deadLetters.map((each) =>
      paragraph(
        context,
        `${each.id}  ${each.status}, seen ${each.seen}, ${minute(each.last_seen_at)}: ${each.reason}`,
        2,
      ),
    ),
    ...(refetch === null
      ? []
      : ['\n', paragraph(context, `refetch by id (${refetch.reason}), due ${minute(refetch.due_at)}`, 0)]),
  ]
  return parts.join('')
}

function stateText(context: Context, explained: Explained, state: ExplainedState, about: About): string {
  const mark = state.supersededAt === null ? 'current' : 'earlier'
  const line = `${mark}  version ${state.version}${state.deleted ? ', a tombstone' : `, content ${state.hash.slice(0, 8)}`}`
  const won = state.wonBy === null ? 'first known state' : `won by: ${state.wonBy}`
  const until = state.supersededAt === null ? '' : `; superseded ${minute(state.supersededAt)}`
  const changed = state.changes.length === 0 ? [] : changeTexts(context, state.changes, about.withValues)
  return [
    state.supersededAt === null ? colored(context, 'green', line) : line,
    '\n',
    paragraph(context, `from ${originOf(explained, state)}, read at ${state.observedAt} or later`, 8),
    paragraph(context, `${won}${until}`, 8),
    ...changed,
  ].join('')
}

function changeTexts(context: Context, changes: readonly Change[], withValues: boolean): readonly string[] {
  if (!withValues) {
    const names = changes.map(({ field, kind }) =>
      kind === 'changed' ? printable(field) : `${printable(field)} (${kind})`,
    )
    return [paragraph(context, `changed: ${names.join(', ')}`, 8)]
  }
  return changes.map(({ field, before, after }) =>
    paragraph(context, `${printable(field)}: ${shown(before) || '-'} → ${shown(after) || '-'}`, 8),
  )
}

function eventText(context: Context, event: ExplainedEvent): string {
  const version = event.version === null ? '' : `, version ${event.version}`
  const head = `${minute(event.receivedAt)}  ${event.eventType ?? '-'}  ${printable(event.eventId)}${version}`
  return `${paragraph(context, head, 2)}${paragraph(context, event.outcome, 8)}`
}

/** `run:12 page:3`, with the kind and start of the run. */
function originOf({ runs }: Explained, { origin }: { readonly origin: string }): string {
  const run = runs.get(Number(/^run:(\d+)\b/.exec(origin)?.[1] ?? 0))
  return run === undefined ? printable(origin) : `${origin} (${run.kind} of ${minute(run.startedAt)})`
}
