/**
 * Scored questionnaires (intake_ops.instruments): those of sql/instruments, and those that users import.
 *
 * Invariant: a definition is stored as a whole or not at all, and a built-in one is always that of this version. Scores are
 * not stored: intake_analytics.scores computes them from the answers.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { type Kysely, sql } from 'kysely'
import { z } from 'zod'
import { UsageError } from '../core/errors.ts'
import { SQL_FOLDER } from '../warehouse/migrations.ts'
import type { Warehouse } from '../warehouse/tables.ts'

const text = z.string().trim().min(1).max(500)
const points = z.record(text, z.number().min(-1000).max(1000))
const item = z.strictObject({
  /** Concepts (classify set --concept) that mean this item, such as LOINC codes. */
  codes: z.array(text).default([]),
  /** Texts of the question; case, punctuation and a leading number do not count. */
  wordings: z.array(text).default([]),
  /** Points of the choices of this item; those of the instrument where left out. */
  points: points.optional(),
})

const instrumentShape = z
  .strictObject({
    instrument: z.string().regex(/^[a-z][a-z0-9-]{0,39}$/, 'is not a short name such as phq-9'),
    title: text,
    source: text,
    /** Items that must be answered for a score; the others take the mean of these. */
    least_answered: z.int().min(1),
    /** Place of an item whose 0 points make unanswered items count as 0. */
    zero_item: z.int().min(1).optional(),
    points: points.optional(),
    items: z.array(item).min(1).max(200),
    bands: z.array(
      z.strictObject({ from: z.number(), sex: z.enum(['any', 'female', 'male']).default('any'), band: text }),
    ),
  })
  .superRefine((instrument, context) => {
    const { items, least_answered, zero_item = 1 } = instrument
    const complain = (path: (string | number)[], message: string) =>
      context.addIssue({ code: 'custom', path, message })
    if (least_answered > items.length) complain(['least_answered'], 'is more than there are items')
    if (zero_item > items.length) complain(['zero_item'], 'is not the place of an item')
    for (const [place, own] of items.entries())
      if (own.points === undefined && instrument.points === undefined)
        complain(['items', place, 'points'], 'is missing here and for the whole instrument')
  })

export type Instrument = z.output<typeof instrumentShape>

export interface StoredInstrument {
  readonly instrument: string
  readonly title: string
  readonly source: string
  readonly items: number
  readonly is_built_in: boolean
  /** Forms of all teams that have a question for each item. */
  readonly forms: number
}

/** Parses a definition. Throws `UsageError` that names the field at fault. */
export function parseInstrument(json: string): Instrument {
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch {
    throw new UsageError(
      'the file is not JSON',
      'see docs/instruments.md for an example',
      undefined,
      'definition_invalid',
    )
  }
  const { data, error } = instrumentShape.safeParse(value)
  if (data !== undefined) return data
  const [issue] = error.issues
  throw new UsageError(
    `the definition is wrong at ${issue!.path.join('.') || 'its top'}: ${issue!.message}`,
    'see docs/instruments.md for an example',
    undefined,
    'definition_invalid',
  )
}

/** Stores the built-in instruments that are missing or changed, unless the user has one of that name. */
export async function syncInstruments(db: Kysely<Warehouse>): Promise<void> {
  const folder = new URL('instruments/', SQL_FOLDER)
  const names = (await readdir(folder)).filter((name) => name.endsWith('.json')).sort()
  const texts = await Promise.all(names.map((name) => readFile(new URL(name, folder), 'utf8')))
  const { rows } = await sql<{ hash: Buffer }>`
    select hash from intake_ops.instruments where is_built_in`.execute(db)
  const known = new Set(rows.map(({ hash }) => hash.toString('hex')))
  for (const text of texts) {
    if (known.has(hashOf(text).toString('hex'))) continue
    const instrument = parseInstrument(text)
    if (await isOfUser(db, instrument.instrument)) continue
    await db.transaction().execute((within) => store(within, instrument, text, true))
  }
}

async function isOfUser(db: Kysely<Warehouse>, name: string): Promise<boolean> {
  const { rows } = await sql`
    select from intake_ops.instruments where instrument = ${name} and not is_built_in`.execute(db)
  return rows.length > 0
}

/** Stores an instrument of the user in place of an earlier one with its name. */
export async function importInstrument(db: Kysely<Warehouse>, json: string): Promise<Instrument> {
  const instrument = parseInstrument(json)
  await db.transaction().execute(async (within) => {
    await refuseBuiltIn(within, instrument.instrument)
    await store(within, instrument, json, false)
  })
  return instrument
}

/** Returns whether there was one. Throws for a built-in one. */
export async function removeInstrument(db: Kysely<Warehouse>, name: string): Promise<boolean> {
  await refuseBuiltIn(db, name)
  const { rows } = await sql`
    delete from intake_ops.instruments where instrument = ${name} returning instrument`.execute(db)
  return rows.length > 0
}

export async function listInstruments(db: Kysely<Warehouse>): Promise<readonly StoredInstrument[]> {
  const { rows } = await sql<StoredInstrument>`
    select i.instrument, i.title, i.source, i.is_built_in,
      (select count(*)::int from intake_ops.instrument_items own where own.instrument = i.instrument) as items,
      (
        select count(*)::int from (
          select from intake_analytics.instrument_questions question where question.instrument = i.instrument
          group by team_id, form_id
          having count(distinct item)
            = (select count(*) from intake_ops.instrument_items own where own.instrument = i.instrument)
        ) form
      ) as forms
    from intake_ops.instruments i order by i.instrument`.execute(db)
  return rows
}

async function refuseBuiltIn(db: Kysely<Warehouse>, name: string): Promise<void> {
  const { rows } = await sql`
    select from intake_ops.instruments where instrument = ${name} and is_built_in`.execute(db)
  if (rows.length > 0)
    throw new UsageError(
      `"${name}" is built in`,
      'give your definition another name, such as one with your initials',
    )
}

async function store(
  db: Kysely<Warehouse>,
  given: Instrument,
  json: string,
  isBuiltIn: boolean,
): Promise<void> {
  const { instrument: name, items, bands } = given
  await sql`delete from intake_ops.instruments where instrument = ${name}`.execute(db)
  await sql`
    insert into intake_ops.instruments (instrument, title, source, least_answered, zero_item, is_built_in, hash)
    values (${name}, ${given.title}, ${given.source}, ${given.least_answered}, ${given.zero_item ?? null}, ${isBuiltIn},
      ${hashOf(json)})`.execute(db)
  for (const [place, { codes, wordings, points = given.points! }] of items.entries()) {
    const number = place + 1
    await sql`
      insert into intake_ops.instrument_items (instrument, item, codes, wordings)
      values (${name}, ${number}, ${codes}::text[],
        array(select intake_ops.plain_wording(wording) from unnest(${wordings}::text[]) as wording))`.execute(
      db,
    )
    await sql`
      insert into intake_ops.instrument_points (instrument, item, choice, points)
      select ${name}, ${number}, intake_ops.plain_wording(choice), min(points)
      from unnest(${Object.keys(points)}::text[], ${Object.values(points)}::numeric[]) as given (choice, points)
      group by intake_ops.plain_wording(choice)`.execute(db)
  }
  await sql`
    insert into intake_ops.instrument_bands (instrument, sex, from_score, band)
    select ${name}, sex, from_score, band
    from unnest(${bands.map((band) => band.sex)}::text[], ${bands.map((band) => band.from)}::numeric[],
      ${bands.map((band) => band.band)}::text[]) as given (sex, from_score, band)`.execute(db)
}

const hashOf = (text: string) => createHash('sha256').update(text).digest()
