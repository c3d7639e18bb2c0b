/**
 * Parts of the loading statements: a table with its staging table, lists of columns, and the text of a statement.
 *
 * Invariant: names are quoted by kysely, never by hand.
 */
import {
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type RawBuilder,
  sql,
} from 'kysely'

/** A table, and the staging table of a session from which its rows come. */
export interface Target {
  readonly table: RawBuilder<unknown>
  readonly stage: RawBuilder<unknown>
  readonly columns: readonly string[]
  /** The column with the id of the record that a row belongs to. */
  readonly parent: string
}

export function target(schema: string, table: string, parent: string, columns: readonly string[]): Target {
  return {
    table: sql.table(`${schema}.${table}`),
    stage: sql.table(`pg_temp.stage_${table}`),
    columns,
    parent,
  }
}

export function refs(columns: readonly string[]): RawBuilder<unknown> {
  return sql.join(columns.map((column) => sql.ref(column)))
}

/** `raised` is a column, with the name of its table, that an update never lowers. */
export function assignments(
  columns: readonly string[],
  raised: readonly [table: string, column: string] | null = null,
): RawBuilder<unknown> {
  return sql.join(
    columns.map((column) => {
      const incoming = sql.ref(`excluded.${column}`)
      const value =
        raised?.[1] === column ? sql`greatest(${incoming}, ${sql.ref(raised.join('.'))})` : incoming
      return sql`${sql.ref(column)} = ${value}`
    }),
  )
}

export function text(statement: RawBuilder<unknown>): string {
  return statement.compile(compiler).sql
}

const compiler = new Kysely<unknown>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})
