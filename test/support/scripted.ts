/** A warehouse that only notes statements, and answers them as a test says. */
import {
  type DatabaseConnection,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely'
import type { Warehouse } from '../../src/warehouse/tables.ts'

/**
 * `note` gets each statement in one line, with its parameters, and the beginning and end of transactions; its rows are the
 * answer.
 */
export function scripted(
  note: (statement: string, parameters: readonly unknown[]) => readonly object[] | undefined,
): Kysely<Warehouse> {
  const connection: DatabaseConnection = {
    executeQuery: async ({ sql, parameters }) => ({
      rows: [...(note(sql.replace(/\s+/g, ' ').trim(), parameters) ?? [])] as never[],
    }),
    async *streamQuery() {},
  }
  const noting = (statement: string) => async () => void note(statement, [])
  return new Kysely<Warehouse>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
      createDriver: () => ({
        init: async () => {},
        acquireConnection: async () => connection,
        beginTransaction: noting('begin'),
        commitTransaction: noting('commit'),
        rollbackTransaction: noting('rollback'),
        releaseConnection: async () => {},
        destroy: async () => {},
      }),
    },
  })
}
