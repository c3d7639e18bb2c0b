/**
 * Searches the whole database for identifiers of an erased patient.
 *
 * Invariant: every column of text, JSON or bytes of every table that the login may read is searched, as the catalogue lists
 * them, in every schema. The result names tables and columns and counts rows; it contains no value.
 */
import { type Kysely, sql } from 'kysely'
import { PERSONS } from '../../streams/catalogue.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { Patient } from './find.ts'

/** Rows that still contain an identifier. */
export interface Place {
  readonly table: string
  readonly column: string
  readonly rows: number
}

export interface Searched {
  /** Identifiers that were searched for. */
  readonly identifiers: number
  /** Identifiers that occur by chance, because they are short, or that another patient shares. */
  readonly leftOut: number
  /** Columns that were searched. */
  readonly columns: number
  /** Tables that the login may not read. */
  readonly unreadable: readonly string[]
  readonly left: readonly Place[]
}

/** Characters of an identifier that does not occur by chance. */
const MIN_LENGTH = 8
/** Identifiers that one scan of a table looks for. */
const AT_ONCE = 200

export async function searchEverywhere(
  db: Kysely<Warehouse>,
  patient: Patient,
  identifiers: Iterable<string>,
): Promise<Searched> {
  const all = [...new Set(identifiers)]
  const long = all.filter((text) => text.length >= MIN_LENGTH || text.includes('@'))
  const shared = await sharedWithOthers(db, patient, long)
  const own = long.filter((text) => !shared.has(text))
  const tables = await searchable(db)
  const readable = tables.filter((table) => table.readable)
  const left: Place[] = []
  for (const { name, of, columns } of readable) {
    for (let at = 0; at < own.length; at += AT_ONCE) {
      left.push(...(await search(db, { name, of, columns }, own.slice(at, at + AT_ONCE))))
    }
  }
  return {
    identifiers: own.length,
    leftOut: all.length - own.length,
    columns: new Set(readable.flatMap(({ of, columns }) => columns.map((column) => `${of} ${column.name}`)))
      .size,
    unreadable: [...new Set(tables.filter((table) => !table.readable).map(({ of }) => of))],
    left: summed(left),
  }
}

/** An address of a family is in the rows of others rightly. */
async function sharedWithOthers(
  db: Kysely<Warehouse>,
  { teamId, id }: Patient,
  texts: readonly string[],
): Promise<ReadonlySet<string>> {
  const { alias, contacts } = PERSONS.person
  const columns = sql.join([...alias, ...contacts].map((name) => sql`lower(other.${sql.ref(name)})`))
  const { rows } = await sql<{ text: string }>`
    select distinct given.text from ${sql.table(`intake.${PERSONS.table}`)} other
    join unnest(${[...texts]}::text[]) as given (text) on lower(given.text) in (${columns})
    where other.team_id = ${teamId} and other.id <> ${id}`.execute(db)
  return new Set(rows.map(({ text }) => text))
}

interface Column {
  readonly name: string
  /** Of bytes, or of lists of them; null: of text. */
  readonly bytes: 'one' | 'list' | null
}

interface Table {
  readonly name: string
  /** The parent of a partition; else the table itself. */
  readonly of: string
  readonly columns: readonly Column[]
  readonly readable: boolean
}

/** Partitions instead of their parents; no temporary tables, which only their session can read. */
async function searchable(db: Kysely<Warehouse>): Promise<readonly Table[]> {
  const { rows } = await sql<Table>`
    select format('%I.%I', schema.nspname, own.relname) as name, has_table_privilege(own.oid, 'select') as readable,
      format('%I.%I', whole_schema.nspname, whole.relname) as of,
      jsonb_agg(jsonb_build_object('name', cell.attname, 'bytes', case cell.atttypid
          when 'bytea'::regtype then 'one' when 'bytea[]'::regtype then 'list' end) order by cell.attnum)
        as columns
    from pg_class own
    join pg_namespace schema on schema.oid = own.relnamespace
    join pg_attribute cell on cell.attrelid = own.oid and cell.attnum > 0 and not cell.attisdropped
    join pg_type type on type.oid = cell.atttypid
    left join pg_type item on item.oid = type.typelem and type.typcategory = 'A'
    left join pg_inherits parent on parent.inhrelid = own.oid and own.relispartition
    join pg_class whole on whole.oid = coalesce(parent.inhparent, own.oid)
    join pg_namespace whole_schema on whole_schema.oid = whole.relnamespace
    where own.relkind in ('r', 'm') and own.relpersistence <> 't'
      and schema.nspname !~ '^pg_' and schema.nspname <> 'information_schema'
      and (coalesce(item.typcategory, type.typcategory) = 'S'
        or coalesce(item.typname, type.typname) in ('bytea', 'json', 'jsonb', 'xml', 'hstore'))
    group by schema.nspname, own.relname, own.oid, whole_schema.nspname, whole.relname
    order by 1`.execute(db)
  return rows
}

async function search(
  db: Kysely<Warehouse>,
  { name, of, columns }: Omit<Table, 'readable'>,
  identifiers: readonly string[],
): Promise<readonly Place[]> {
  const texts = columns.map((column, at) => {
    const cell = sql.ref(column.name)
    const text = {
      one: sql`encode(${cell}, 'escape')`,
      list: sql`(select string_agg(encode(item, 'escape'), ' ') from unnest(${cell}) as own (item))`,
      text: sql`${cell}::text`,
    }[column.bytes ?? 'text']
    return sql`lower(${text}) as ${sql.ref(`c${at}`)}`
  })
  const counts = columns.map((column, at) => {
    const pattern = column.bytes !== null ? asEscaped(identifiers) : asText(identifiers)
    return sql`count(*) filter (where ${sql.ref(`c${at}`)} ~ lower(${pattern}))::int as ${sql.ref(`c${at}`)}`
  })
  // `offset 0` keeps each text from being made twice.
  const { rows } = await sql<Record<string, number>>`
    select ${sql.join(counts)} from (select ${sql.join(texts)} from only ${sql.table(name)} offset 0) as row`.execute(
    db,
  )
  return columns.flatMap((column, at) => {
    const count = rows[0]![`c${at}`]!
    return count === 0 ? [] : [{ table: of, column: column.name, rows: count }]
  })
}

/** As text, and as a string of JSON. */
function asText(identifiers: readonly string[]): string {
  const spelled = identifiers.flatMap((text) => [text, JSON.stringify(text).slice(1, -1)])
  return anyOf(spelled)
}

/** As `encode(…, 'escape')` writes bytes. */
function asEscaped(identifiers: readonly string[]): string {
  const spelled = identifiers.flatMap((text) => [text, JSON.stringify(text).slice(1, -1)])
  return anyOf(
    spelled.map((text) =>
      [...Buffer.from(text)]
        .map((byte) => {
          if (byte === 0x5c) return '\\\\'
          return byte < 0x80 && byte > 0
            ? String.fromCharCode(byte)
            : `\\${byte.toString(8).padStart(3, '0')}`
        })
        .join(''),
    ),
  )
}

/** A regular expression: in its dialect, a backslash before any other character means that character. */
function anyOf(texts: readonly string[]): string {
  return [...new Set(texts)].map((text) => text.replace(/[^\p{L}\p{N}]/gu, '\\$&')).join('|')
}

function summed(places: readonly Place[]): readonly Place[] {
  const sums = new Map<string, Place>()
  for (const place of places) {
    const key = `${place.table} ${place.column}`
    const rows = (sums.get(key)?.rows ?? 0) + place.rows
    sums.set(key, { ...place, rows })
  }
  return [...sums.values()].sort((a, b) => (`${a.table} ${a.column}` < `${b.table} ${b.column}` ? -1 : 1))
}
