/** What an installed package advises can be followed: it has no npm scripts, and only the files that npm packs. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, it } from 'vitest'
import { everyCommand } from '../../src/commands/program.ts'

const root = resolve(import.meta.dirname, '../..')
const read = (name: string) => readFileSync(join(root, name), 'utf8')

/** What `npm pack` packs. */
const { files } = JSON.parse(read('package.json')) as { files: readonly string[] }
const isPacked = (path: string) => files.includes(path.split('/')[0]!) && existsSync(join(root, path))

/** The sources without comments: what is left includes every message. */
const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.(?:ts|eta|js)$/.test(name))
  .map((name) => [`src/${name}`, withoutComments(read(`src/${name}`))] as const)

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\/|(?<![:'"`\w])\/\/.*/g, '')
}

/** Each match in the sources, with its file. */
const found = (pattern: RegExp) =>
  sources.flatMap(([name, text]) => [...text.matchAll(pattern)].map(([match]) => [name, match] as const))

it('no message names a script of npm, or what only a checkout has', () => {
  const only =
    /\bnpm (?:run|test|ci|install|start)\b[^'`\n]*|\bnode dist\b|(?<![\w./])(?:src|test|scripts|\.ci)\/[\w.-]+/g
  expect(found(only)).toEqual([])
  expect(withoutComments("say('npm run demo') // npm run words").match(only)).toEqual(['npm run demo'])
  // Where it is typed in a checkout, `npx` is added: see TYPED.
  expect(found(/npx [\w-]+/g)).toEqual([['src/commands/context.ts', 'npx intake-sync']])
})

it('each file that a message names is in the package', () => {
  const named = found(/(?<![\w./-])(?:docs|examples|schemas|man)\/[\w./-]*\w(?:#[\w-]+)?/g)
  expect(new Set(named.map(([, path]) => path)).size).toBeGreaterThan(5)
  expect(named.filter(([, path]) => !isPacked(path.split('#')[0]!))).toEqual([])
  expect(['docs', 'src', 'test', 'scripts', 'Dockerfile', 'docs/none.md'].filter(isPacked)).toEqual(['docs'])
})

/** Words of prose that follow the name of the program. */
const PROSE = new Set(['as', 'failed', 'itself', 'process', 'yet'])

it('each command and option that a message names exists', async () => {
  const context = { env: {}, stdout: { write: () => true }, stderr: { write: () => true } }
  const commands = await everyCommand({ ...context, signal: new AbortController().signal, version: '' })
  const optionsOf = (name: string) => {
    const command = commands.find((each) => each.name() === name)
    const all = command === undefined ? [] : [command, ...command.commands]
    return command && ['--help', ...all.flatMap(({ options }) => options.flatMap(({ long }) => long ?? []))]
  }
  const named = found(/\bintake-sync [a-z][a-z-]*(?:[ \w]*? --[a-z][a-z-]*)?/g)
  expect(named.length).toBeGreaterThan(80)
  const wrong = named.filter(([, match]) => {
    const [, name = '', option] = /^intake-sync ([a-z-]+)(?:[ \w]*? (--[a-z-]+))?$/.exec(match)!
    const options = optionsOf(name)
    return options === undefined ? !PROSE.has(name) : option !== undefined && !options.includes(option)
  })
  expect(wrong).toEqual([])
})
