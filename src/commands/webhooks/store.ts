/**
 * Access of the webhook commands to the stored secrets.
 *
 * Invariant: only `create` creates a warehouse. Showing whether a secret is stored starts no embedded server.
 */
import { existsSync } from 'node:fs'
import type { Kysely } from 'kysely'
import { requireMigrated } from '../../analytics/migrate.ts'
import type { Config } from '../../config/config.ts'
import { openSession } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { type SecretState, secretStates } from '../../warehouse/webhook-secrets.ts'
import { type Context, type OpenWarehouse, openWarehouse } from '../context.ts'

export async function withStore<Result>(
  url: string,
  work: (db: Kysely<Warehouse>) => Promise<Result>,
): Promise<Result> {
  await using session = await openSession({ url, purpose: 'webhooks' })
  try {
    return await work(session.db)
  } catch (error) {
    throw warehouseError(error)
  }
}

/** The states by id of the configuration. Null, with a note on stderr, if the warehouse cannot be read. */
export async function storedSecrets(
  context: Context,
  config: Config,
  team: string,
): Promise<ReadonlyMap<string, SecretState> | null> {
  const { databaseUrl } = config
  if (databaseUrl === null) return null
  try {
    await requireMigrated(databaseUrl)
    return await withStore(databaseUrl, (db) => secretStates(db, team))
  } catch (error) {
    const { message } = warehouseError(error)
    context.stderr.write(`note: whether a secret is stored is not known: ${message}\n`)
    return null
  }
}

/** The warehouse in which a secret may be stored; null if none was ever created. */
export async function openExistingWarehouse(context: Context, config: Config): Promise<OpenWarehouse | null> {
  if (config.databaseUrl === null && !existsSync(config.dataDir)) return null
  const warehouse = await openWarehouse(context, config)
  try {
    await requireMigrated(warehouse.url)
    return warehouse
  } catch (error) {
    await warehouse[Symbol.asyncDispose]()
    throw error
  }
}
