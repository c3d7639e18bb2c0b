/** `intake-sync patients`: the service's batch upload of patients. */
import { Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { parseDuration } from '../terminal/duration.ts'
import { type UploadOptions, uploadFile } from './upload.ts'

export function patientsCommand(context: Context): Command {
  const upload = new Command('upload')
    .description('upload a CSV file, wait for the end, and print the rejected rows')
    .argument('<file>', 'a .csv file; its first line names the columns')
    .option('--team <name>', 'the team of the configuration to use')
    .addOption(
      new Option('--timeout <duration>', 'stop waiting after this time; the upload continues at the service')
        .argParser(parseDuration)
        .default(1800, '30m'),
    )
    .option('--json', 'print one JSON document')
    .addHelpText('after', HELP)
    .action((file: string, options: UploadOptions) => uploadFile(context, file, options))
  return new Command('patients').description('upload many patients from a CSV file').addCommand(upload)
}

const HELP = `
Columns: first_name and last_name, and any other field of a patient: email, phone_number, date_birth, provider,
emergency_first_name, emergency_last_name, emergency_phone_number, …

Exit codes: 0 every row was accepted, 1 the service refused the file, 2 wrong usage, 4 rows were rejected or the end of
the upload is unknown, 130 and 143 interrupted while the upload continues at the service.`
