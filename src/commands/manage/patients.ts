/** `intake-sync patients`: the service's batch upload of patients. */
import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { Command, Option } from 'commander'
import type { Answer, Client, Meter } from '../../api/client.ts'
import { ApiError, ShapeError } from '../../api/errors.ts'
import { expandPath } from '../../api/paths.ts'
import { getPatientUpload, type UploadFile, uploadPatients } from '../../api/resources/patients.ts'
import { type Config, readConfig, type TeamConfig } from '../../config/config.ts'
import { deadlineIn, systemClock } from '../../core/clock.ts'
import { IntakeError, UsageError } from '../../core/errors.ts'
import { type Context, detailOf, ExitCode, oneTeam, openService, printJson } from '../context.ts'
import { parseDuration } from '../options.ts'
import { printable } from '../printable.ts'
import { openProgress } from '../run/progress.ts'
import {
  readColumns,
  type UploadState,
  uploadDocument,
  uploadOutcome,
  uploadState,
  uploadText,
} from './upload.ts'

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
    .option('--map <file>', 'a JSON object that renames columns: {"Given name": "first_name"}')
    .option('--json', 'print one JSON document')
    .addHelpText('after', HELP)
    .action((file: string, options: UploadOptions) => uploadFile(context, file, options))
  return new Command('patients').description('upload many patients from a CSV file').addCommand(upload)
}

const HELP = `
Columns: first_name and last_name, and any other field of a patient: email,
phone_number, date_birth, provider, emergency_first_name, emergency_last_name,
emergency_phone_number, …

Exit codes: 0 every row was accepted, 1 the service refused the file, 2 wrong
usage, 4 rows were rejected or the end of the upload is unknown, 130 and 143
interrupted while the upload continues at the service.`

/**
 * `intake-sync patients upload FILE.csv`: sends the file and waits until the service has processed it.
 *
 * Invariant: the file is sent once. However the wait ends (timeout, signal, unavailable progress), the output contains
 * the known state and the command that reads it again. Details of rows appear in the result only.
 */
export interface UploadOptions {
  readonly team?: string
  readonly map?: string
  /** Seconds. */
  readonly timeout: number
  readonly json?: true
}

const PAUSE_MS = 1_000

/** Node fires a longer timer at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Polls in a row that may miss: a new upload may not be visible at once. */
const MISSES = 3

export async function uploadFile(context: Context, path: string, options: UploadOptions): Promise<void> {
  const { bytes, missing, unknown } = readColumns(await bytesOf(path), options.map)
  if (unknown.length > 0 && !options.json)
    context.stdout.write(`columns that the service may not know: ${unknown.map(printable).join(', ')}\n`)
  if (missing.length > 0) {
    throw new UsageError(
      `FILE has no column ${missing.join(' and ')}, and ${unknown.length} that the service may not know`,
      'rename them in its first line, or with --map FILE.json; nothing was sent',
      'FILE',
      'definition_invalid',
    )
  }
  const file = { name: basename(path), bytes }
  const config = readConfig(context.env)
  const team = oneTeam(config, options.team)
  const { state, note } = await sendAndFollow(context, config, team, file, options)
  if (options.json) printJson(context, uploadDocument(state, note))
  else context.stdout.write(uploadText(state, note))
  if (context.signal.aborted) throw new ExitCode(context.signal.reason === 'SIGTERM' ? 143 : 130)
  const outcome = uploadOutcome(state)
  if (outcome === 'failed') context.stderr.write('error: the upload failed at the service\n')
  if (outcome !== 'taken') throw new ExitCode(outcome === 'failed' ? 1 : 4)
}

async function sendAndFollow(
  context: Context,
  config: Config,
  team: TeamConfig,
  file: UploadFile,
  options: UploadOptions,
): Promise<End> {
  using progress = openProgress(context, false)
  await using client = openService({ ...context, stderr: progress.stderr }, config, team)
  const first = await send(context, client, file, options)
  return await follow(context, client, first, options.timeout, ({ processed, rows }) => {
    if (processed !== null) progress.update(team.name, 'patients', { fetched: processed, expected: rows })
  })
}

async function bytesOf(path: string): Promise<Uint8Array> {
  if (!/\.csv$/i.test(path))
    throw new UsageError('FILE is not a .csv file', 'the service accepts CSV files only', 'FILE')
  try {
    return await readFile(path)
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    throw new UsageError(
      `FILE cannot be read (${code})`,
      'check the path and its permissions',
      'FILE',
      'file_unreadable',
    )
  }
}

async function send(
  context: Context,
  client: Client,
  file: UploadFile,
  options: UploadOptions,
): Promise<UploadState> {
  const meter: Meter = { requests: 0, throttled: 0 }
  let refusal: Answer | undefined
  const onRefusal = (answer: Answer) => {
    refusal = answer
  }
  try {
    return uploadState((await uploadPatients(client, file, { meter, onRefusal })).raw)
  } catch (error) {
    if (context.signal.aborted && meter.requests > meter.throttled) {
      context.stderr.write('interrupted: whether the service accepted the file is not known\n')
    }
    if (refusal === undefined || !(error instanceof ApiError) || error.code !== 'refused') throw error
    const { code, message } = error
    const detail = detailOf(refusal)
    context.stderr.write(`error: ${message}\n  hint: correct the file, then upload it again\n`)
    if (options.json) printJson(context, { error: { code, message, detail } })
    else if (detail !== null) context.stdout.write(`refused: ${detail}\n`)
    throw new ExitCode(1)
  }
}

interface End {
  readonly state: UploadState
  /** Why the end is unknown, and how to read the state again; null if the upload has ended. */
  readonly note: string | null
}

async function follow(
  context: Context,
  client: Client,
  first: UploadState,
  timeout: number,
  onState: (state: UploadState) => void,
): Promise<End> {
  let state = first
  onState(state)
  if (state.ended) return { state, note: null }
  const { id } = first
  if (id === null) {
    return { state, note: 'the service accepted the file but returned no id: its progress is unknown' }
  }
  const again = `to see its state: intake-sync api GET ${expandPath(client.paths.patientUpload, { id })}`
  using deadline = deadlineIn(Math.min(timeout * 1000, MAX_TIMER_MS), [context.signal])
  const { signal } = deadline
  try {
    for (let misses = 0; misses < MISSES; ) {
      await systemClock.sleep(PAUSE_MS, signal)
      const next = await look(client, id, signal)
      if (next === null) {
        misses += 1
        continue
      }
      misses = 0
      state = { ...next, id }
      onState(state)
      if (state.ended) return { state, note: null }
    }
    return { state, note: `the service accepted the file but does not report its progress; ${again}` }
  } catch (error) {
    if (context.signal.aborted)
      return { state, note: `interrupted; the upload continues at the service; ${again}` }
    if (deadline.isOver()) return { state, note: `the upload continues at the service; ${again}` }
    if (!(error instanceof IntakeError)) throw error
    const { message, code, verdict } = error
    throw new IntakeError(`the service accepted the file as upload ${id}, but then: ${message}`, {
      code,
      verdict,
      hint: again,
    })
  }
}

/** Null if the service does not know the upload or returns no record of it. */
async function look(client: Client, id: string, signal: AbortSignal): Promise<UploadState | null> {
  try {
    return uploadState((await getPatientUpload(client, id, { signal })).raw)
  } catch (error) {
    if ((error instanceof ApiError && error.verdict === 'gone') || error instanceof ShapeError) return null
    throw error
  }
}
