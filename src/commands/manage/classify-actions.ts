/**
 * The actions of `classify`.
 *
 * Invariant: a file is imported as a whole or not at all. A question that does not exist is an error.
 */
import { teamNamed } from '../../analytics/access.ts'
import {
  countQuestions,
  decide,
  decideForResearchers,
  type ForResearchers,
  listQuestions,
  nameConcept,
  noteQuestions,
  type Question,
  questionsOfText,
  type Scope,
  type Visibility,
} from '../../analytics/classify.ts'
import { requireMigrated } from '../../analytics/migrate.ts'
import { readConfig } from '../../config/config.ts'
import { IntakeError, UsageError } from '../../core/errors.ts'
import { openSession, type Session } from '../../warehouse/connect.ts'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { type Context, openWarehouse, printJson } from '../context.ts'
import { shown, table } from '../printable.ts'
import { colored, paragraph, widthOf } from '../terminal.ts'
import { csvOf, readDecisions, visibilityIn } from './classify-file.ts'

export interface Common {
  readonly team?: string
  readonly json?: true
}

export interface ListOptions extends Common {
  readonly form?: string
  readonly hidden?: true
  readonly waiting?: true
  readonly csv?: true
}

export interface SetOptions extends Common {
  readonly form?: string
  readonly concept?: string
  readonly researchers?: ForResearchers
}

export async function listDecisions(context: Context, options: ListOptions): Promise<void> {
  await withSession(context, async ({ db }) => {
    const all = await listQuestions(db, await scopeOf(db, options))
    const questions = all.filter(
      ({ shows, waits }) => (!options.hidden || shows === 'nothing') && (!options.waiting || waits),
    )
    if (options.json) printJson(context, { questions })
    else context.stdout.write(options.csv ? csvText(context, questions) : listText(context, questions))
  })
}

export async function setDecision(
  context: Context,
  question: string,
  decided: Visibility | undefined,
  options: SetOptions,
): Promise<void> {
  const { concept, researchers } = options
  if (decided === undefined && concept === undefined && researchers === undefined) {
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
        ...{ question, text: question, decided, concept, researchers, place: 'QUESTION' },
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

/** A row without a visibility and a concept leaves its question as it is. */
export async function importDecisions(context: Context, file: string, options: Common): Promise<void> {
  const rows = await readDecisions(file)
  await withSession(context, async ({ db }) => {
    const questions = await db.transaction().execute(async (within) => {
      let count = 0
      for (const [at, row] of rows.entries()) {
        if (!row.visibility && !row.concept) continue
        const scope = await scopeOf(within, { team: row.team || options.team, form: row.form || undefined })
        const place = `row ${at + 1} of FILE`
        count += await decideOn(within, scope, {
          ...{ question: row.question_id || null, text: row.question_text || null, place },
          decided: row.visibility ? visibilityIn(row.visibility, place) : undefined,
          concept: row.concept || undefined,
        })
      }
      return count
    })
    if (options.json) printJson(context, { rows: rows.length, questions })
    else context.stdout.write(`decided on ${questions} question(s)\n`)
  })
}

interface Decision {
  /** Its id; null for the questions with the text. */
  readonly question: string | null
  readonly text: string | null
  /** Undefined leaves the visibility unchanged. */
  readonly decided: Visibility | undefined
  readonly concept: string | undefined
  readonly researchers?: ForResearchers | undefined
  /** Where the decision was given, for an error. */
  readonly place: string
}

async function decideOn(db: Session['db'], scope: Scope, decision: Decision): Promise<number> {
  const { decided, concept, researchers, place } = decision
  let questions = 0
  for (const { within, question } of await targetsOf(db, scope, decision)) {
    questions +=
      decided === undefined
        ? await countQuestions(db, within, question)
        : await decide(db, within, question, decided)
    if (concept !== undefined) await nameConcept(db, within, question, concept)
    if (researchers !== undefined) await decideForResearchers(db, within, question, researchers)
  }
  if (questions > 0) return questions
  throw new IntakeError(`${place} names a question that is not in the warehouse`, {
    code: 'unknown_question',
    verdict: 'stop',
    hint: 'see intake-sync classify list; intake-sync backfill --streams forms loads the forms',
  })
}

interface Target {
  readonly within: Scope
  readonly question: string
}

async function targetsOf(
  db: Session['db'],
  scope: Scope,
  { question, text }: Decision,
): Promise<readonly Target[]> {
  if (question !== null && (text === null || (await countQuestions(db, scope, question)) > 0))
    return [{ within: scope, question }]
  const found = await questionsOfText(db, scope, text ?? '')
  return found.map(({ teamId, form, questionId }) => ({ within: { teamId, form }, question: questionId }))
}

export async function scopeOf(
  db: Session['db'],
  { team, form }: { readonly team?: string | undefined; readonly form?: string | undefined },
): Promise<Scope> {
  return {
    ...(team === undefined ? {} : { teamId: (await teamNamed(db, team, '--team')).teamId }),
    ...(form === undefined ? {} : { form }),
  }
}

function csvText({ stdout }: Context, questions: readonly Question[]): string {
  if (stdout.isTTY !== true) return csvOf(questions)
  const plain = questions.map((each) => ({
    ...{ ...each, form: each.form === null ? null : shown(each.form) },
    question_text: shown(each.question_text),
  }))
  return csvOf(plain)
}

/** A table; on a terminal that is too narrow for it, three lines for each question, with the whole text. */
export function listText(context: Context, questions: readonly Question[]): string {
  if (questions.length === 0) return 'no question\n'
  const rows = questions.map((each) => [
    shown(each.form ?? each.form_id),
    each.question_id,
    shown(each.question_text),
    shown(each.question_type),
    each.shows,
    each.waits
      ? 'reworded: waits'
      : (each.decided_by ?? (each.shows === 'nothing' ? 'new or changed' : 'type')),
    shown(each.concept),
  ])
  const text = table([['form', 'question', 'text', 'type', 'shows', 'decided by', 'concept'], ...rows])
  const width = widthOf(context)
  if (width === null || text.split('\n').every((line) => [...line].length <= width)) return text
  let form = ''
  return rows
    .map(([name, id, words, type, shows, by, concept]) => {
      const head = name === form ? '' : colored(context, 'dim', paragraph(context, name!, 0))
      form = name!
      const about = `${type} · shows ${shows} · ${by}${concept === '' ? '' : ` · ${concept}`}`
      return head + paragraph(context, words!, 2) + paragraph(context, about, 4) + paragraph(context, id!, 4)
    })
    .join('')
}

export async function withSession(
  context: Context,
  work: (session: Session) => Promise<void>,
): Promise<void> {
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
