/**
 * The part of Go's template language that docs/deploy/chart uses: fields, pipes to `quote`, `default`, `toYaml` and
 * `nindent`, `if`, `range`, and the dashes that remove blanks. Anything else throws.
 */
import { stringify } from 'yaml'

type Values = Readonly<Record<string, unknown>>

/** Each piece is text or the content of an action. */
function piecesOf(template: string): readonly { readonly action: boolean; readonly text: string }[] {
  return template
    .replace(/\s*\{\{-/g, '{{')
    .replace(/-\}\}\s*/g, '}}')
    .split(/(\{\{.*?\}\})/)
    .map((text) =>
      text.startsWith('{{') ? { action: true, text: text.slice(2, -2).trim() } : { action: false, text },
    )
}

export function rendered(template: string, root: Values): string {
  const pieces = piecesOf(template)
  let at = 0

  function block(variables: Values, silent: boolean): string {
    let out = ''
    while (at < pieces.length) {
      const { action, text } = pieces[at]!
      at += 1
      if (!action) out += text
      else if (text === 'end') return silent ? '' : out
      else if (text.startsWith('if ')) out += block(variables, !value(text.slice(3), variables))
      else if (text.startsWith('range ')) out += repeated(text, variables)
      else out += shown(value(text, variables))
    }
    return silent ? '' : out
  }

  function repeated(text: string, variables: Values): string {
    const [, name, each, of] = /^range \$(\w+), \$(\w+) := (.+)$/.exec(text) ?? unknown(text)
    const entries = Object.entries(value(of!, variables) as object).sort()
    const from = at
    if (entries.length === 0) return block(variables, true)
    return entries
      .map(([key, content]) => {
        at = from
        return block({ ...variables, [`$${name}`]: key, [`$${each}`]: content }, false)
      })
      .join('')
  }

  function value(expression: string, variables: Values): unknown {
    const [first, ...pipes] = expression.split(' | ')
    return pipes.reduce((before, call) => applied(call.split(' '), before, variables), one(first!, variables))
  }

  function one(text: string, variables: Values): unknown {
    const [word, argument, ...more] = text.split(' ')
    if (more.length > 0) unknown(text)
    if (argument !== undefined) return applied([word!], one(argument, variables), variables)
    if (word!.startsWith('$')) return Object.hasOwn(variables, word!) ? variables[word!] : unknown(text)
    if (!word!.startsWith('.')) return unknown(text)
    return word!
      .slice(1)
      .split('.')
      .reduce<unknown>((found, key) => {
        const map = found as Values
        return Object.hasOwn(map, key) ? map[key] : unknown(text)
      }, root)
  }

  function applied([name, argument]: readonly string[], before: unknown, variables: Values): unknown {
    if (name === 'quote') return JSON.stringify(String(before))
    if (name === 'default') return before === '' || before === undefined ? one(argument!, variables) : before
    if (name === 'toYaml') return stringify(before).trimEnd()
    if (name === 'nindent')
      return String(before)
        .split('\n')
        .map((line) => `\n${' '.repeat(Number(argument))}${line}`)
        .join('')
    return unknown(name!)
  }

  return block({}, false)
}

function shown(value: unknown): string {
  if (typeof value === 'object') throw new Error('a map is no text: use toYaml')
  return String(value)
}

function unknown(text: string): never {
  throw new Error(`the template has what is not known: ${text}`)
}
