/** `intake-sync classify`: which questions' answers analysts may see. */
import { Command, Option } from 'commander'
import { decideOnTag, shownTags, type Visibility } from '../../analytics/classify.ts'
import { IntakeError, UsageError } from '../../core/errors.ts'
import { type Context, printJson } from '../context.ts'
import { shown, table } from '../printable.ts'
import {
  type Common,
  importDecisions,
  type ListOptions,
  listDecisions,
  type SetOptions,
  scopeOf,
  setDecision,
  withSession,
} from './classify-actions.ts'
import { visibility } from './classify-file.ts'

export function classifyCommand(context: Context): Command {
  const list = named('list', 'the questions, and what analysts see of their answers')
    .option('--form <form>', 'only questions of this form: its id or name')
    .option('--hidden', 'only questions whose answers are hidden')
    .option('--waiting', 'only questions that were reworded and wait for a decision')
    .option('--csv', 'as a file for classify import: fill in the column visibility')
    .action((options: ListOptions) => listDecisions(context, options))
  const set = named('set', 'decide on one question')
    .argument('<question>', 'its id or its text: see classify list')
    .argument(
      '[visibility]',
      'visible, hidden, or structured for what its type shows; optional with --concept or --researchers',
      visibility,
    )
    .option('--form <form>', 'only in this form: its id or name')
    .option(
      '--concept <name>',
      'a name shared by versions and translations of the question; empty removes it',
    )
    .addOption(
      new Option(
        '--researchers <what>',
        'what researchers see: structured (choices and ticks), visible (also numbers and years), age (years, those from 90 as one), hidden',
      ).choices(['visible', 'age', 'structured', 'hidden']),
    )
    .action((question: string, decided: Visibility | undefined, options: SetOptions) =>
      setDecision(context, question, decided, options),
    )
  const load = named(
    'import',
    'decide on many questions: a CSV file with the columns form, question_text and visibility, and optionally concept, team, question_id',
  )
    .argument('<file>', 'the file that classify list --csv wrote, with the column visibility filled in')
    .action((file: string, options: { readonly team?: string; readonly json?: true }) =>
      importDecisions(context, file, options),
    )
  const tag = named('tag', 'which tags researchers see; without arguments, lists these')
    .argument('[name]', 'the tag')
    .argument('[visibility]', 'visible or hidden', visibility)
    .action((name: string | undefined, decided: Visibility | undefined, options: Common) =>
      setTag(context, name, decided, options),
    )
  const group = new Command('classify')
    .description('decide which questions’ answers analysts may see')
    .addHelpText('after', HELP)
  for (const each of [list, set, load, tag]) group.addCommand(each)
  return group
}

async function setTag(
  context: Context,
  name: string | undefined,
  decided: Visibility | undefined,
  options: Common,
): Promise<void> {
  if ((name === undefined) !== (decided === undefined) || decided === 'structured')
    throw new UsageError('a tag needs a visibility', 'write visible or hidden', 'VISIBILITY')
  await withSession(context, async ({ db }) => {
    const scope = await scopeOf(db, options)
    if (name !== undefined && !(await decideOnTag(db, scope, name, decided === 'visible')))
      throw new IntakeError('no patient has this tag, or it is hidden already', {
        code: 'unknown_tag',
        verdict: 'stop',
        hint: 'write it as staff did; intake-sync classify tag lists those that are shown',
      })
    const tags = await shownTags(db, scope)
    if (options.json) return printJson(context, { tags })
    if (tags.length === 0) return void context.stdout.write('researchers see no tag\n')
    const rows = tags.map((tag) => [shown(tag.name), tag.team, String(tag.patients)])
    context.stdout.write(table([['shown tag', 'team', 'of how many'], ...rows]))
  })
}

function named(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--team <name>', 'only this team')
    .option('--json', 'print one JSON document')
}

const HELP = `
Without a decision, analysts see choices that the form offers, numbers and
checkboxes; texts, dates, matrices and other answers are hidden. A visible
question shows all its answers, including texts; dates show only the year. A
structured question shows what its type shows without a decision. A decision
applies to the answers to one wording: if the text or type of a question
changes, it waits for a decision (classify list --waiting), and shows no more
than the choices of the form that its type had shown.

Researchers (intake_safe_harbor) see only the choices and checkboxes that
analysts see, and no tag. They see numbers and years only after a decision with
--researchers, because analysts may see what Safe Harbor hides, such as a ZIP
code. Texts stay hidden.

A file names questions by form and text, or by question_id. Rows without a
visibility and a concept are left as they are.

  intake-sync classify list --csv > questions.csv
  intake-sync classify import questions.csv`
