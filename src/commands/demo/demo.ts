/**
 * `intake-sync demo`: the whole pipeline in seconds, with its own warehouse and service.
 *
 *     empty warehouse ─► first backfill ─► a day passes ─► backfill ─► backfill, nothing new ─► live ─► queries ─► analyst ─► (stay)
 *
 * Invariant: needs no configuration and touches none of the user's data. Every printed figure was counted in this run;
 * a figure that does not match the changes made at the service ends the demo with 1. No process outlives the demo.
 */
import { Command } from 'commander'
import { readConfig } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { IntakeError } from '../../core/errors.ts'
import { type EmbeddedServer, openEmbedded } from '../../embedded/server.ts'
import type { Emulator } from '../../emulator/server.ts'
import { type BackfillSummary, backfill } from '../../extract/backfill.ts'
import { EVERYTHING } from '../../extract/reading/window.ts'
import type { Serving } from '../../operate/serve/serve.ts'
import { STREAMS } from '../../streams/catalogue.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { type Context, ExitCode, openLogger, printJson } from '../context.ts'
import { backfillDocument } from '../run/backfill-report.ts'
import { openProgress } from '../run/progress.ts'
import { type AnalystResults, queryAsAnalyst } from './analyst.ts'
import { openDemoConsole } from './breaking.ts'
import { type LiveChange, openLive, watchChanges } from './live.ts'
import { advanceWorld, countRecords, DEMO_TEAM, demoTeam, startDemoService } from './service.ts'
import * as say from './text.ts'
import { DEMO_QUERIES, type DemoAnswer, runQuery } from './text.ts'
import { claimWarehouse, demoDirectory, markNow, rowVersionsSince } from './warehouse.ts'

interface Options {
  readonly stay?: true
  readonly json?: true
}

/** The result of one backfill of the demo. */
interface Run {
  readonly name: string
  readonly summary: BackfillSummary
  readonly seconds: number
  readonly row_versions: number
}

export function demoCommand(context: Context): Command {
  return new Command('demo')
    .description('show the whole pipeline on an embedded warehouse and an emulated service')
    .option('--stay', 'keep both running until Ctrl-C')
    .option('--json', 'print one JSON document')
    .action((options: Options) => runDemo(context, options))
}

async function runDemo(context: Context, options: Options): Promise<void> {
  const print = (text: string) => void (options.json || context.stdout.write(text))
  const begun = systemClock.now()
  const config = readConfig(ownSettings(context.env))
  const dataDir = demoDirectory(config.dataDir)
  const onNotice = (line: string) => void context.stderr.write(`${line}\n`)
  await using server = await openEmbedded({ dataDir, onNotice })
  context.signal.throwIfAborted()
  await using session = await openSession({ url: server.url, purpose: 'demo' })
  const postgres = await claimWarehouse(session, server.url, { dataDir, analyticsKey: config.analyticsKey })
  print(say.openingText(postgres, dataDir))
  await using service = await startDemoService()
  print(say.serviceText(service.environments[0]!.base_url, countRecords(service)))
  const stage = { context, server, session, service }
  const runs = await threeRuns(stage, print)
  print(say.headingText(4, 'Live: the service reports changes by webhook'))
  const logger = openLogger(context, config)
  await using serving = await openLive({ url: server.url, service, logger })
  const live = await watchChanges(session, service)
  print(say.liveText(live))
  const last = await runOnce(stage, 'last')
  for (const stream of ['patients', 'forms']) expect(last, stream, 0, 0)
  print(say.addedNothingText(last.seconds))
  print(say.headingText(5, 'Questions, in SQL'))
  const answers: DemoAnswer[] = []
  for (const query of DEMO_QUERIES) {
    const answer = await runQuery(session, query)
    answers.push(answer)
    print(say.answerText(context, answer))
  }
  print(say.headingText(6, 'As an analyst: the role intake_analyst, and views that name nobody'))
  const analyst = await queryAsAnalyst(session)
  for (const answer of analyst.answers) print(say.answerText(context, answer))
  print(say.refusedText(analyst.refused))
  const places = placesOf(server, service, dataDir, serving)
  const seconds = secondsSince(begun)
  const results = { seconds, runs: [...runs, last], live, answers, analyst }
  if (options.json) printJson(context, document(results, options.stay === true, places))
  print(`All results are as expected, after ${seconds.toFixed(1)} s.\n\n`)
  if (!options.stay) return print(say.overlongDirectoryText(places))
  const load = () => loadAll(context, server.url, service)
  await using page = await openDemoConsole({ context, url: server.url, service, places, logger, load })
  print(say.stayText(places, page))
  await untilAborted(context.signal)
}

interface Stage {
  readonly context: Context
  readonly server: EmbeddedServer
  readonly session: Session
  readonly service: Emulator
}

async function threeRuns(stage: Stage, print: (text: string) => void): Promise<readonly Run[]> {
  const { service } = stage
  const run = async (name: string): Promise<Run> => {
    const done = await runOnce(stage, name)
    print(say.runText(stage.context, done.summary, done.seconds, done.row_versions))
    return done
  }
  print(say.headingText(1, 'First backfill: everything'))
  const first = await run('first')
  for (const [stream, count] of Object.entries(countRecords(service))) expect(first, stream, count, 0)
  print(say.headingText(2, 'A day passes at the service: the second backfill writes only the changes'))
  const changes = advanceWorld(service)
  print(say.changesText(changes))
  const second = await run('changed')
  expect(second, 'patients', changes.created + changes.updated, changes.deleted)
  expect(second, 'forms', changes.reworded, 0)
  print(say.headingText(3, 'Nothing changed: the third backfill writes nothing'))
  const third = await run('unchanged')
  for (const { name } of STREAMS) expect(third, name, 0, 0)
  if (third.row_versions !== 0) throw wrong(third.name, 'row versions', third.row_versions, 0)
  return [first, second, third]
}

async function runOnce({ context, server, session, service }: Stage, name: string): Promise<Run> {
  const mark = await markNow(session)
  const begun = systemClock.now()
  const summary = await loadAll(context, server.url, service)
  const seconds = secondsSince(begun)
  if (summary.status === 'interrupted') throw new ExitCode(context.signal.reason === 'SIGTERM' ? 143 : 130)
  if (summary.status !== 'succeeded') {
    throw new IntakeError(`the ${name} backfill of the demo ended as ${summary.status}`, {
      code: 'internal',
      verdict: 'stop',
    })
  }
  return { name, summary, seconds, row_versions: await rowVersionsSince(session, mark) }
}

async function loadAll(context: Context, url: string, service: Emulator): Promise<BackfillSummary> {
  using progress = openProgress({ ...context, env: ownSettings(context.env) }, false)
  return await backfill({
    url,
    teams: [demoTeam(service)],
    streams: STREAMS,
    allowMassDelete: false,
    window: EVERYTHING,
    dry: false,
    migrated: true,
    clock: systemClock,
    random: Math.random,
    logger: openLogger(progress, readConfig(ownSettings(context.env))),
    signal: context.signal,
    version: context.version,
    onProgress: progress.update,
  })
}

/** The user's data directory, log level and analytics key, so that other commands can open the demo's warehouse. The
 * user's credentials stay out of the demo. */
function ownSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { INTAKE_DATA_DIR, INTAKE_DATA_DIR_FILE, LOG_LEVEL = 'warn' } = env
  const { INTAKE_ANALYTICS_KEY, INTAKE_ANALYTICS_KEY_FILE } = env
  return { INTAKE_DATA_DIR, INTAKE_DATA_DIR_FILE, LOG_LEVEL, INTAKE_ANALYTICS_KEY, INTAKE_ANALYTICS_KEY_FILE }
}

function expect({ name, summary }: Run, stream: string, changed: number, deleted: number): void {
  const report = summary.teams[0]?.streams.find((each) => each.stream === stream)?.report
  if (report?.changed !== changed) throw wrong(name, `changed ${stream}`, report?.changed, changed)
  if (report.deleted !== deleted) throw wrong(name, `deleted ${stream}`, report.deleted, deleted)
}

function wrong(run: string, what: string, found: number | undefined, expected: number): IntakeError {
  return new IntakeError(`the ${run} backfill of the demo: ${found ?? 'no'} ${what}, ${expected} expected`, {
    code: 'internal',
    verdict: 'stop',
  })
}

function placesOf(
  server: EmbeddedServer,
  service: Emulator,
  dataDir: string,
  { ingest, admin }: Serving,
): say.DemoPlaces {
  const { baseUrl, apiKey, apiSecret } = demoTeam(service)
  const variables = {
    INTAKE_TEAM: DEMO_TEAM,
    INTAKE_BASE_URL: baseUrl,
    INTAKE_API_KEY: apiKey,
    INTAKE_API_SECRET: apiSecret,
  }
  const port = Number(new URL(server.url).port)
  return { dataDir, directory: server.directory, port, variables, webhooks: `${ingest}/webhooks`, admin }
}

interface Results {
  readonly seconds: number
  readonly runs: readonly Run[]
  readonly live: readonly LiveChange[]
  readonly answers: readonly DemoAnswer[]
  readonly analyst: AnalystResults
}

function document(
  { seconds, runs, live, answers, analyst }: Results,
  stays: boolean,
  { dataDir, directory, port, variables }: say.DemoPlaces,
): unknown {
  return {
    seconds,
    steps: runs.map(({ summary, ...rest }) => ({ ...rest, backfill: backfillDocument(summary) })),
    live,
    queries: answers,
    analyst: { queries: analyst.answers, refused: analyst.refused },
    warehouse: { data_dir: dataDir, password_file: `${directory}/password`, port: stays ? port : null },
    service: stays ? variables : null,
  }
}

function secondsSince(begun: number): number {
  return Math.round((systemClock.now() - begun) / 1000) / 1000
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
