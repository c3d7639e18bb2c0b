/**
 * The actions of `classify`.
 *
 * Invariant: a file is imported as a whole or not at all. A question that does not exist is an error.
 */
import { readFile } from 'node:fs/promises'
import { InvalidArgumentError } from 'commander'
import { parse } from 'csv-parse/sync'
import { teamNamed } from '../../analytics/access.ts'
import {
  countQuestions,
  decide,
  listQuestions,
  nameConcept,
  noteQuestions,
  type Question,
  type Scope,
  type Visibility,
} from '../../analytics/classify.ts'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { IntakeError, UsageError } from '../../core/errors.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { type Context, openWarehouse, printJson } from '../context.ts'
import { shown } from '../terminal/printable.ts'
import { fittedTable } from '../terminal/terminal.ts'

interface Common {
  readonly team?: string
  readonly json?: true
}

export interface ListOptions extends Common {
  readonly form?: string
  readonly hidden?: true
  readonly waiting?: true
}

export interface SetOptions extends Common {
  readonly form?: string
  readonly concept?: string
}

export async function listDecisions(context: Context, options: ListOptions): Promise<void> {
  await withSession(context, async ({ db }) => {
    const all = await listQuestions(db, await scopeOf(db, options))
    const questions = all.filter(
      ({ shows, waits }) => (!options.hidden || shows === 'nothing') && (!options.waiting || waits),
    )
    if (options.json) printJson(context, { questions })
    else context.stdout.write(listText(context, questions))
  })
}

export async function setDecision(
  context: Context,
  question: string,
  decided: Visibility | undefined,
  options: SetOptions,
): Promise<void> {
  if (decided === undefined && options.concept === undefined) {
    throw new UsageError(
      'neither a visibility nor a concept was given',
      'write visible, structured or hidden, or --concept NAME',
      'VISIBILITY',
    )
  }
  await withSession(context, async ({ db }) => {
    const questions = await db.transaction().execute(async (within) => {
      const scope = await scopeOf(within, options)
      return await decideOn(within, scope, {
        question,
        decided,
        concept: options.concept,
        place: 'QUESTION',
      })
    })
    const word = decided ?? null
    if (options.json) printJson(context, { question_id: question, visibility: word, questions })
    else {
      const many = questions === 1 ? 'one question' : `${questions} questions`
      context.stdout.write(`${word ?? 'visibility unchanged'}: ${many}\n`)
    }
  })
}

export async function importDecisions(context: Context, file: string, options: Common): Promise<void> {
  const rows = await rowsOf(file)
  await withSession(context, async ({ db }) => {
    const questions = await db.transaction().execute(async (within) => {
      let count = 0
      for (const [at, row] of rows.entries()) {
        const scope = await scopeOf(within, { team: row.team || options.team, form: row.form || undefined })
        const place = `row ${at + 1} of FILE`
        const decided = row.visibility || !row.concept ? visibilityIn(row.visibility, place) : undefined
        count += await decideOn(within, scope, {
          ...{ question: row.question_id ?? '', decided, place },
          concept: row.concept === '' ? undefined : row.concept,
        })
      }
      return count
    })
    if (options.json) printJson(context, { rows: rows.length, questions })
    else context.stdout.write(`decided on ${questions} question(s)\n`)
  })
}

/** The words are those of `classify list` too: everything, structured, nothing. */
export function visibility(text: string): Visibility {
  const word = text.trim().toLowerCase()
  if (['visible', 'shown', 'show', 'true', 'yes', 'everything'].includes(word)) return 'visible'
  if (['structured', 'by type', 'by-type', 'type'].includes(word)) return 'structured'
  if (['hidden', 'hide', 'false', 'no', 'nothing'].includes(word)) return 'hidden'
  throw new InvalidArgumentError('Use visible or hidden, or structured for what its type shows.')
}

interface Decision {
  readonly question: string
  /** Undefined leaves the visibility unchanged. */
  readonly decided: Visibility | undefined
  readonly concept: string | undefined
  /** Where the decision was given, for an error. */
  readonly place: string
}

async function decideOn(db: Session['db'], scope: Scope, decision: Decision): Promise<number> {
  const { question, decided, concept, place } = decision
  const questions =
    decided === undefined
      ? await countQuestions(db, scope, question)
      : await decide(db, scope, question, decided)
  if (questions === 0) {
    throw new IntakeError(`${place} names a question that is not in the warehouse`, {
      code: 'unknown_question',
      verdict: 'stop',
      hint: 'see intake-sync classify list; intake-sync backfill --streams forms loads the forms',
    })
  }
  if (concept !== undefined) await nameConcept(db, scope, question, concept)
  return questions
}

interface Row {
  readonly question_id?: string
  readonly visibility?: string
  readonly form?: string
  readonly team?: string
  readonly concept?: string
}

async function rowsOf(file: string): Promise<readonly Row[]> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException
    throw new UsageError(
      `FILE cannot be read (${code})`,
      'check the path and its permissions',
      'FILE',
      'file_unreadable',
    )
  }
  try {
    const rows = parse(text, { bom: true, columns: true, skip_empty_lines: true, trim: true }) as Row[]
    if (rows.length === 0 || (rows[0]?.question_id !== undefined && rows[0].visibility !== undefined))
      return rows
  } catch {
    // Its message quotes the file.
  }
  throw new UsageError(
    'FILE is not a CSV file with the columns question_id and visibility',
    'name the columns in its first line: question_id,visibility,form,team,concept',
    'FILE',
    'definition_invalid',
  )
}

function visibilityIn(text: string | undefined, place: string): Visibility {
  try {
    return visibility(text ?? '')
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error
    throw new UsageError(
      `the visibility in ${place} is none of visible, structured and hidden`,
      error.message,
      'FILE',
      'definition_invalid',
    )
  }
}

async function scopeOf(
  db: Session['db'],
  { team, form }: { readonly team?: string | undefined; readonly form?: string | undefined },
): Promise<Scope> {
  return {
    ...(team === undefined ? {} : { teamId: (await teamNamed(db, team, '--team')).teamId }),
    ...(form === undefined ? {} : { form }),
  }
}

/** Column numbers. On a narrow terminal the SPARE columns are dropped in this order, then the text is cut. */
const TEXT = 2
const SPARE = [6, 5, 3]

function listText(context: Context, questions: readonly Question[]): string {
  if (questions.length === 0) return 'no question\n'
  const rows = questions.map((each) => [
    shown(each.form ?? each.form_id),
    each.question_id,
    shown(each.question_text).slice(0, 60),
    shown(each.question_type),
    each.shows,
    each.waits
      ? 'reworded: waits'
      : (each.decided_by ?? (each.shows === 'nothing' ? 'new or changed' : 'type')),
    shown(each.concept),
  ])
  const head = ['form', 'question', 'text', 'type', 'shows', 'decided by', 'concept']
  return fittedTable(context, [head, ...rows], TEXT, SPARE)
}

async function withSession(context: Context, work: (session: Session) => Promise<void>): Promise<void> {
  await using warehouse = await openWarehouse(context, readConfig(context.env))
  await requireMigrated(warehouse.url)
  await using session = await openSession({ url: warehouse.url, purpose: 'classify' })
  try {
    // Records the wording of new questions, so that a later change is detected.
    await noteQuestions(session.db)
    await work(session)
  } catch (error) {
    throw warehouseError(error)
  }
}
