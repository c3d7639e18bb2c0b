/** `intake-sync patients`: the service's batch upload of patients. */
import { Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { parseDuration } from '../terminal/duration.ts'
import { type UploadOptions, uploadFile } from './upload.ts'

export function patientsCommand(context: Context): Command {
  const upload = new Command('upload')
    .description('upload a CSV file and follow it to the end; prints the rejected rows')
    .argument('<file>', 'a .csv file; its first line names the columns')
    .option('--team <name>', 'this team of the configuration')
    .addOption(
      new Option('--timeout <duration>', 'stop looking after so long; the upload itself goes on')
        .argParser(parseDuration)
        .default(1800, '30m'),
    )
    .option('--json', 'print one JSON document')
    .addHelpText('after', HELP)
    .action((file: string, options: UploadOptions) => uploadFile(context, file, options))
  return new Command('patients').description('upload many patients from a CSV file').addCommand(upload)
}

const HELP = `
Columns: first_name and last_name, and whatever else the service knows: email, phone_number, date_birth, provider,
emergency_first_name, emergency_last_name, emergency_phone_number, …

Exit codes: 0 every row was taken, 1 the service refused the file, 2 wrong usage, 4 rows were rejected, or the upload
could not be followed to its end; 130 and 143 interrupted, and the upload goes on at the service.`
