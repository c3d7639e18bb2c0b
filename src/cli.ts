#!/usr/bin/env -S node --max-semi-space-size=32
/**
 * The command line: commands → functions. The only place that reads the environment and ends the process.
 *
 * Invariant: exit codes are those of the contract: 0 done, 1 failed, 2 wrong usage or configuration, 3 held by
 * another run, 4 needs a person, 130 and 143 interrupted.
 *
 * The first line widens the young generation of the heap: a page's records live just long enough to be copied twice
 * in the default one, which costs a quarter of a run's time (docs/benchmarks.md).
 */
import { readFileSync } from 'node:fs'
import { Command, CommanderError } from 'commander'
import { type Context, ExitCode } from './commands/context.ts'
import { IntakeError, UsageError } from './core/errors.ts'
import { warehouseError } from './warehouse/sqlstate.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string
}

const stop = new AbortController()

/** One Ctrl-C comes twice where npm passes on what the terminal sent already. */
const ECHO_MS = 500
let stoppedAt = 0

for (const name of ['SIGINT', 'SIGTERM'] as const) {
  process.on(name, () => {
    // A second signal means now.
    if (stop.signal.aborted && performance.now() - stoppedAt > ECHO_MS) {
      process.exit(name === 'SIGTERM' ? 143 : 130)
    }
    if (stop.signal.aborted) return
    stoppedAt = performance.now()
    stop.abort(name)
  })
}

// A reader of our output that goes away (`| head`) does not stop a run.
for (const output of [process.stdout, process.stderr]) {
  output.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
}

const context: Context = {
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  signal: stop.signal,
  version,
}

/** In the order of the help. */
const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  migrate: async () => (await import('./commands/migrate.ts')).migrateCommand(context),
  backfill: async () => (await import('./commands/backfill.ts')).backfillCommand(context),
  status: async () => (await import('./commands/status.ts')).statusCommand(context),
  webhooks: async () => (await import('./commands/webhooks.ts')).webhooksCommand(context),
  patients: async () => (await import('./commands/patients.ts')).patientsCommand(context),
  api: async () => (await import('./commands/api.ts')).apiCommand(context),
  emulator: async () => (await import('./commands/emulator.ts')).emulatorCommand(),
  demo: async () => (await import('./commands/demo.ts')).demoCommand(context),
}

process.exitCode = await main(process.argv)

async function main(argv: readonly string[]): Promise<number> {
  const program = new Command('intake-sync')
    .description('Keeps a Postgres warehouse equal to a hosted Intake Forms Service.')
    .version(version)
  // One command is loaded, and not what only the others need; for the help, all of them.
  const named = argv[2] !== undefined && Object.hasOwn(COMMANDS, argv[2]) ? COMMANDS[argv[2]] : undefined
  const wanted = named === undefined ? Object.values(COMMANDS) : [named]
  for (const open of wanted) program.addCommand(await open())
  for (const command of withNested(program)) {
    command.exitOverride().showHelpAfterError('(--help shows what there is)')
  }
  try {
    await program.parseAsync(argv)
    return 0
  } catch (error) {
    return exitCodeFor(error)
  }
}

/** Settings are not handed down to commands that were made elsewhere. */
function withNested(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(withNested)]
}

function exitCodeFor(error: unknown): number {
  if (error instanceof ExitCode) return error.exitCode
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  if (stop.signal.aborted && error === stop.signal.reason) return error === 'SIGTERM' ? 143 : 130
  const failure = error instanceof IntakeError ? error : warehouseError(error)
  process.stderr.write(
    `error: ${failure.message}\n${failure.mend === undefined ? '' : `  mend: ${failure.mend}\n`}`,
  )
  if (process.argv.includes('--json')) {
    const { code, message, mend = null } = failure
    process.stdout.write(`${JSON.stringify({ error: { code, message, mend } }, null, 2)}\n`)
  }
  if (failure instanceof UsageError) return 2
  return failure.code === 'held_by_another_run' ? 3 : 1
}
