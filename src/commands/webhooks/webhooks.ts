/** `intake-sync webhooks`: the service's webhook configurations and their deliveries. */
import { Command, InvalidArgumentError, Option } from 'commander'
import type { Context } from '../context.ts'
import { wholeNumber } from '../terminal/options.ts'
import { deleteWebhook, testWebhook, updateWebhook } from './change.ts'
import { type CreateOptions, createWebhook } from './create.ts'
import { eventsOption, sourcesOption } from './fields.ts'
import { type EventsOptions, listEvents, listWebhooks } from './list.ts'

export function webhooksCommand(context: Context): Command {
  const create = command('create', 'create a configuration; its secret is stored, and shown once')
    .requiredOption('--url <url>', 'where the service sends events: https://host/webhooks')
    .addOption(eventsOption())
    .addOption(sourcesOption())
    .addHelpText('after', CREATE_HELP)
    .action((options: CreateOptions) => createWebhook(context, options))
  const list = command('list', 'the configurations, and whether their secrets are stored')
    .addHelpText('after', LIST_HELP)
    .action((options: object) => listWebhooks(context, options))
  const update = command('update', 'change the given fields of a configuration')
    .argument('<id>', 'id of the configuration: see webhooks list', usableId)
    .option('--url <url>', 'where the service sends events')
    .addOption(eventsOption())
    .addOption(sourcesOption())
    .addOption(new Option('--active <flag>', 'whether events are sent').choices(['true', 'false']))
    .option('--replace', 'a full update: the service sets the other fields to its defaults')
    .action((id: string, options: object) => updateWebhook(context, id, options))
  const remove = command(
    'delete',
    'delete a configuration without confirmation, and retire its stored secret',
  )
    .argument('<id>', 'id of the configuration: see webhooks list', usableId)
    .action((id: string, options: object) => deleteWebhook(context, id, options))
  const events = command('events', 'the newest delivery attempts')
    .option('--limit <number>', 'number of attempts', wholeNumber, 20)
    .action((options: EventsOptions) => listEvents(context, options))
  const test = command('test', 'have the service send a test event')
    .argument('<id>', 'id of the configuration: see webhooks list', usableId)
    .action((id: string, options: object) => testWebhook(context, id, options))
  const group = new Command('webhooks').description('webhook configurations of the service, and deliveries')
  for (const each of [create, list, update, remove, events, test]) group.addCommand(each)
  return group
}

function command(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--team <name>', 'the team of the configuration to use')
    .option('--json', 'print one JSON document')
}

/** Rejects ids that cannot be part of a path. */
function usableId(text: string): string {
  if (text.trim() !== '' && !/^(?:\.|%2e){1,2}$/i.test(text)) return text
  throw new InvalidArgumentError('Use an id that webhooks list shows.')
}

const CREATE_HELP = `
Without --events and --sources, the service uses its defaults. Needs
INTAKE_ENCRYPTION_KEY (32 bytes in base64, as printed by openssl rand -base64
32) and a migrated warehouse: the service returns the secret only once, so it
is stored before success is reported. If it cannot be stored, the configuration
is deleted again.`

const LIST_HELP = `
Needs no database; without DATABASE_URL the column "secret" says unknown.`
