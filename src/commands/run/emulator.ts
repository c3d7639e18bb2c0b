/**
 * `intake-sync emulator`: an emulated service, to test with.
 *
 * Invariant: stdout carries the addresses and credentials only. Runs until SIGINT or SIGTERM, then exits with 0. An
 * unusable option is named and exits with 2.
 */
import { Command } from 'commander'
import { UsageError } from '../../core/errors.ts'
import { FAULTS } from '../../emulator/faults.ts'
import { parseRateLimit, type RateLimit } from '../../emulator/options.ts'
import {
  type Emulator,
  EmulatorOptionError,
  type EmulatorOptions,
  startEmulator,
} from '../../emulator/server.ts'
import { describeShape, SHAPE_NAMES } from '../../emulator/shapes/catalogue.ts'
import type { Context } from '../context.ts'

type Surroundings = Pick<Context, 'stdout' | 'stderr'>

export interface Flags {
  port: string
  seed: string
  patients?: string
  responses?: string
  apiKey?: string
  apiSecret?: string
  pageSize?: string
  rateLimit?: string
  shape?: string
  faults?: string
  activity?: string
  timeScale?: string
  json?: true
  importPatients?: string
  importQuestionnaires?: string
  importSurvey?: readonly string[]
  allowRemoteWebhooks?: true
}

export function emulatorCommand(context: Surroundings = process): Command {
  return new Command('emulator')
    .description('run an emulated service to test with; print its addresses and credentials')
    .option('--port <number>', 'port of production, the next one is sandbox; 0 uses any two', '4010')
    .option('--seed <text>', 'the same seed generates the same data', '1')
    .option('--patients <number>', 'generated patients per team (200)')
    .option('--responses <number>', 'generated responses per team (400)')
    .option('--api-key <key>', 'API key of the first team of production')
    .option('--api-secret <secret>', 'API secret of the first team of production')
    .option('--page-size <number>', 'default rows per page (100)')
    .option('--rate-limit <N/s>', 'requests per team: 10/s, 600/m, 5000/h; unlimited by default')
    .option('--shape <name>', 'an alternative shape, several joined by +, or random; "list" names them')
    .option(
      '--faults <spec>',
      'faults to inject: name[@resource][=probability[:argument]],…; "list" names them',
    )
    .option('--activity <N/s>', 'rate of random changes')
    .option('--time-scale <factor>', 'speed of the service’s clock (1)')
    .option('--import-patients <file>', 'patients from a CSV or JSON file')
    .option('--import-questionnaires <dir>', 'forms from FHIR Questionnaires, JSON or YAML')
    .option(
      '--import-survey <file>',
      'a form, its clients and their answers from a CSV survey; may be repeated',
      (file: string, before: readonly string[] = []) => [...before, file],
    )
    .option('--allow-remote-webhooks', 'send webhooks to other machines, wherever a configuration points')
    .option('--json', 'print one JSON document')
    .action((flags: Flags) => run(flags, context))
}

async function run(flags: Flags, context: Surroundings): Promise<void> {
  const catalogue = flags.shape === 'list' ? shapeList() : flags.faults === 'list' ? faultList() : undefined
  if (catalogue !== undefined) {
    const text = catalogue.map(([name, does]) => `${name.padEnd(28)}${does}\n`).join('')
    context.stdout.write(flags.json ? `${JSON.stringify(Object.fromEntries(catalogue), null, 2)}\n` : text)
    return
  }
  const signals = listenForSignals()
  try {
    const emulator = await startEmulator(optionsOf(flags))
    try {
      announce(emulator, flags, context)
      await signals.first
    } finally {
      await emulator.close()
    }
  } catch (error) {
    if (!(error instanceof EmulatorOptionError)) throw error
    throw new UsageError(error.message, 'see intake-sync emulator --help', `--${error.option}`)
  } finally {
    signals.stop()
  }
}

/** Listens at once, so that a signal during a long import ends the emulator too. */
function listenForSignals(): { first: Promise<void>; stop: () => void } {
  let heard = () => {}
  const first = new Promise<void>((resolve) => {
    heard = resolve
  })
  const names = ['SIGINT', 'SIGTERM'] as const
  for (const name of names) process.on(name, heard)
  const stop = () => {
    for (const name of names) process.off(name, heard)
  }
  return { first, stop }
}

function announce(emulator: Emulator, flags: Flags, context: Surroundings): void {
  const { environments, imported } = emulator
  for (const { file, reason } of imported.failed) context.stderr.write(`not imported: ${file}: ${reason}\n`)
  const { importPatients, importQuestionnaires, importSurvey } = flags
  if (importPatients ?? importQuestionnaires ?? importSurvey) {
    const { patients, forms, questions, responses, skipped } = imported
    const text = `imported ${patients} patients, ${forms} forms with ${questions} questions, ${responses} responses`
    context.stderr.write(`${text}; ${skipped.length} files are not questionnaires\n`)
  }
  context.stdout.write(flags.json ? `${JSON.stringify({ environments })}\n` : announcement(emulator))
}

export function optionsOf(flags: Flags): EmulatorOptions {
  const { json: _json, port, patients, responses, pageSize, rateLimit, activity, timeScale, ...texts } = flags
  return {
    ...texts,
    port: numberOf('port', port),
    ...(patients === undefined ? {} : { patients: numberOf('patients', patients) }),
    ...(responses === undefined ? {} : { responses: numberOf('responses', responses) }),
    ...(pageSize === undefined ? {} : { pageSize: numberOf('page-size', pageSize) }),
    ...(rateLimit === undefined ? {} : { rateLimit: rateOf('rate-limit', rateLimit) }),
    ...(activity === undefined ? {} : { activity: pace('activity', activity) }),
    ...(timeScale === undefined ? {} : { timeScale: numberOf('time-scale', timeScale) }),
  }
}

function numberOf(option: string, text: string): number {
  if (text.trim() !== '' && Number.isFinite(Number(text))) return Number(text)
  throw new UsageError(
    `--${option}: "${text}" is not a number`,
    'see intake-sync emulator --help',
    `--${option}`,
  )
}

function rateOf(option: string, text: string): RateLimit {
  const rate = parseRateLimit(text)
  if (rate !== undefined) return rate
  throw new UsageError(`--${option}: write it as 10/s, 600/m or 5000/h`, undefined, `--${option}`)
}

function pace(option: string, text: string): number {
  const { requests, seconds } = rateOf(option, text)
  return requests / seconds
}

function shapeList(): [string, string][] {
  return ['default', 'random', ...SHAPE_NAMES].map((name) => [name, describeShape(name)])
}

function faultList(): [string, string][] {
  return Object.entries(FAULTS)
}

function announcement({ environments }: Emulator): string {
  const lines = environments.flatMap(({ name, base_url, teams }) => [
    `${name}  ${base_url}`,
    ...teams.map((team) => `  ${team.name}  key ${team.api_key}  secret ${team.api_secret}`),
  ])
  const { base_url, teams } = environments[0]!
  const variables = `INTAKE_BASE_URL=${base_url} INTAKE_API_KEY=${teams[0]!.api_key} INTAKE_API_SECRET=${teams[0]!.api_secret}`
  return `${lines.join('\n')}\n\nTo use the first team, in another terminal:\n\nexport ${variables}\nintake-sync init\n\nCtrl-C ends it.\n`
}
