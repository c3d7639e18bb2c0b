/**
 * Signed receipts of erasures and verifications, and `intake-sync receipt`, which checks them.
 *
 * Invariant: a receipt contains counts, hashes, names of tables, streams, teams and logins; no id and no value. The
 * signature (Ed25519) covers the canonical text of everything else in it.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { Command } from 'commander'
import { sql } from 'kysely'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { canonicalText } from '../../core/canonical.ts'
import { UsageError } from '../../core/errors.ts'
import { isObject, type JsonObject, parseText } from '../../core/json.ts'
import { hashesOf } from '../../load/erasures.ts'
import { PERSONS } from '../../streams/catalogue.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { readTeams } from '../../warehouse/teams.ts'
import { type Context, ExitCode, openWarehouse, printJson } from '../context.ts'
import { printable } from '../terminal/printable.ts'
import { paragraph } from '../terminal/terminal.ts'

/** Before a seed of 32 bytes, the private key in PKCS 8; before 32 bytes, the public key in SPKI. */
const PRIVATE = Buffer.from('302e020100300506032b657004220420', 'hex')
const PUBLIC = Buffer.from('302a300506032b6570032100', 'hex')

const FORMAT = 'intake-sync receipt'

export interface Receipt {
  readonly kind: 'erasure' | 'verification'
  readonly issuedAt: Date
  /** What it certifies, in JSON. */
  readonly facts: object
}

/** A file for a receipt that does not exist yet: created at once, so that a wrong path stops a command before it begins. */
export interface ReceiptFile extends Disposable {
  write(url: string, version: string, receipt: Receipt): Promise<void>
}

/**
 * From the JSON document of a verification. Lists of ids become counts: an id of the service stays inside.
 *
 * The hash of a side covers all rows of a stream's tables, in no order: equal hashes are equal tables.
 */
export function verificationReceipt(document: object): Receipt {
  const { teams, ...rest } = counted(document) as { readonly teams: object }
  const { streams: _sums, deep: _all, ...facts } = rest as { readonly [name: string]: unknown }
  return { kind: 'verification', issuedAt: new Date(), facts: { ...facts, teams } }
}

function counted(value: unknown): unknown {
  if (Array.isArray(value)) return value.length
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, counted(each)]))
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
    throw new UsageError(message, 'name a new file in a folder that you may write to', '--receipt')
  }
  let written = false
  return {
    async write(url, version, { kind, issuedAt, facts }) {
      await using session = await openSession({ url, purpose: 'receipt' })
      const key = await signingKey(session)
      const body = {
        format: FORMAT,
        format_version: 1,
        kind,
        issued_at: issuedAt.toISOString(),
        version,
        ...facts,
      }
      // As it will be read: without what JSON leaves out.
      const text = signedText(parseText(JSON.stringify(body)) as JsonObject)
      const signature = {
        algorithm: 'Ed25519',
        public_key: publicText(createPublicKey(key)),
        value: sign(null, text, key).toString('base64'),
      }
      writeFileSync(path, `${JSON.stringify({ ...body, signature }, null, 2)}\n`)
      written = true
    },
    [Symbol.dispose]() {
      if (!written) rmSync(path, { force: true })
    },
  }
}

async function signingKey({ db }: Session): Promise<KeyObject> {
  const { rows } = await sql<{ seed: Buffer }>`select seed from intake_ops.receipt_key`.execute(db)
  return createPrivateKey({ key: Buffer.concat([PRIVATE, rows[0]!.seed]), format: 'der', type: 'pkcs8' })
}

function publicText(key: KeyObject): string {
  return key.export({ format: 'der', type: 'spki' }).subarray(PUBLIC.length).toString('base64')
}

function signedText({ signature: _, ...body }: JsonObject): Buffer {
  return Buffer.from(canonicalText(body))
}

export type Checked =
  | { readonly valid: true; readonly receipt: JsonObject }
  | { readonly valid: false; readonly reason: string }

/** Checks a receipt's text against a public key in base64. */
export function checkReceipt(text: string, key: string): Checked {
  const no = (reason: string) => ({ valid: false, reason }) as const
  let receipt: unknown
  try {
    receipt = parseText(text)
  } catch {
    return no('it is not JSON')
  }
  if (!isObject(receipt) || receipt.format !== FORMAT) return no('it is not a receipt')
  if (receipt.format_version !== 1) return no('its format is of another version of intake-sync')
  const { signature } = receipt
  if (!isObject(signature) || signature.algorithm !== 'Ed25519' || typeof signature.value !== 'string')
    return no('it is not signed')
  if (signature.public_key !== key) return no('another key signed it')
  const bytes = Buffer.from(key, 'base64')
  if (bytes.length !== 32) return no('the public key is not one of Ed25519')
  const spki = createPublicKey({ key: Buffer.concat([PUBLIC, bytes]), format: 'der', type: 'spki' })
  if (!verify(null, signedText(receipt), spki, Buffer.from(signature.value, 'base64')))
    return no('its content was changed after it was signed')
  return { valid: true, receipt }
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
      const key = await withWarehouse(context, ownKey)
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
          const signed = checkReceipt(text, await ownKey(session))
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
    return readFileSync(file, 'utf8')
  } catch {
    throw new UsageError('the receipt cannot be read', 'name a file that exists', 'file')
  }
}

async function ownKey(session: Session): Promise<string> {
  return publicText(createPublicKey(await signingKey(session)))
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
