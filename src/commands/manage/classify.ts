/** `intake-sync classify`: which questions' answers analysts may see. */
import { Command } from 'commander'
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
    .option('--form <form>', 'of this form alone: its id or name')
    .option('--hidden', 'only those of which nothing is seen')
    .action((options: ListOptions) => listDecisions(context, options))
  const set = named('set', 'decide on one question')
    .argument('<question>', 'its id: see classify list')
    .argument('[visibility]', 'visible or hidden; may be left out beside --concept', visibility)
    .option('--form <form>', 'in this form alone: its id or name')
    .option('--concept <name>', 'what it asks, to join versions and languages; empty for none')
    .action((question: string, isVisible: boolean | undefined, options: SetOptions) =>
      setDecision(context, question, isVisible, options),
    )
  const load = named(
    'import',
    'decide on many: a CSV file with the columns question_id, visibility, and, if you like, form, team, concept',
  )
    .argument('<file>', 'the file; classify list --json and a spreadsheet make one')
    .action((file: string, options: { readonly team?: string; readonly json?: true }) =>
      importDecisions(context, file, options),
    )
  const group = new Command('classify')
    .description('which questions’ answers analysts may see')
    .addHelpText('after', HELP)
  for (const each of [list, set, load]) group.addCommand(each)
  return group
}

function named(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--team <name>', 'of this team alone')
    .option('--json', 'print one JSON document')
}

const HELP = `
Without a decision, choices that the form offers, numbers and checkboxes are seen; texts, dates, matrices and all the
rest are not. A question that is decided to be visible shows everything: its texts too, and of dates the year. A
decision holds for the text and type that the question has now: once either changes, the question is hidden again.`
