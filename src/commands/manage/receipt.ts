/** The files of receipts, and `intake-sync receipt`, which checks them. */
import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Command } from 'commander'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { withoutMark } from '../../config/settings.ts'
import { UsageError } from '../../core/errors.ts'
import { hashesOf } from '../../load/erasures.ts'
import { type Checked, checkReceipt, type Receipt, receiptKey, signReceipt } from '../../operate/receipts.ts'
import { PERSONS } from '../../streams/catalogue.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { readTeams } from '../../warehouse/teams.ts'
import { type Context, ExitCode, openWarehouse, printJson } from '../context.ts'
import { printable } from '../printable.ts'
import { paragraph } from '../terminal.ts'

/** A file for a receipt that does not exist yet: created at once, so that a wrong path stops a command before it begins. */
export interface ReceiptFile extends Disposable {
  /** Signs what `read` returns, and writes it. */
  write(url: string, version: string, read: (session: Session) => Promise<Receipt>): Promise<void>
}

/** Null without a path. Disposing of it removes a file that nothing was written to. Throws `UsageError`. */
export function openReceipt(path: string | undefined): ReceiptFile | null {
  if (path === undefined) return null
  try {
    closeSync(openSync(path, 'wx', 0o600))
  } catch (error) {
    const exists = (error as NodeJS.ErrnoException).code === 'EEXIST'
    const message = exists
      ? 'the file of --receipt exists already'
      : 'the file of --receipt cannot be written'
    throw new UsageError(
      message,
      'name a new file in a folder that you may write to',
      '--receipt',
      'file_unreadable',
    )
  }
  let written = false
  return {
    async write(url, version, read) {
      await using session = await openSession({ url, purpose: 'receipt' })
      writeFileSync(path, await signReceipt(session.db, version, await read(session)))
      written = true
    },
    [Symbol.dispose]() {
      if (!written) rmSync(path, { force: true })
    },
  }
}

interface Options {
  readonly key?: string
  readonly patient?: string
  readonly json?: true
}

export function receiptCommand(context: Context): Command {
  const group = new Command('receipt')
    .description('check signed receipts of erasures and verifications')
    .addHelpText('after', HELP)
  group
    .command('check')
    .description('check that a receipt is unchanged and was signed by this warehouse')
    .argument('<file>', 'the receipt')
    .option('--key <base64>', 'the public key of the warehouse, to check without it: see receipt key')
    .option('--patient <id>', 'also check that it is the erasure of this patient')
    .option('--json', 'print one JSON document')
    .action((file: string, options: Options) => check(context, file, options))
  group
    .command('key')
    .description('print the public key with which receipts of this warehouse are checked')
    .action(async () => {
      const key = await withWarehouse(context, ({ db }) => receiptKey(db))
      context.stdout.write(`${key}\n`)
    })
  return group
}

async function check(context: Context, file: string, options: Options): Promise<void> {
  const { key, patient, json } = options
  if (key !== undefined && patient !== undefined) {
    throw new UsageError(
      '--patient needs the warehouse, whose key hashes ids',
      'leave out --key',
      '--patient',
    )
  }
  const text = readText(file)
  const checked =
    key === undefined
      ? await withWarehouse(context, async (session) => {
          const signed = checkReceipt(text, await receiptKey(session.db))
          return patient === undefined ? signed : await ofPatient(session, signed, patient)
        })
      : checkReceipt(text, key)
  if (json) printJson(context, checked)
  else context.stdout.write(paragraph(context, textOf(checked), 0))
  if (!checked.valid) throw new ExitCode(1)
}

function textOf(checked: Checked): string {
  if (!checked.valid) return `not valid: ${checked.reason}`
  const { kind, issued_at, version } = checked.receipt
  return `valid: ${[kind, 'of', issued_at, 'by intake-sync', version].map((word) => printable(String(word))).join(' ')}`
}

async function ofPatient(session: Session, checked: Checked, id: string): Promise<Checked> {
  if (!checked.valid) return checked
  const { team, patient_hash } = checked.receipt
  const teamId = (await readTeams(session.db)).find(({ name }) => name === team)?.teamId
  if (teamId !== undefined) {
    const { hashOf } = await hashesOf(session.db, teamId)
    if (patient_hash === hashOf({ stream: PERSONS.name, id })) return checked
  }
  return { valid: false, reason: 'it is not the erasure of this patient' }
}

function readText(file: string): string {
  try {
    return withoutMark(readFileSync(file, 'utf8'))
  } catch {
    throw new UsageError('the receipt cannot be read', 'name a file that exists', 'file', 'file_unreadable')
  }
}

async function withWarehouse<Result>(
  context: Context,
  work: (session: Session) => Promise<Result>,
): Promise<Result> {
  await using warehouse = await openWarehouse(context, readConfig(context.env))
  await requireMigrated(warehouse.url)
  await using session = await openSession({ url: warehouse.url, purpose: 'receipt' })
  return await work(session)
}

const HELP = `
erase patient and verify write a receipt with --receipt FILE. It contains counts
and hashes, no id and no value. Keep the public key (receipt key) apart from the
warehouse: with it anybody can check a receipt. Exit 1 if one is not valid.`
