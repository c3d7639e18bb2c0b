/** A warehouse without Postgres, which answers each statement as a test says. */
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely'
import type { Session } from '../../src/warehouse/connect.ts'
import type { Warehouse } from '../../src/warehouse/tables.ts'

/** Rows, or how many rows a statement has changed; undefined: no row. */
export type Reply = readonly object[] | number | undefined

/**
 * Gets each statement in one line, with the values of its parameters, and the beginning and end of transactions; what it
 * returns is the answer.
 */
export type Script = (statement: string, values: readonly unknown[]) => Reply | Promise<Reply>

export function scripted(script: Script): Kysely<Warehouse> {
  const ask = async (statement: string, values: readonly unknown[] = []) =>
    (await script(statement.replace(/\s+/g, ' ').trim(), values)) ?? []
  const connection: DatabaseConnection = {
    async executeQuery<Row>({ sql, parameters }: CompiledQuery) {
      const reply = await ask(sql, parameters)
      return typeof reply === 'number'
        ? { rows: [], numAffectedRows: BigInt(reply) }
        : { rows: [...reply] as Row[], numAffectedRows: BigInt(reply.length) }
    },
    streamQuery: () => {
      throw new Error('nothing is streamed')
    },
  }
  const driver: Driver = {
    init: async () => {},
    acquireConnection: async () => connection,
    beginTransaction: async () => void (await ask('begin')),
    commitTransaction: async () => void (await ask('commit')),
    rollbackTransaction: async () => void (await ask('rollback')),
    releaseConnection: async () => {},
    destroy: async () => {},
  }
  return new Kysely<Warehouse>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => driver,
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  })
}

/** A session that answers one statement after another, and notes the name, or the first word, and the values of each. */
export function answering(...answers: readonly (readonly object[])[]) {
  const asked: unknown[][] = []
  const client = {
    async query(query: string | { name: string; values: unknown[] }, values: unknown[] = []) {
      asked.push(
        typeof query === 'string' ? [query.trim().split(' ')[0], ...values] : [query.name, ...query.values],
      )
      return { rows: [...(answers[asked.length - 1] ?? [])] }
    },
  }
  return { asked, session: { client } as unknown as Session }
}
