/** `intake-sync dead-letters`: lists, shows, retries and discards dead letters. Contents appear only with `--show-values`. */
import { Command, InvalidArgumentError, Option } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { INBOX } from '../../core/envelope.ts'
import { IntakeError, UsageError } from '../../core/errors.ts'
import { selectTeams } from '../../core/which-team.ts'
import { type DeadLetterFilter, listDeadLetters, readDeadLetter } from '../../operate/dead-letters.ts'
import { discardDeadLetters, retryDeadLetters } from '../../operate/retry-dead-letters.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { readTeams } from '../../warehouse/teams.ts'
import { type Context, ExitCode, printJson, requireWarehouse } from '../context.ts'
import { requireStream, wholeNumber } from '../options.ts'
import { deadLetterDocument, deadLetterText, listText, retriedText } from './dead-letters-text.ts'

interface ListOptions {
  readonly status: string
  readonly stream?: string
  readonly team?: string
  readonly limit: number
  readonly json?: true
}

interface OneOptions {
  readonly showValues?: true
  readonly json?: true
}

interface RetryOptions {
  readonly all?: true
  readonly json?: true
}

export function deadLettersCommand(context: Context): Command {
  const list = command('list', 'dead letters, newest first')
    .addOption(
      new Option('--status <status>', 'only dead letters with this status')
        .choices(['waiting', 'resolved', 'retried', 'discarded', 'all'])
        .default('waiting'),
    )
    .option('--stream <name>', 'only this stream; inbox for events without one')
    .option('--team <name>', 'only this team')
    .option('--limit <number>', 'number of dead letters', wholeNumber, 50)
    .action((options: ListOptions) => showList(context, options))
  const show = command('show', 'show one dead letter: its origin and the reason')
    .argument('<id>', 'its id: see dead-letters list', numericId)
    .option('--show-values', 'also print its content, which is health data')
    .action((id: number, options: OneOptions) => showOne(context, id, options))
  const retry = command('retry', 'try to load dead letters again')
    .argument('[ids...]', 'their ids', numericIds)
    .option('--all', 'all that are waiting')
    .addHelpText('after', RETRY_HELP)
    .action((ids: readonly number[] | undefined, options: RetryOptions) => retryThem(context, ids, options))
  const discard = command('discard', 'close dead letters; one that recurs with the same content stays closed')
    .argument('<ids...>', 'their ids', numericIds)
    .action((ids: readonly number[], options: { json?: true }) => discardThem(context, ids, options))
  const group = new Command('dead-letters').description('records and events that could not be loaded')
  for (const each of [list, show, retry, discard]) group.addCommand(each)
  return group
}

const RETRY_HELP = `
An event goes back to the inbox and is drained by serve. A record with an id is
fetched by that id, by serve or the next backfill. Any other record is read
again from its stored content. A retry that fails creates a new dead letter.
Exit 4 if a dead letter cannot be retried.`

function command(name: string, description: string): Command {
  return new Command(name).description(description).option('--json', 'print one JSON document')
}

async function showList(context: Context, options: ListOptions): Promise<void> {
  const { status, stream, team, limit } = options
  if (stream !== undefined) requireStream(stream, [...ALL_STREAMS.map(({ name }) => name), INBOX], '--stream')
  const filter: DeadLetterFilter = {
    limit,
    ...(status === 'all' ? {} : { status }),
    ...(stream === undefined ? {} : { stream }),
    ...(team === undefined ? {} : { team }),
  }
  const list = await withSession(context, async ({ db }) => {
    selectTeams(await readTeams(db), team, 'warehouse')
    return await listDeadLetters(db, filter)
  })
  if (options.json) printJson(context, { total: list.total, dead_letters: list.deadLetters })
  else context.stdout.write(listText(context, list, status))
}

async function showOne(context: Context, id: number, options: OneOptions): Promise<void> {
  const deadLetter = await withSession(context, ({ db }) => readDeadLetter(db, id))
  if (deadLetter === null) throw notFound(id)
  const withValues = options.showValues === true
  if (options.json) printJson(context, deadLetterDocument(deadLetter, withValues))
  else context.stdout.write(deadLetterText(context, deadLetter, withValues))
}

async function retryThem(
  context: Context,
  ids: readonly number[] | undefined,
  options: RetryOptions,
): Promise<void> {
  const named = ids !== undefined && ids.length > 0
  if (named === (options.all === true))
    throw new UsageError(
      'name the dead letters to retry, or --all',
      'intake-sync dead-letters list shows them',
      'ids',
    )
  const tried = await withSession(context, (session) => retryDeadLetters(session, named ? ids : null))
  if (options.json) printJson(context, { retried: tried })
  else context.stdout.write(retriedText(context, tried))
  if (tried.some(({ outcome }) => outcome === 'not_possible')) throw new ExitCode(4)
}

async function discardThem(
  context: Context,
  ids: readonly number[],
  options: { json?: true },
): Promise<void> {
  await withSession(context, ({ db }) => discardDeadLetters(db, ids))
  if (options.json) printJson(context, { discarded: ids })
  else context.stdout.write(`discarded ${ids.join(', ')}\n`)
}

async function withSession<Result>(
  context: Context,
  work: (session: Session) => Promise<Result>,
): Promise<Result> {
  await using warehouse = await requireWarehouse(context, readConfig(context.env))
  await requireMigrated(warehouse.url)
  await using session = await openSession({ url: warehouse.url, purpose: 'dead-letters' })
  try {
    return await work(session)
  } catch (error) {
    throw warehouseError(error)
  }
}

function numericId(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('Use the number that dead-letters list shows.')
}

function numericIds(text: string, before: readonly number[] | undefined): readonly number[] {
  return [...new Set([...(before ?? []), numericId(text)])]
}

function notFound(id: number): IntakeError {
  return new IntakeError(`there is no dead letter ${id}`, {
    code: 'no_such_letter',
    verdict: 'stop',
    hint: 'intake-sync dead-letters list --status all shows all of them',
  })
}
