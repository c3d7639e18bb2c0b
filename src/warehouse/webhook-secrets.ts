/**
 * The signature secrets of webhook configurations, as sealed boxes (core/secret-box.ts).
 *
 * Invariant: what is stored here was sealed by the caller; no statement, error or log ever holds a secret in clear.
 */
import { randomUUID } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { Place } from '../core/secret-box.ts'
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
