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
  visibility,
} from './classify-actions.ts'

export function classifyCommand(context: Context): Command {
  const list = named('list', 'the questions, and what analysts see of their answers')
    .option('--form <form>', 'only questions of this form: its id or name')
    .option('--hidden', 'only questions whose answers are hidden')
    .option('--waiting', 'only questions that were reworded and wait for a decision')
    .action((options: ListOptions) => listDecisions(context, options))
  const set = named('set', 'decide on one question')
    .argument('<question>', 'its id: see classify list')
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
    'decide on many questions: a CSV file with the columns question_id and visibility, and optionally form, team, concept',
  )
    .argument('<file>', 'the file; classify list --json is a starting point')
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
than the choices of the form that its type had shown.`
