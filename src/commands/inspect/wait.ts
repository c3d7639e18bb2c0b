/** `intake-sync wait`: ends when a stream or a record is as new as a time. */
import { Command, Option } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { UsageError } from '../../core/errors.ts'
import { type Instant, instantOf, parseInstant } from '../../core/time.ts'
import { notReached, readAsOf, streamNamed, type Wanted, waitFor } from '../../operate/health/wait.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import { openSession } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { type Context, ExitCode, printJson, requireWarehouse } from '../context.ts'
import { parseDuration, requireStream } from '../options.ts'

interface Options {
  readonly since?: string
  readonly timeout: number
  readonly team?: string
  readonly json?: true
}

export function waitCommand(context: Context): Command {
  return new Command('wait')
    .description('wait until a stream or a record is as new as a time')
    .argument('<stream>', `one of: ${ALL_STREAMS.map(({ name }) => name).join(', ')}`)
    .argument('[id]', 'only this record')
    .option('--since <time>', 'an ISO 8601 time on the service’s clock, or how long ago: 30s (now)')
    .addOption(
      new Option('--timeout <duration>', 'stop waiting after this time')
        .argParser(parseDuration)
        .default(30, '30s'),
    )
    .option('--team <name>', 'the team; needed where the warehouse has several')
    .option('--json', 'print one JSON document')
    .addHelpText('after', HELP)
    .action((stream: string, id: string | undefined, options: Options) => run(context, stream, id, options))
}

const HELP = `
A record is as new as its stored state. A stream is as new as the newest state
of any record, once none of its events is pending. Both are as new as the start
of the last successful backfill that read the whole list.

Exit 1 if the time was over first. The same over HTTP, on the admin address of
serve: GET /wait?stream=…&id=…&since=…&timeout=30&team=… answers 200 or 504.`

async function run(context: Context, name: string, id: string | undefined, options: Options): Promise<void> {
  requireStream(
    name,
    ALL_STREAMS.map((stream) => stream.name),
    'STREAM',
  )
  const wanted: Wanted = {
    stream: streamNamed(name),
    id: id ?? null,
    team: options.team,
    since: sinceOf(options.since),
  }
  const config = readConfig(context.env)
  await using warehouse = await requireWarehouse(context, config)
  await requireMigrated(warehouse.url)
  await using session = await openSession({ url: warehouse.url, purpose: 'wait' })
  const waited = await waitFor(
    wanted,
    () =>
      readAsOf(session.db, wanted).catch((error: unknown) => {
        throw warehouseError(error)
      }),
    { timeoutMs: options.timeout * 1000, clock: systemClock, signal: context.signal },
  )
  if (options.json) printJson(context, waited)
  else if (waited.reached) context.stdout.write(`as of ${waited.as_of}, by a ${waited.by}\n`)
  if (waited.reached) return
  if (options.json) throw new ExitCode(1)
  throw notReached(waited)
}

function sinceOf(text: string | undefined): Instant {
  if (text === undefined) return instantOf(systemClock.now())
  const instant = parseInstant(text)
  if (instant !== null) return instant
  if (!/^\d+(?:\.\d+)?[smhd]$/.test(text))
    throw new UsageError(
      '--since is not a time',
      'write it as 2026-01-05T02:11:09Z, or as 30s ago',
      '--since',
    )
  return instantOf(systemClock.now() - parseDuration(text) * 1_000_000)
}
