/**
 * Signed receipts of erasures and verifications.
 *
 * Invariant: a receipt contains counts, hashes, names of tables, streams, teams and logins; no id and no value. The
 * signature (Ed25519) covers the canonical text of everything else in it.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { canonicalText } from '../core/canonical.ts'
import { isObject, type JsonObject, parseText } from '../core/json.ts'
import type { Warehouse } from '../warehouse/tables.ts'

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

/** Returns the signed receipt, as the text of its file. `version`: of intake-sync. */
export async function signReceipt(
  db: Kysely<Warehouse>,
  version: string,
  { kind, issuedAt, facts }: Receipt,
): Promise<string> {
  const key = await signingKey(db)
  const body = {
    ...{ format: FORMAT, format_version: 1, kind, issued_at: issuedAt.toISOString(), version },
    ...facts,
  }
  // As it will be read: without what JSON leaves out.
  const text = signedText(parseText(JSON.stringify(body)) as JsonObject)
  const signature = {
    algorithm: 'Ed25519',
    public_key: publicText(createPublicKey(key)),
    value: sign(null, text, key).toString('base64'),
  }
  return `${JSON.stringify({ ...body, signature }, null, 2)}\n`
}

/** The public key of this warehouse, in base64. */
export async function receiptKey(db: Kysely<Warehouse>): Promise<string> {
  return publicText(createPublicKey(await signingKey(db)))
}

async function signingKey(db: Kysely<Warehouse>): Promise<KeyObject> {
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

/** What a receipt of a verification certifies. */
export interface VerificationFacts {
  readonly run_id: number
  readonly status: string
  readonly equal: boolean
  readonly started_at: string
  readonly finished_at: string | null
  readonly teams: Readonly<Record<string, TeamFacts>>
}

export interface TeamFacts {
  readonly streams: Readonly<Record<string, StreamFacts>>
  /** Counts of the comparison of exports with responses; null without it. */
  readonly deep: Readonly<Record<string, number>> | null
}

export interface StreamFacts {
  /** Records of the service; null where the stream was not compared. */
  readonly source: number | null
  readonly warehouse: number | null
  readonly missing: number
  readonly extra: number
  readonly different: number
  readonly repaired: number
  readonly newer: number
  readonly payloads_only: number
  readonly source_hash: string | null
  readonly warehouse_hash: string | null
  /** Null in verifications by earlier versions. */
  readonly source_content_hash: string | null
  readonly warehouse_content_hash: string | null
  readonly note: string | null
  readonly error: string | null
}

const NOT_COMPARED: StreamFacts = {
  ...{ source: null, warehouse: null, source_hash: null, warehouse_hash: null, note: null },
  ...{ source_content_hash: null, warehouse_content_hash: null },
  ...{ missing: 0, extra: 0, different: 0, repaired: 0, newer: 0, payloads_only: 0, error: 'not compared' },
}

interface Stored extends Omit<StreamFacts, 'error'> {
  readonly team: string
  readonly stream: string
  readonly deep: object | null
}

/** Of a verification that has ended; null if there is none of that number. */
export async function verificationFacts(
  db: Kysely<Warehouse>,
  runId: number,
): Promise<VerificationFacts | null> {
  const { rows: runs } = await sql<{
    status: string
    options: { readonly teams: readonly string[]; readonly streams: readonly string[] }
    started_at: string
    finished_at: string | null
  }>`select status, options, to_json(started_at) #>> '{}' as started_at, to_json(finished_at) #>> '{}' as finished_at
    from intake_ops.runs where run_id = ${runId} and kind = 'verify' and status <> 'running'`.execute(db)
  const [run] = runs
  if (run === undefined) return null
  const { rows } = await sql<Stored>`
    select team.name as team, stream, source::float8 as source, warehouse::float8 as warehouse, missing::int as missing,
      extra::int as extra, different::int as different, repaired::int as repaired, newer::int as newer,
      payloads_only::int as payloads_only, source_hash, warehouse_hash,
      source_content_hash, warehouse_content_hash, note, deep
    from intake_ops.verifications join intake.teams team using (team_id) where run_id = ${runId}`.execute(db)
  const { status, started_at, finished_at, options } = run
  const teams = options.teams.map((team): [string, TeamFacts] => {
    const own = rows.filter((row) => row.team === team)
    const streams = options.streams.map((stream) => [
      stream,
      factsOf(own.find((row) => row.stream === stream)),
    ])
    const deep = own.find((row) => row.deep !== null)?.deep ?? null
    return [team, { streams: Object.fromEntries(streams), deep: deep === null ? null : countsOf(deep) }]
  })
  const all = teams.flatMap(([, { streams }]) => Object.values(streams))
  const equal =
    all.every(
      ({ error, missing, extra, different }) => error === null && missing + extra + different === 0,
    ) && teams.every(([, { deep }]) => (deep?.differences ?? 0) === 0)
  return { run_id: runId, status, equal, started_at, finished_at, teams: Object.fromEntries(teams) }
}

function factsOf(stored: Stored | undefined): StreamFacts {
  if (stored === undefined) return NOT_COMPARED
  const { team: _team, stream: _stream, deep: _deep, ...facts } = stored
  return { ...facts, error: null }
}

/** Lists become counts: an id of the service stays inside. */
function countsOf(deep: object): Readonly<Record<string, number>> {
  const counted = Object.entries(deep).map(([name, value]): [string, number] => [
    name.replace(/[A-Z]/g, (capital) => `_${capital.toLowerCase()}`),
    Array.isArray(value) ? value.length : Number(value),
  ])
  return Object.fromEntries(counted)
}
