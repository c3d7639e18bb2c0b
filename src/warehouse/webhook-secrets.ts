/**
 * The signature secrets of webhook configurations, as sealed boxes: AES-256-GCM under the key of INTAKE_ENCRYPTION_KEY.
 *
 *     box = version (1 byte) | nonce (12, random) | tag (16) | ciphertext
 *
 * Invariant: what is stored here was sealed by the caller; no statement, error or log ever holds a secret in clear. A box
 * opens only with the key and the place (a list of words) that it was sealed for, so a box that was moved to another row
 * or changed by a bit is refused.
 */
import { createCipheriv, createDecipheriv, randomBytes, randomUUID } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import { IntakeError, UsageError } from '../core/errors.ts'
import type { Warehouse } from './tables.ts'

/** Size of the trial row: the largest likely secret. */
const TRIAL_BYTES = 256

export interface SecretKey {
  readonly teamId: number
  /** The service's id of the configuration. */
  readonly configId: string
}

export type SecretState = 'stored' | 'retired'

/** The place that the box of this configuration is bound to. */
export function placeOf({ teamId, configId }: SecretKey): Place {
  return ['webhook_secret', teamId, configId]
}

/** Stores a sealed secret; replaces one of the same configuration, since the service uses only the newest. */
export async function storeSecret(db: Kysely<Warehouse>, key: SecretKey, box: Uint8Array): Promise<void> {
  const secret = Buffer.from(box)
  await db
    .insertInto('intake_ops.webhook_secrets')
    .values({ team_id: key.teamId, config_id: key.configId, secret })
    .onConflict((conflict) =>
      conflict
        .columns(['team_id', 'config_id'])
        .doUpdateSet({ secret, created_at: sql<Date>`now()`, retired_at: null }),
    )
    .execute()
}

/** Inserts and deletes a row, to detect a warehouse that is full, read-only or without privileges before it is needed. */
export async function tryStore(db: Kysely<Warehouse>, teamId: number): Promise<void> {
  const config_id = `trial:${randomUUID()}`
  await db.transaction().execute(async (transaction) => {
    await transaction
      .insertInto('intake_ops.webhook_secrets')
      .values({ team_id: teamId, config_id, secret: Buffer.alloc(TRIAL_BYTES) })
      .execute()
    await transaction
      .deleteFrom('intake_ops.webhook_secrets')
      .where('team_id', '=', teamId)
      .where('config_id', '=', config_id)
      .execute()
  })
}

/** Retires the secret of a configuration that was deleted. True if the secret was in use until now. */
export async function retireSecret(db: Kysely<Warehouse>, team: string, configId: string): Promise<boolean> {
  const { numUpdatedRows } = await db
    .updateTable('intake_ops.webhook_secrets')
    .set({ retired_at: sql<Date>`now()` })
    .where('team_id', 'in', (query) =>
      query.selectFrom('intake.teams').select('team_id').where('name', '=', team),
    )
    .where('config_id', '=', configId)
    .where('retired_at', 'is', null)
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

export interface SealedSecret extends SecretKey {
  readonly box: Buffer
}

/** The sealed secrets in use of these teams. */
export async function secretsInUse(
  db: Kysely<Warehouse>,
  teamIds: readonly number[],
): Promise<readonly SealedSecret[]> {
  return await db
    .selectFrom('intake_ops.webhook_secrets')
    .select(['team_id as teamId', 'config_id as configId', 'secret as box'])
    .where('team_id', '=', sql<number>`any (${[...teamIds]}::smallint[])`)
    .where('retired_at', 'is', null)
    .orderBy('team_id')
    .orderBy('config_id')
    .execute()
}

/** The state of each stored secret, by configuration. The warehouse need not know the team of this name yet. */
export async function secretStates(
  db: Kysely<Warehouse>,
  team: string,
): Promise<ReadonlyMap<string, SecretState>> {
  const rows = await db
    .selectFrom('intake_ops.webhook_secrets as secret')
    .innerJoin('intake.teams as team', 'team.team_id', 'secret.team_id')
    .select(['secret.config_id', 'secret.retired_at'])
    .where('team.name', '=', team)
    .execute()
  return new Map(rows.map((row) => [row.config_id, row.retired_at === null ? 'stored' : 'retired']))
}

const VERSION = 1
const NONCE = 12
const TAG = 16
const HEADER = 1 + NONCE + TAG

/** The row that a box is bound to, such as `['webhook_secret', team, configuration]`; no secret itself. */
export type Place = readonly (string | number)[]

/** The 32 bytes that `text` is in base64 (either alphabet). Throws `UsageError`. */
export function keyOf(text: string): Buffer {
  const key = Buffer.from(text, 'base64')
  if (key.length === 32) return key
  throw new UsageError(
    'INTAKE_ENCRYPTION_KEY is not 32 bytes in base64',
    'set INTAKE_ENCRYPTION_KEY to 32 bytes in base64',
    'INTAKE_ENCRYPTION_KEY',
  )
}

export function seal(secret: string, key: Buffer, place: Place): Buffer {
  const nonce = randomBytes(NONCE)
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG }).setAAD(bytesOf(place))
  const sealed = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()])
  return Buffer.concat([Buffer.from([VERSION]), nonce, cipher.getAuthTag(), sealed])
}

/** The secret in `box`. Throws an error with code `secret_unreadable`. */
export function open(box: Uint8Array, key: Buffer, place: Place): string {
  if (box.length < HEADER || box[0] !== VERSION) throw unreadable()
  const decipher = createDecipheriv('aes-256-gcm', key, box.subarray(1, 1 + NONCE), { authTagLength: TAG })
  decipher.setAAD(bytesOf(place)).setAuthTag(box.subarray(1 + NONCE, HEADER))
  try {
    return Buffer.concat([decipher.update(box.subarray(HEADER)), decipher.final()]).toString('utf8')
  } catch {
    throw unreadable()
  }
}

function bytesOf(place: Place): Buffer {
  return Buffer.from(JSON.stringify([VERSION, ...place]), 'utf8')
}

function unreadable(): IntakeError {
  return new IntakeError('a stored secret cannot be opened', {
    code: 'secret_unreadable',
    verdict: 'stop',
    hint: 'Set INTAKE_ENCRYPTION_KEY to the key it was stored under; if that is lost, create the webhook anew.',
  })
}
