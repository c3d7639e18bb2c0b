/**
 * The command line without its process: words → a command → an exit code.
 *
 * Invariant: exit codes are those of the contract: 0 done, 1 failed, 2 wrong usage or configuration, 3 held by
 * another run, 4 needs a person, 130 and 143 interrupted. Whatever is said, help and errors too, goes to the context.
 */
import { Command, CommanderError } from 'commander'
import { IntakeError, UsageError } from '../core/errors.ts'
import { warehouseError } from '../warehouse/sqlstate.ts'
import { type Context, ExitCode } from './context.ts'
import { paragraph, refilled, widthOf } from './terminal/terminal.ts'

/** In the order of the help. */
const COMMANDS: Readonly<Record<string, (context: Context) => Promise<Command>>> = {
  migrate: async (context) => (await import('./manage/migrate.ts')).migrateCommand(context),
  backfill: async (context) => (await import('./backfill/backfill.ts')).backfillCommand(context),
  serve: async (context) => (await import('./serve/serve.ts')).serveCommand(context),
  status: async (context) => (await import('./inspect/status.ts')).statusCommand(context),
  verify: async (context) => (await import('./reconcile/verify.ts')).verifyCommand(context),
  replay: async (context) => (await import('./reconcile/replay.ts')).replayCommand(context),
  webhooks: async (context) => (await import('./webhooks/webhooks.ts')).webhooksCommand(context),
  patients: async (context) => (await import('./patients/patients.ts')).patientsCommand(context),
  api: async (context) => (await import('./manage/api.ts')).apiCommand(context),
  classify: async (context) => (await import('./manage/classify.ts')).classifyCommand(context),
  access: async (context) => (await import('./manage/access.ts')).accessCommand(context),
  teams: async (context) => (await import('./manage/teams.ts')).teamsCommand(context),
  runs: async (context) => (await import('./inspect/runs.ts')).runsCommand(context),
  explain: async (context) => (await import('./inspect/explain.ts')).explainCommand(context),
  'dead-letters': async (context) => (await import('./manage/dead-letters.ts')).deadLettersCommand(context),
  erase: async (context) => (await import('./manage/erase.ts')).eraseCommand(context),
  doctor: async (context) => (await import('./inspect/doctor.ts')).doctorCommand(context),
  emulator: async (context) => (await import('./serve/emulator.ts')).emulatorCommand(context),
  demo: async (context) => (await import('./demo/demo.ts')).demoCommand(context),
}

/** Of help that no terminal shows. */
const PLAIN_WIDTH = 80

/** Runs what `words` say, the name of the program not among them. Never throws what a command throws. */
export async function runProgram(words: readonly string[], context: Context): Promise<number> {
  const program = new Command('intake-sync')
    .description('Keeps a Postgres warehouse equal to a hosted Intake Forms Service.')
    .version(context.version)
  // One command is loaded, and not what only the others need; for the help, all of them.
  const named = words[0] !== undefined && Object.hasOwn(COMMANDS, words[0]) ? COMMANDS[words[0]] : undefined
  const wanted = named === undefined ? Object.values(COMMANDS) : [named]
  for (const open of wanted) program.addCommand(await open(context))
  for (const command of withNested(program)) {
    command
      .exitOverride()
      .showHelpAfterError('(--help shows what there is)')
      .configureHelp({ minWidthToWrap: 20 })
      .configureOutput({
        writeOut: (text) => void context.stdout.write(refilled(context, text)),
        writeErr: (text) => void context.stderr.write(refilled({ stdout: context.stderr }, text)),
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

/** Settings are not handed down to commands that were made elsewhere. */
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
    // Its text is on stderr already.
    const message = nothingAsked(program, words) ?? error.message.replace(/^error: /, '')
    if (words.includes('--json')) printError(stdout, 'usage', message, '--help shows what there is')
    return 2
  }
  if (signal.aborted && error === signal.reason) return error === 'SIGTERM' ? 143 : 130
  const failure = error instanceof IntakeError ? error : warehouseError(error)
  const shown = { stdout: stderr }
  stderr.write(paragraph(shown, `error: ${failure.message}`, 0))
  if (failure.hint !== undefined) stderr.write(paragraph(shown, `hint: ${failure.hint}`, 2))
  if (words.includes('--json')) printError(stdout, failure.code, failure.message, failure.hint ?? null)
  if (failure instanceof UsageError) return 2
  return failure.code === 'held_by_another_run' ? 3 : 1
}

/** What to name where the program, or one of its groups, was named without any of its commands; else null. */
function nothingAsked(program: Command, words: readonly string[]): string | null {
  const asked = words.filter((word) => word !== '--json')
  const group = asked.length === 0 ? program : program.commands.find((command) => command.name() === asked[0])
  if (group === undefined || group.commands.length === 0 || asked.length > 1) return null
  const names = group.commands.map((command) => command.name()).filter((name) => name !== 'help')
  return `${group.name()} is not a command by itself: name one of ${names.join(', ')}`
}

/** `mend` is the former name of `hint`, for one release. */
function printError(stdout: Context['stdout'], code: string, message: string, hint: string | null): void {
  stdout.write(`${JSON.stringify({ error: { code, message, hint, mend: hint } }, null, 2)}\n`)
}
