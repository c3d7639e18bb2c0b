/**
 * The command line without its process: arguments → a command → an exit code.
 *
 * Invariant: exit codes follow the contract: 0 done, 1 failed, 2 wrong usage or configuration, 3 another run has the
 * lock, 4 needs attention, 130 and 143 interrupted. All output, including help and errors, goes to the context.
 */
import { Command, CommanderError } from 'commander'
import { readEnvFile, withEnvFile } from '../config/settings.ts'
import type { ErrorCode } from '../core/error-codes.ts'
import { IntakeError, UsageError } from '../core/errors.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import { type Context, ExitCode } from './context.ts'
import { paragraph, reflowed, widthOf } from './terminal.ts'

/** In the order of the help. */
const COMMANDS: Readonly<Record<string, (context: Context) => Promise<Command>>> = {
  init: async (context) => (await import('./init/init.ts')).initCommand(context),
  migrate: async (context) => (await import('./manage/migrate.ts')).migrateCommand(context),
  backfill: async (context) => (await import('./run/backfill.ts')).backfillCommand(context),
  serve: async (context) => (await import('./run/serve.ts')).serveCommand(context),
  work: async (context) => (await import('./run/serve.ts')).workCommand(context),
  console: async (context) => (await import('./run/console.ts')).consoleCommand(context),
  status: async (context) => (await import('./inspect/status.ts')).statusCommand(context),
  psql: async (context) => (await import('./inspect/psql.ts')).psqlCommand(context),
  wait: async (context) => (await import('./inspect/wait.ts')).waitCommand(context),
  verify: async (context) => (await import('./inspect/verify.ts')).verifyCommand(context),
  replay: async (context) => (await import('./run/replay.ts')).replayCommand(context),
  webhooks: async (context) => (await import('./webhooks/webhooks.ts')).webhooksCommand(context),
  patients: async (context) => (await import('./manage/patients.ts')).patientsCommand(context),
  api: async (context) => (await import('./manage/api.ts')).apiCommand(context),
  classify: async (context) => (await import('./manage/classify.ts')).classifyCommand(context),
  export: async (context) => (await import('./analysts/export.ts')).exportCommand(context),
  dbt: async (context) => (await import('./analysts/dbt.ts')).dbtCommand(context),
  instruments: async (context) => (await import('./analysts/instruments.ts')).instrumentsCommand(context),
  access: async (context) => (await import('./analysts/access.ts')).accessCommand(context),
  privacy: async (context) => (await import('./analysts/privacy.ts')).privacyCommand(context),
  teams: async (context) => (await import('./manage/teams.ts')).teamsCommand(context),
  runs: async (context) => (await import('./inspect/runs.ts')).runsCommand(context),
  explain: async (context) => (await import('./inspect/explain.ts')).explainCommand(context),
  'dead-letters': async (context) => (await import('./manage/dead-letters.ts')).deadLettersCommand(context),
  erase: async (context) => (await import('./manage/erase.ts')).eraseCommand(context),
  receipt: async (context) => (await import('./manage/receipt.ts')).receiptCommand(context),
  config: async (context) => (await import('./manage/config.ts')).configCommand(context),
  doctor: async (context) => (await import('./inspect/doctor.ts')).doctorCommand(context),
  completion: async (context) =>
    (await import('./manage/completion.ts')).completionCommand(context, () => everyCommand(context)),
  emulator: async (context) => (await import('./run/emulator.ts')).emulatorCommand(context),
  demo: async (context) => (await import('./demo/demo.ts')).demoCommand(context),
}

export function everyCommand(context: Context): Promise<readonly Command[]> {
  return Promise.all(Object.values(COMMANDS).map((open) => open(context)))
}

/** The width of help text without a terminal. */
const PLAIN_WIDTH = 80

/**
 * Runs the command in `words`, the arguments without the name of the program. Never throws a command's error. The
 * settings file is looked for in `folder`; without one, there is none.
 */
export async function runProgram(
  words: readonly string[],
  surroundings: Context,
  folder?: string,
): Promise<number> {
  const { env } = surroundings
  let context = surroundings
  try {
    const envFile = folder === undefined ? null : readEnvFile(env, folder)
    context = { ...surroundings, env: withEnvFile(env, envFile), envFile }
  } catch (error) {
    return exitCodeFor(error, words, new Command(), surroundings)
  }
  return await runWords(words, context)
}

async function runWords(words: readonly string[], context: Context): Promise<number> {
  const program = new Command('intake-sync')
    .description('Keeps a Postgres warehouse equal to a hosted Intake Forms Service.')
    .version(context.version)
  // Loading only the named command keeps the start fast; help needs all of them.
  const named = words[0] !== undefined && Object.hasOwn(COMMANDS, words[0]) ? COMMANDS[words[0]] : undefined
  const wanted = named === undefined ? Object.values(COMMANDS) : [named]
  for (const open of wanted) program.addCommand(await open(context))
  for (const command of withNested(program)) {
    command
      .exitOverride()
      .showHelpAfterError('(add --help for usage)')
      .configureHelp({ minWidthToWrap: 20 })
      .configureOutput({
        writeOut: (text) => void context.stdout.write(reflowed(context, text)),
        writeErr: (text) => void context.stderr.write(reflowed({ stdout: context.stderr }, text)),
        getOutHelpWidth: () => widthOf(context) ?? PLAIN_WIDTH,
        getErrHelpWidth: () => widthOf({ stdout: context.stderr }) ?? PLAIN_WIDTH,
      })
  }
  try {
    await program.parseAsync(words, { from: 'user' })
    return 0
  } catch (error) {
    return exitCodeFor(error, words, program, context)
  }
}

/** Commander does not pass settings down to subcommands added with `addCommand`. */
function withNested(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(withNested)]
}

function exitCodeFor(
  error: unknown,
  words: readonly string[],
  program: Command,
  { signal, stdout, stderr }: Context,
): number {
  if (error instanceof ExitCode) return error.exitCode
  if (error instanceof CommanderError) {
    if (error.exitCode === 0) return 0
    // Commander has already written its text to stderr.
    const message = missingCommand(program, words) ?? error.message.replace(/^error: /, '')
    printCode({ stdout: stderr }, 'usage')
    if (words.includes('--json')) printError(stdout, 'usage', message, 'add --help for usage')
    return 2
  }
  if (signal.aborted && error === signal.reason) return error === 'SIGTERM' ? 143 : 130
  const failure = error instanceof IntakeError ? error : warehouseError(error)
  const shown = { stdout: stderr }
  stderr.write(paragraph(shown, `error: ${failure.message}`, 0))
  if (failure.hint !== undefined) stderr.write(paragraph(shown, `hint: ${failure.hint}`, 2))
  printCode(shown, failure.code)
  if (words.includes('--json')) printError(stdout, failure.code, failure.message, failure.hint ?? null)
  if (failure instanceof UsageError) return 2
  return failure.code === 'held_by_another_run' ? 3 : 1
}

/** The error message if the program or a group was called without a command; else null. */
function missingCommand(program: Command, words: readonly string[]): string | null {
  const given = words.filter((word) => word !== '--json')
  const group = given.length === 0 ? program : program.commands.find((command) => command.name() === given[0])
  if (group === undefined || group.commands.length === 0 || given.length > 1) return null
  const names = group.commands.map((command) => command.name()).filter((name) => name !== 'help')
  return `${group.name()} needs a command: ${names.join(', ')}`
}

/** Where the explanations of codes are: in the checkout, and in the installed package. */
const ERRORS = new URL('../../docs/errors.md', import.meta.url)

/** On a terminal a link to the file, which most terminals open with a click. */
function printCode({ stdout }: Pick<Context, 'stdout'>, code: ErrorCode): void {
  const place = `docs/errors.md#${code}`
  const link = stdout.isTTY === true ? `\u001b]8;;${ERRORS}#${code}\u001b\\${place}\u001b]8;;\u001b\\` : place
  stdout.write(`code: ${code}, see ${link}\n`)
}

/** `mend` is the former name of `hint`, for one release. */
function printError(stdout: Context['stdout'], code: ErrorCode, message: string, hint: string | null): void {
  const error = { code, message, hint, mend: hint, docs: `${ERRORS}#${code}` }
  stdout.write(`${JSON.stringify({ error }, null, 2)}\n`)
}
