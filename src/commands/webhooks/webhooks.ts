/** `intake-sync webhooks`: the service's webhook configurations, and what became of their deliveries. */
import { Command, InvalidArgumentError, Option } from 'commander'
import type { Context } from '../context.ts'
import { wholeNumber } from '../terminal/whole-number.ts'
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
  const list = command('list', 'the configurations, and whether their secrets are held')
    .addHelpText('after', LIST_HELP)
    .action((options: object) => listWebhooks(context, options))
  const update = command('update', 'change a configuration: what is given, nothing else')
    .argument('<id>', 'of the configuration: see webhooks list', usableId)
    .option('--url <url>', 'where the service sends events')
    .addOption(eventsOption())
    .addOption(sourcesOption())
    .addOption(new Option('--active <flag>', 'whether events are sent').choices(['true', 'false']))
    .option('--replace', 'a full update: what is not given is set to what the service takes for it')
    .action((id: string, options: object) => updateWebhook(context, id, options))
  const remove = command('delete', 'delete a configuration, and retire its stored secret; does not ask')
    .argument('<id>', 'of the configuration: see webhooks list', usableId)
    .action((id: string, options: object) => deleteWebhook(context, id, options))
  const events = command('events', 'the newest attempts to deliver')
    .option('--limit <number>', 'so many', wholeNumber, 20)
    .action((options: EventsOptions) => listEvents(context, options))
  const test = command('test', 'have the service send a test event')
    .argument('<id>', 'of the configuration: see webhooks list', usableId)
    .action((id: string, options: object) => testWebhook(context, id, options))
  const group = new Command('webhooks').description('webhook configurations of the service, and deliveries')
  for (const each of [create, list, update, remove, events, test]) group.addCommand(each)
  return group
}

function command(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--team <name>', 'this team of the configuration')
    .option('--json', 'print one JSON document')
}

/** What no path can carry; the client would refuse it too. */
function usableId(text: string): string {
  if (text.trim() !== '' && !/^(?:\.|%2e){1,2}$/i.test(text)) return text
  throw new InvalidArgumentError('write the id as webhooks list shows it')
}

const CREATE_HELP = `
Without --events and --sources the service chooses. Needs INTAKE_ENCRYPTION_KEY (32 bytes in base64, as
openssl rand -base64 32 prints them) and a warehouse that is migrated: the service tells the secret once only, so it is
stored before anything is reported. If it cannot be stored, the configuration is deleted again.`

const LIST_HELP = `
Needs no database; without DATABASE_URL the column "secret" says unknown.`
