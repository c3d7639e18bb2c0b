/**
 * Finds the identities of a patient, and the rows of exports under each of them.
 *
 * Invariant: what was ever stored counts, not only the current row, which has no values once the patient was deleted at the
 * service. A row under an id that another patient has now is not the patient's. Reads only.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { isObject, type JsonObject, parseJson, parseText } from '../../core/json.ts'
import { exportClient, exportPerson } from '../../load/erasures.ts'
import { ALL_STREAMS, FILES, PERSONS } from '../../streams/catalogue.ts'
import { cellsOf } from '../../streams/parts/parts.ts'
import type { Subject } from '../../streams/subjects.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { Found, Patient } from './find.ts'

/** Every identity under which the warehouse ever stored the patient, for rows that name no id. */
export interface Identities {
  /** Values of the columns `alias`. */
  readonly aliases: readonly string[]
  /** Values of the columns `same`, of a state in which none was empty; their case does not count. */
  readonly names: readonly (readonly string[])[]
  /** Values of the columns `contacts`. */
  readonly contacts: readonly string[]
  /** Hashes of subjects in payloads that retention removed, in hex digits. */
  readonly former: readonly string[]
}

const { alias, same, contacts } = PERSONS.person
const COLUMNS = [...new Set([...alias, ...same, ...contacts])].map(
  (name) => PERSONS.columns.find((column) => column.name === name)!,
)

/** What names the person of a payload in exports, besides the id. */
export function identitiesIn(payload: JsonObject): readonly Subject[] {
  const state = stateOf(payload)
  const aliases = alias.map((name) => state.get(name)!).filter((text) => text !== '')
  const values = same.map((name) => state.get(name)!)
  return [...aliases.map(exportClient), ...(values.includes('') ? [] : [exportPerson(values)])]
}

/** The person's values by column; empty if there is none. */
function stateOf(payload: JsonObject): ReadonlyMap<string, string> {
  const cells = cellsOf(COLUMNS, payload, '', [])
  return new Map(COLUMNS.map(({ name }, at) => [name, cells[at] ?? '']))
}

/**
 * From the current row, all payloads and superseded payloads, stored events, dead letters, the records in `found`, and the
 * rows of exports under the patient's id or an alias: a deleted patient's row has no values.
 */
export async function findIdentities(
  db: Kysely<Warehouse>,
  patient: Patient,
  found: Found,
): Promise<Identities> {
  const states = (await personsIn(db, patient, found)).filter(isObject).map(stateOf)
  const own = sql.join(COLUMNS.map(({ name }) => sql.ref(name)))
  const { rows } = await sql<Record<string, string | null>>`
    select ${own} from ${sql.table(`intake.${PERSONS.table}`)}
    where team_id = ${patient.teamId} and id = ${patient.id}`.execute(db)
  states.push(...rows.map((row) => new Map(COLUMNS.map(({ name }) => [name, row[name] ?? '']))))
  const valuesOf = (names: readonly string[]) =>
    [...new Set(states.flatMap((state) => names.map((name) => state.get(name)!)))].filter(
      (text) => text !== '',
    )
  const aliases = valuesOf(alias)
  const inFiles = await sql<Record<string, string | null>>`
    select distinct ${sql.join(same.map((name) => sql.ref(name)))} from intake.export_rows line
    where team_id = ${patient.teamId} and client_id = any(${[patient.id, ...aliases]}::text[])
      and ${isNobodyElse(patient)}`.execute(db)
  const named = [
    ...states.map((state) => same.map((name) => state.get(name)!)),
    ...inFiles.rows.map((row) => same.map((name) => row[name] ?? '')),
  ]
  const former = await sql<{ hash: string }>`
    select encode(hash, 'hex') as hash from intake_ops.former_identities
    where team_id = ${patient.teamId} and id = ${patient.id} order by 1`.execute(db)
  return {
    ...{ aliases, names: wholeNames(named), contacts: valuesOf(contacts) },
    former: former.rows.map(({ hash }) => hash),
  }
}

function wholeNames(named: readonly (readonly string[])[]): readonly (readonly string[])[] {
  const whole = named.filter((values) => values.every((value) => value !== ''))
  return [...new Map(whole.map((values) => [values.join('\n').toLowerCase(), values])).values()]
}

/** The patient as an object, as each stored payload has it. */
async function personsIn(db: Kysely<Warehouse>, patient: Patient, found: Found): Promise<readonly unknown[]> {
  const { teamId, id } = patient
  const own = sql`team_id = ${teamId} and stream = ${PERSONS.name}`
  const payloads = ALL_STREAMS.flatMap(({ name, columns }) =>
    columns
      .filter(({ to }) => to === PERSONS.name)
      .flatMap(({ from }) =>
        from.flatMap((field) =>
          ['records', 'record_history'].map(
            (table) => sql<{ text: string }>`
              select payload ->> ${field}::text as text from ${sql.table(`intake_raw.${table}`)}
              where team_id = ${teamId} and stream = ${name} and id = any(${[...(found.get(name) ?? [])]}::text[])
                and jsonb_typeof(payload -> ${field}::text) = 'object'
                and ${id} in (payload -> ${field}::text ->> 'id', payload -> ${field}::text ->> 'uid')`,
          ),
        ),
      ),
  )
  const { rows } = await sql<{ text: string }>`
    ${sql.join(
      [
        sql`select payload::text as text from intake_raw.records where ${own} and id = ${id} and payload is not null`,
        sql`select payload::text from intake_raw.record_history where ${own} and id = ${id} and payload is not null`,
        ...payloads,
      ],
      sql` union `,
    )}`.execute(db)
  const bodies = await sql<{ body: Buffer }>`
    select body from intake_raw.inbox
    where team_id = ${teamId} and source = ${PERSONS.source ?? null} and record_id = ${id}
    union all
    select stored.body from intake_ops.dead_letters dead join intake_raw.set_aside stored on stored.dead_letter_id = dead.id
    where dead.team_id = ${teamId} and dead.stream = ${PERSONS.name} and dead.record_id = ${id}`.execute(db)
  return [...rows.map(({ text }) => parseText(text)), ...bodies.rows.map(({ body }) => personInBody(body))]
}

function personInBody(body: Buffer): unknown {
  try {
    const { value } = parseJson(body)
    return isObject(value) && 'event_type' in value ? value.data : value
  } catch {
    return null
  }
}

/** Rows of exports that are the patient's. */
export interface Clients {
  /** The client ids by which exports name the patient, or may do so later, the patient's id first. */
  readonly ids: readonly string[]
  /** Rows without a client id that have the patient's values in all columns `same`. */
  readonly unnamed: readonly UnnamedRow[]
}

export interface UnnamedRow {
  readonly exportId: string
  readonly row: number
  /** Its values in the columns `same`. */
  readonly values: readonly string[]
}

/**
 * The specification does not define client ids: candidates are every id that the patient ever had, and the client id of a row
 * with the same name and e-mail address. An id that is another patient's now is none.
 */
export async function findClients(
  db: Kysely<Warehouse>,
  patient: Patient,
  { aliases, names, former }: Identities,
): Promise<Clients> {
  const { teamId, id } = patient
  const columns = sql.join(same.map((name) => sql`lower(line.${sql.ref(name)})`))
  const lists = sql.join(same.map((_, at) => sql`${names.map((values) => values[at]!)}::text[]`))
  const lowered = sql.join(same.map((_, at) => sql`lower(${sql.ref(`v${at}`)})`))
  const cells = sql.join(same.map((_, at) => sql.ref(`v${at}`)))
  const wasNamed = isFormer(teamId, former, sql`'person ' || lower(${joined(same)})`)
  const isNamed = sql`((${columns}) in (select ${lowered} from unnest(${lists}) as given (${cells})) or ${wasNamed})`
  const { rows } = await sql<{ client: string }>`
    select distinct line.client_id as client from intake.export_rows line
    where line.team_id = ${teamId} and line.client_id <> ${id} and ${isNobodyElse(patient)}
      and (line.client_id = any(${[...aliases]}::text[]) or ${isNamed}
        or ${isFormer(teamId, former, sql`'client ' || line.client_id`)})
    union
    select line.client_id from unnest(${[...aliases]}::text[]) as line (client_id)
    where line.client_id <> ${id} and ${isNobodyElse(patient)}
    order by 1`.execute(db)
  const unnamed = await sql<UnnamedRow>`
    select export_id as "exportId", row_number as "row", array[${sql.join(same.map((name) => sql.ref(name)))}] as "values"
    from intake.export_rows line
    where line.team_id = ${teamId} and line.client_id is null and ${isNamed} order by 1, 2`.execute(db)
  return { ids: [id, ...rows.map(({ client }) => client)], unnamed: unnamed.rows }
}

/** The columns of a row `line`, as `exportPerson` joins them. */
function joined(columns: readonly string[]): RawBuilder<string> {
  return sql`${sql.join(
    columns.map((name) => sql`line.${sql.ref(name)}`),
    sql` || E'\\n' || `,
  )}`
}

/** Whether a subject of exports is among the hashes: HMAC-SHA256 as `hashesOf` computes it. */
function isFormer(
  teamId: number,
  former: readonly string[],
  subject: RawBuilder<unknown>,
): RawBuilder<boolean> {
  if (former.length === 0) return sql`false`
  const pad = (byte: number) =>
    sql`(select intake_ops.hmac_pad(key, ${sql.lit(byte)}) from intake_ops.erasure_key)`
  const prefix = `${teamId}\n${FILES.name}\n`
  return sql`encode(sha256(${pad(92)} || sha256(${pad(54)} || convert_to(${prefix}::text || ${subject}, 'UTF8'))), 'hex')
    = any(${[...former]}::text[])`
}

/** Of a row `line` of an export: its client id is not another patient's. */
function isNobodyElse({ teamId, id }: Patient): RawBuilder<boolean> {
  const conditions = ['id', ...PERSONS.person.alias].map(
    (name) => sql`not exists (
      select from ${sql.table(`intake.${PERSONS.table}`)} other
      where other.team_id = ${teamId} and other.id <> ${id} and other.${sql.ref(name)} = line.client_id)`,
  )
  return sql`${sql.join(conditions, sql` and `)}`
}
