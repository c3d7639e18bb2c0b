/** sql/partitions.sql, as psql runs it. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import type pg from 'pg'

export const PARTITIONS_SCRIPT = readFileSync(
  resolve(import.meta.dirname, '../../sql/partitions.sql'),
  'utf8',
)

/** Leaves the session without a transaction, also where the script refuses. */
export async function partition(client: pg.ClientBase, partitions = 16): Promise<void> {
  await client.query(`set intake.partitions = ${partitions}`)
  try {
    await client.query(PARTITIONS_SCRIPT)
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}
