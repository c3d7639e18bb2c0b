/**
 * The scripts of `completion`, as a whole, for commands with every kind of word: nested groups, short options, choices, streams,
 * and descriptions with quotes, colons and ends of lines. To update them: `npx vitest run FILE -u`.
 */
import { join } from 'node:path'
import { Argument, Command, Option } from 'commander'
import { expect, it } from 'vitest'
import { completionCommand } from '../../../src/commands/manage/completion.ts'

function commands(): readonly Command[] {
  const group = new Command('group')
    .description("a group: it's\n  two lines")
    .option('--json', 'one document')
  const inner = new Command('inner-most').description('below').option('-a, --all', 'each: all')
  group.addCommand(new Command('middle').description('between').addCommand(inner))
  const plain = new Command('plain')
    .argument('<stream>', 'a stream')
    .addArgument(new Argument('[kind]', 'a kind').choices(['one', 'two']))
    .option('-c, --command <sql>', "what's run")
    .option('--maybe [value]', 'may have a value')
    .option('--streams <names>', 'several')
    .option('--no-work', 'without')
    .addOption(new Option('-f, --format <name>', 'a format').choices(['csv', 'json']))
    .addOption(new Option('--only <name>').choices(['this']))
  return [group, plain]
}

it.each(['bash', 'zsh', 'fish'])('the script for %s completes all of it', async (shell) => {
  let text = ''
  const output = { write: (more: string | Uint8Array) => (text += String(more)) }
  const context = {
    env: {},
    stdout: output,
    stderr: output,
    signal: new AbortController().signal,
    version: '',
  }
  await completionCommand(context, async () => commands()).parseAsync([shell], { from: 'user' })
  await expect(text).toMatchFileSnapshot(join(import.meta.dirname, 'recorded', `completion.${shell}.txt`))
})
