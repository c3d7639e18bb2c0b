/** A database without a server: each statement is answered with the rows, or their number, that a test gives. */
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import type { Warehouse } from '../../../src/warehouse/tables.ts'

export function answering(
  answer: (text: string, parameters: readonly unknown[]) => readonly object[] | bigint,
): Kysely<Warehouse> {
  const driver = new DummyDriver()
  const connection = {
    async executeQuery({
      sql,
      parameters,
    }: {
      readonly sql: string
      readonly parameters: readonly unknown[]
    }) {
      const given = answer(sql, parameters)
      return (
        typeof given === 'bigint' ? { rows: [], numAffectedRows: given } : { rows: [...given] }
      ) as never
    },
    streamQuery: () => {
      throw new Error('not answered')
    },
  }
  return new Kysely<Warehouse>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => Object.assign(driver, { acquireConnection: async () => connection }),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  })
}
