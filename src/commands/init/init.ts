/**
 * `intake-sync init`: asks for what is missing, tries it, writes the settings file and prepares the warehouse.
 *
 * Invariant: nothing is written before the service and the warehouse were seen to work. Off a terminal it asks nothing.
 * Run again, it changes only what differs, and shows it. No secret is shown.
 */
import { resolve } from 'node:path'
import { Command, Option } from 'commander'
import { CONFIG_FILE, ENV_FILE, SETTINGS } from '../../config/settings.ts'
import { UsageError } from '../../core/errors.ts'
import { type Context, ExitCode, printJson } from '../context.ts'
import { allChecks } from '../inspect/doctor.ts'
import { ensureWebhook } from '../webhooks/create.ts'
import { DEPLOYMENTS, type Deployment, deployText } from './deploy.ts'
import type { Questions, Terminal } from './init-text.ts'
import { generatedKey, type InitResult, openQuestions, resultText } from './init-text.ts'
import { firstFailure, prepareWarehouse, probed, refused } from './probe.ts'
import {
  configWith,
  differences,
  merged,
  readSettingsFile,
  variablesWith,
  writeSettingsFile,
} from './settings-file.ts'
import type { Settings } from './settings-json.ts'

export interface InitOptions {
  readonly baseUrl?: string
  readonly apiKey?: string
  readonly apiSecret?: string
  readonly team?: string
  readonly database?: string
  readonly timezone?: string
  readonly rateLimit?: string
  readonly webhookUrl?: string
  readonly deploy?: Deployment
  readonly file?: string
  readonly json?: true
}

/** What each flag sets. */
const FLAGS = {
  baseUrl: 'INTAKE_BASE_URL',
  apiKey: 'INTAKE_API_KEY',
  apiSecret: 'INTAKE_API_SECRET',
  team: 'INTAKE_TEAM',
  timezone: 'INTAKE_TIMEZONE',
  rateLimit: 'INTAKE_RATE_LIMIT',
} as const satisfies Partial<Record<keyof InitOptions, string>>

export function initCommand(context: Context, terminal?: Terminal): Command {
  return new Command('init')
    .description('set up: try the service and the warehouse, write the settings, prepare the tables')
    .option('--base-url <url>', 'the service')
    .option('--api-key <key>', 'its key; better in INTAKE_API_KEY or INTAKE_API_KEY_FILE')
    .option('--api-secret <secret>', 'its secret; better in INTAKE_API_SECRET or INTAKE_API_SECRET_FILE')
    .option('--team <name>', 'a name for the team')
    .option('--database <url>', 'the warehouse: postgres://…, or embedded')
    .option('--timezone <zone>', 'the zone of the times in exports')
    .option('--rate-limit <limit>', 'permitted requests: 20/s, 1000/min, or learned')
    .option('--webhook-url <url>', 'create a webhook to this address of serve, and store its secret')
    .addOption(
      new Option('--deploy <kind>', 'print how to run it from now on').choices(Object.keys(DEPLOYMENTS)),
    )
    .option('--file <path>', `the settings file (${ENV_FILE}); JSON if it ends in .json`)
    .option('--json', 'print one JSON document; asks nothing')
    .addHelpText('after', HELP)
    .action((options: InitOptions) => run(context, options, terminal))
}

const HELP = `
Settings of the environment and of the file count as answers; flags count more.
On a terminal it asks for what is missing, elsewhere it ends with exit code 2.
Flags are seen by other users of the machine: give secrets in the environment.

The file is readable only for its owner. Commands read ${ENV_FILE} or
${CONFIG_FILE} in the working directory, or the file that INTAKE_ENV_FILE
names. Editors check a JSON file by the schema that is written next to it.`

async function run(context: Context, options: InitOptions, terminal?: Terminal): Promise<void> {
  const path = resolve(options.file ?? context.envFile?.path ?? ENV_FILE)
  const before = readSettingsFile(path)
  await using questions = options.json ? null : await openQuestions(context, terminal)
  const given = givenSettings(context, options, before, path)
  const { settings, asked, probe } = await untilAccepted(context, given, questions, before, path)
  const webhookUrl = options.webhookUrl ?? asked.webhookUrl
  const complete = withOwnKeys(settings, context)
  const bare = withoutSettings(context)
  const config = configWith(path, complete, bare)
  const own: Context = { ...context, env: { ...bare, ...variablesWith(path, complete, bare) } }
  const notes = await prepareWarehouse(own, config)
  const changed = differences(before, complete)
  writeSettingsFile(path, changed)
  const webhook = webhookUrl === undefined ? null : await ensureWebhook(own, config, webhookUrl)
  const checks = await allChecks(own)
  const result: InitResult = { path, changed, probe, webhook, notes, checks }
  const deploy = options.deploy ?? asked.deploy
  if (options.json) printJson(context, documentOf(result))
  else context.stdout.write(resultText(context, result, deploy === undefined ? '' : deployText(deploy, path)))
  if (checks.some(({ status }) => status === 'failed')) throw new ExitCode(1)
}

/** The settings of the file, over them those of the environment, over them the flags. */
function givenSettings(
  { env, envFile }: Context,
  options: InitOptions,
  before: Settings,
  path: string,
): Settings {
  // What the file itself sets is in `before`, as it is written.
  const isOwn = (name: string) =>
    (envFile?.path === path && envFile.values[name] === env[name]) ||
    (name === 'INTAKE_CONFIG' && env[name] && resolve(env[name]) === path)
  const set = NAMES.flatMap((name) => (env[name] && !isOwn(name) ? [[name, env[name]] as const] : []))
  const flags = Object.entries(FLAGS).flatMap(([flag, name]) => {
    const value = options[flag as keyof typeof FLAGS]
    return value === undefined ? [] : [[name, value] as const]
  })
  const own = merged(merged(before, Object.fromEntries(set)), Object.fromEntries(flags))
  if (options.database === undefined) return own
  const { DATABASE_URL: _, DATABASE_URL_FILE: __, ...rest } = own
  return options.database === 'embedded' ? rest : { ...rest, DATABASE_URL: options.database }
}

interface Asked {
  readonly webhookUrl?: string
  readonly deploy?: Deployment
}

/** Asks for what is missing, and for the credentials again while the service does not accept them. */
async function untilAccepted(
  context: Context,
  given: Settings,
  questions: Questions | null,
  before: Settings,
  path: string,
): Promise<{ settings: Settings; asked: Asked; probe: InitResult['probe'] }> {
  let settings = given
  const isFirst = Object.keys(before).length === 0
  if (questions !== null) settings = merged(settings, await questions.missing(settings, isFirst))
  for (;;) {
    const config = configWith(path, settings, withoutSettings(context))
    if (config.teams.length === 0) throw incomplete()
    const failure = await firstFailure(context, config)
    if (failure === null) {
      const probe = await probed(context, config)
      return { settings, asked: questions === null || !isFirst ? {} : await questions.further(), probe }
    }
    const again = questions === null ? null : await questions.again(failure)
    if (again === null) throw refused(failure)
    settings = merged(settings, again)
  }
}

const NAMES = Object.keys(SETTINGS).flatMap((name) => [name, `${name}_FILE`])

/** The environment without the settings that `init` replaces by its own. */
function withoutSettings({ env }: Context): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !NAMES.includes(name)))
}

function incomplete(): UsageError {
  return new UsageError(
    'the service is not known: its address, key and secret are needed',
    'give --base-url, and INTAKE_API_KEY and INTAKE_API_SECRET in the environment; intake-sync emulator prints a set to try with',
    '--base-url',
    'setting_missing',
  )
}

/** A key for the secrets of webhooks, and the absolute path of the embedded warehouse, unless the settings refer to one. */
function withOwnKeys(settings: Settings, { env }: Context): Settings {
  const isSet = (name: string) => (settings[name] ?? settings[`${name}_FILE`] ?? '') !== ''
  const key = isSet('INTAKE_ENCRYPTION_KEY') ? {} : { INTAKE_ENCRYPTION_KEY: generatedKey() }
  if (isSet('DATABASE_URL')) return { ...settings, ...key }
  const place = settings.INTAKE_DATA_DIR ?? env.INTAKE_DATA_DIR ?? '.intake-sync'
  // The name of a file that contains it, or of a variable, stays.
  if (isSet('INTAKE_DATA_DIR_FILE') || place.startsWith('env:')) return { ...settings, ...key }
  return { ...settings, ...key, INTAKE_DATA_DIR: resolve(place) }
}

function documentOf({ path, changed, probe, webhook, notes, checks }: InitResult): unknown {
  return {
    settings_file: path,
    changed: changed.map(({ name }) => name),
    teams: probe,
    webhook,
    notes,
    checks,
  }
}
