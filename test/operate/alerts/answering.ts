/** A database without a server: each statement is answered with the rows that a test gives. */
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import type { Warehouse } from '../../../src/warehouse/tables.ts'

export function answering(answer: (text: string) => readonly object[]): Kysely<Warehouse> {
  const driver = new DummyDriver()
  const connection = {
    executeQuery: async ({ sql }: { readonly sql: string }) => ({ rows: [...answer(sql)] }) as never,
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
