/** A warehouse without Postgres, which answers each statement as a test says, and notes what it was asked. */
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

/** Rows, or how many rows a statement has changed. */
export type Reply = readonly object[] | number

/** The statement with its white space as one blank; `values` are those of its parameters. */
export type Script = (statement: string, values: readonly unknown[]) => Reply | Promise<Reply>

export function scripted(script: Script): Kysely<Warehouse> {
  const ask = async (statement: string, values: readonly unknown[] = []) =>
    await script(statement.replace(/\s+/g, ' ').trim(), values)
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

/** By name, a pattern of a statement, and the reply to the nth of its kind. */
type Steps = Readonly<Record<string, readonly [RegExp, (nth: number) => Reply]>>

/** A session whose statements have names, which `asked` lists in their order; any other statement fails the test. */
export function scriptedSession(steps: Steps) {
  const asked: string[] = []
  const db = scripted((statement) => {
    if (/^(begin|commit|rollback)$/.test(statement)) {
      asked.push(statement)
      return []
    }
    const [name, [, reply]] = Object.entries(steps).find(([, [pattern]]) => pattern.test(statement))!
    asked.push(name)
    return reply(asked.filter((each) => each === name).length)
  })
  return { asked, session: { db } as unknown as Session }
}
