/** `intake-sync classify`: which questions' answers analysts may see. */
import { Command } from 'commander'
import type { Visibility } from '../../analytics/classify.ts'
import type { Context } from '../context.ts'
import {
  importDecisions,
  type ListOptions,
  listDecisions,
  type SetOptions,
  setDecision,
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
      'visible, hidden, or structured for what its type shows; optional with --concept',
      visibility,
    )
    .option('--form <form>', 'only in this form: its id or name')
    .option(
      '--concept <name>',
      'a name shared by versions and translations of the question; empty removes it',
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
  const group = new Command('classify')
    .description('decide which questions’ answers analysts may see')
    .addHelpText('after', HELP)
  for (const each of [list, set, load]) group.addCommand(each)
  return group
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

A file names questions by form and text, or by question_id. Rows without a
visibility and a concept are left as they are.

  intake-sync classify list --csv > questions.csv
  intake-sync classify import questions.csv`
