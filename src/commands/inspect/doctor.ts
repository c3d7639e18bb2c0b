/** `intake-sync doctor`: checks the installation and prints one line per check, with a hint where it failed. */
import { existsSync } from 'node:fs'
import { Command } from 'commander'
import pino from 'pino'
import { type Config, readConfig } from '../../config/config.ts'
import { systemClock } from '../../core/clock.ts'
import { UsageError } from '../../core/errors.ts'
import { type Check, type CheckStatus, failed, failedBy, ok } from '../../operate/doctor/check.ts'
import { type DoctorOptions, runChecks } from '../../operate/doctor/doctor.ts'
import { nodeCheck } from '../../operate/doctor/machine.ts'
import { type Context, ExitCode, type OpenWarehouse, openWarehouse, printJson } from '../context.ts'
import { type Color, colored, paragraph } from '../terminal.ts'

export function doctorCommand(context: Context): Command {
  return new Command('doctor')
    .description('check Node, database, service, webhooks and settings, and suggest fixes')
    .option('--json', 'print one JSON document')
    .addHelpText('after', '\nExit 1 if a check failed; warnings do not count. Changes nothing.')
    .action(async (options: { json?: true }) => {
      const checks = await allChecks(context)
      // `mend` is the former name of `hint`, for one release.
      if (options.json)
        printJson(context, { checks: checks.map((check) => ({ ...check, mend: check.hint })) })
      else context.stdout.write(checksText(context, checks))
      if (checks.some(({ status }) => status === 'failed')) throw new ExitCode(1)
    })
}

/** Every check, of the configuration that the command has. */
export async function allChecks(context: Context): Promise<readonly Check[]> {
  const node = nodeCheck(process.version, new Date().toISOString().slice(0, 10))
  let config: Config
  try {
    config = readConfig(context.env)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    return [node, failed('configuration', error.message, error.hint ?? 'correct it')]
  }
  const teams = config.ingestTeams.map(({ name }) => name).join(', ')
  const settings = ok('configuration', `readable; team ${teams}`)
  // Opening would create an embedded warehouse, and doctor changes nothing.
  if (config.databaseUrl === null && !existsSync(config.dataDir))
    return [node, settings, ...(await runChecks(optionsOf(context, config, null)))]
  let warehouse: OpenWarehouse
  try {
    warehouse = await openWarehouse(context, config)
  } catch (error) {
    return [
      node,
      settings,
      failedBy('database', error),
      ...(await runChecks(optionsOf(context, config, null))).slice(1),
    ]
  }
  try {
    return [node, settings, ...(await runChecks(optionsOf(context, config, warehouse.url)))]
  } finally {
    await warehouse[Symbol.asyncDispose]()
  }
}

export function optionsOf(context: Context, config: Config, url: string | null): DoctorOptions {
  const { webhookHost, webhookPort, adminHost, adminPort } = config
  return {
    url,
    dataDir: config.databaseUrl === null ? config.dataDir : null,
    ingestTeams: config.ingestTeams,
    teams: config.teams.map(
      ({ webhookSecrets: _secrets, pageSize: _size, bodyKeys: _keys, ...team }) => team,
    ),
    encryptionKey: config.encryptionKey,
    cron: config.cron,
    alerts: config.alerts,
    webhook: { name: 'webhook port', variable: 'INTAKE_WEBHOOK_PORT', host: webhookHost, port: webhookPort },
    admin: { name: 'admin port', variable: 'INTAKE_ADMIN_PORT', host: adminHost, port: adminPort },
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    signal: context.signal,
  }
}

const COLORS: Readonly<Record<CheckStatus, Color>> = { ok: 'green', warning: 'yellow', failed: 'red' }

export function checksText(context: Context, checks: readonly Check[]): string {
  const width = Math.max(...checks.map(({ name }) => name.length))
  const lines = checks.map(({ name, status, detail, hint }) => {
    const indent = 9 + width + 2
    const shownDetail = paragraph(context, detail, indent).trimStart()
    const shownHint = hint === null ? '' : paragraph(context, `hint: ${hint}`, indent)
    return `${colored(context, COLORS[status], status.padEnd(7))}  ${name.padEnd(width)}  ${shownDetail}${shownHint}`
  })
  const count = (status: CheckStatus) => checks.filter((check) => check.status === status).length
  const warnings = count('warning')
  const plural = warnings === 1 ? '' : 's'
  return `${lines.join('')}\n${count('ok')} ok, ${warnings} warning${plural}, ${count('failed')} failed\n`
}
