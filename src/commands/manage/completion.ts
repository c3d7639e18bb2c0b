/**
 * `intake-sync completion`: scripts with which bash, zsh and fish complete commands, options and their values.
 *
 * Invariant: everything is read from the commands themselves; a script starts no process of ours.
 */
import { Argument, Command, type Option } from 'commander'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import type { Context } from '../context.ts'

type Commands = () => Promise<readonly Command[]>

const SCRIPTS = { bash, zsh, fish } as const

export function completionCommand(context: Context, commands: Commands): Command {
  return new Command('completion')
    .description('print a script that completes commands and options in a shell')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SCRIPTS)))
    .addHelpText('after', HELP)
    .action(async (shell: keyof typeof SCRIPTS) => {
      const places = (await commands()).flatMap((command) => placesOf(command, ''))
      const top: Place = {
        path: '',
        words: places.filter(({ path }) => !path.includes(' ')).map(named),
        values: [],
      }
      context.stdout.write(SCRIPTS[shell]([top, ...places]))
    })
}

const HELP = `
Put one of these into the start file of your shell:
  bash  source <(intake-sync completion bash)
  zsh   source <(intake-sync completion zsh)     after compinit
  fish  intake-sync completion fish | source`

interface Word {
  readonly word: string
  readonly description: string
}

/** The words that may follow those of `path`. */
interface Place {
  /** Names of commands, with a blank between two; empty at the start. */
  readonly path: string
  readonly description?: string
  readonly words: readonly Word[]
  /** Options that take a value; the values are empty where any text will do. */
  readonly values: readonly { readonly flags: readonly string[]; readonly choices: readonly string[] }[]
}

const STREAMS = ALL_STREAMS.map(({ name }) => name)

function placesOf(command: Command, above: string): readonly Place[] {
  const path = `${above} ${command.name()}`.trim()
  const { options } = command
  const own: Word[] = [
    ...command.commands.map((each) => ({ word: each.name(), description: each.description() })),
    ...command.registeredArguments.flatMap((argument) =>
      (argument.argChoices ?? (argument.name() === 'stream' ? STREAMS : [])).map((word) => ({
        word,
        description: '',
      })),
    ),
    ...options.flatMap((option) =>
      flagsOf(option).map((word) => ({ word, description: option.description })),
    ),
    { word: '--help', description: 'display help for command' },
  ]
  const values = options
    .filter((option) => option.required || option.optional)
    .map((option) => ({ flags: flagsOf(option), choices: choicesOf(option) }))
  const place = { path, description: command.description(), words: own, values }
  return [place, ...command.commands.flatMap((each) => placesOf(each, path))]
}

function named({ path, description = '' }: Place): Word {
  return { word: path, description }
}

function flagsOf({ short, long }: Option): readonly string[] {
  return [short, long].flatMap((flag) => (flag ? [flag] : []))
}

function choicesOf(option: Option): readonly string[] {
  return option.argChoices ?? (/^--streams?$/.test(option.long ?? '') ? STREAMS : [])
}

/** Patterns of `case` in a shell: the place so far, a slash, and the word that leads on. */
function steps(places: readonly Place[]): readonly string[] {
  return places
    .filter(({ path }) => path !== '')
    .map(({ path }) => {
      const at = path.lastIndexOf(' ')
      return `${path.slice(0, Math.max(0, at))}/${path.slice(at + 1)}`
    })
}

function bash(places: readonly Place[]): string {
  const words = places.map(
    ({ path, words: own }) => `    '${path}') words='${own.map(({ word }) => word).join(' ')}' ;;`,
  )
  const values = places.flatMap(({ path, values: own }) =>
    own.map(({ flags, choices }) => {
      const patterns = flags.map((flag) => `'${path}/${flag}'`).join('|')
      return `    ${patterns}) words='${choices.join(' ')}' ;;`
    }),
  )
  return `# bash completion of intake-sync
_intake_sync() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" place='' words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$place/\${COMP_WORDS[i]}" in
      ${steps(places)
        .map((step) => `'${step}'`)
        .join('|')}) place="\${place:+$place }\${COMP_WORDS[i]}" ;;
    esac
  done
  case "$place/$prev" in
${values.join('\n')}
    *) case "$place" in
${words.join('\n')}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _intake_sync intake-sync
`
}

function zsh(places: readonly Place[]): string {
  const entry = ({ word, description }: Word) =>
    quoted(`${word.replaceAll(':', '\\:')}${description === '' ? '' : `:${description}`}`)
  const words = places.map(({ path, words: own }) => `    '${path}') found=(${own.map(entry).join(' ')}) ;;`)
  const values = places.flatMap(({ path, values: own }) =>
    own.map(({ flags, choices }) => {
      const patterns = flags.map((flag) => `'${path}/${flag}'`).join('|')
      return `    ${patterns}) found=(${choices.join(' ')}); (( \${#found} )) || { _files; return } ;;`
    }),
  )
  return `#compdef intake-sync
_intake_sync() {
  local place='' i
  local -a found
  for ((i = 2; i < CURRENT; i++)); do
    case "$place/\${words[i]}" in
      ${steps(places)
        .map((step) => `'${step}'`)
        .join('|')}) place="\${place:+$place }\${words[i]}" ;;
    esac
  done
  case "$place/\${words[CURRENT-1]}" in
${values.join('\n')}
    *) case "$place" in
${words.join('\n')}
    esac ;;
  esac
  _describe -o 'intake-sync' found || _files
}
compdef _intake_sync intake-sync
`
}

function fish(places: readonly Place[]): string {
  const lines = places.flatMap(({ path, words, values }) => {
    const at = `complete -c intake-sync -n '__intake_sync_at ${path}'`
    const plain = words
      .filter(({ word }) => !word.startsWith('-'))
      .map(({ word, description }) => `${at} -f -a ${word} -d ${quoted(description)}`)
    const options = words
      .filter(({ word }) => word.startsWith('--'))
      .map(({ word, description }) => {
        const value = values.find(({ flags }) => flags.includes(word))
        const choices =
          value === undefined
            ? ''
            : value.choices.length === 0
              ? ' -r'
              : ` -x -a '${value.choices.join(' ')}'`
        return `${at} -l ${word.slice(2)}${choices} -d ${quoted(description)}`
      })
    return [...plain, ...options]
  })
  return `# fish completion of intake-sync
function __intake_sync_at
  set -l place ''
  for word in (commandline -opc)[2..-1]
    switch "$place/$word"
      case ${steps(places)
        .map((step) => `'${step}'`)
        .join(' ')}
        set place (string trim "$place $word")
    end
  end
  test "$place" = "$argv"
end
${lines.join('\n')}
`
}

/** For a shell, in one line. fish understands the same quotes. */
function quoted(text: string): string {
  return `'${text.replace(/\s+/g, ' ').replaceAll("'", '’')}'`
}
