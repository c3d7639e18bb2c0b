import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'

import { readConfig } from '../src/config/config.ts'
import { readEnvFile, withEnvFile } from '../src/config/settings.ts'
import { runCommand } from './support/run-command.ts'

/** Everything that the documents name exists: commands, options, variables, scripts, files; and the lock file is complete. */
const root = resolve(import.meta.dirname, '..')
const read = (name: string) => readFileSync(join(root, name), 'utf8')
const documents = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'examples/README.md',
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
]
const readme = read('README.md')

const helps = new Map<string, string>()
async function helpOf(...command: string[]): Promise<string> {
  const key = command.join(' ')
  const help = helps.get(key) ?? (await runCommand([...command, '--help'], {})).stdout
  helps.set(key, help)
  return help
}

async function commands(): Promise<readonly string[]> {
  return [...(await helpOf()).matchAll(/^ {2}([a-z][\w-]*) /gm)].map((match) => match[1]!)
}

interface Block {
  readonly language: string
  readonly text: string
}

function blocksOf(markdown: string): readonly Block[] {
  return [...markdown.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    language: match[1]!,
    text: match[2]!,
  }))
}

/** Anchors of the headings, as GitHub names them. */
const anchorsOf = (markdown: string) =>
  [...markdown.matchAll(/^#+ (.+)$/gm)].map((match) =>
    match[1]!
      .toLowerCase()
      .replace(/[^\w -]/g, '')
      .replaceAll(' ', '-'),
  )

describe('README.md', () => {
  test('names every command, with its options, and no other', async () => {
    const rows = [...readme.matchAll(/^\| `([a-z][a-z-]*)((?: [^`]*)?)` \| /gm)]
    const named = rows.map((row) => row[1]!)
    expect(named.toSorted()).toEqual((await commands()).filter((name) => name !== 'help').toSorted())
    for (const [, command, options] of rows) {
      const nested = /^ ([a-z]+) /.exec(options!)?.slice(1) ?? []
      for (const [option] of options!.matchAll(/--[a-z-]+/g))
        expect(await helpOf(command!, ...nested)).toContain(option)
    }
  })

  test('shows command lines that exist', async () => {
    const text = blocksOf(readme)
      .map((block) => block.text)
      .join('\n')
    const lines = [...`${text}\n${readme}`.matchAll(/npx intake-sync ([a-z]+)([^\n`>#]*)/g)]
    expect(lines.length).toBeGreaterThan(3)
    for (const [, command, rest] of lines) {
      expect(await commands()).toContain(command)
      const nested = /^ ([a-z]+) --/.exec(rest!)?.slice(1) ?? []
      const help = await helpOf(command!, ...nested)
      for (const [option] of rest!.matchAll(/--[a-z-]+/g)) expect(help).toContain(option)
    }
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
    for (const [, script] of readme.matchAll(/npm run ([\w:]+)/g))
      expect(Object.keys(scripts)).toContain(script)
  })

  test('names only variables that exist', () => {
    const sources = ['config/config.ts', 'config/team.ts', 'config/file.ts', 'config/settings.ts']
      .map((name) => read(`src/${name}`))
      .join('\n')
    const support = read('test/support/server.ts')
    const names = new Set(readme.match(/\b(?:INTAKE_[A-Z_]+|[A-Z_]*DATABASE_URL|LOG_LEVEL)\b/g))
    for (const name of names) expect(`${sources}${support}`).toContain(name.replace(/_FILE$/, ''))
  })

  test('shows configuration that is accepted', () => {
    const blocks = blocksOf(readme).filter((block) => block.language === 'json')
    expect(blocks).toHaveLength(1)
    const { teams, ...rest } = JSON.parse(blocks[0]!.text) as { teams: Record<string, string>[] }
    const file = JSON.stringify({
      ...rest,
      teams: teams.map((team) => ({ ...team, apiKey: 'env:KEY', apiSecret: 'env:KEY' })),
    })
    const directory = mkdtempSync(join(tmpdir(), 'intake-sync-docs-'))
    writeFileSync(join(directory, 'intake-sync.json'), file, { mode: 0o600 })
    const env = { KEY: 'invented', WAREHOUSE_URL: 'postgres://127.0.0.1/forms' }
    const config = readConfig(withEnvFile(env, readEnvFile(env, directory)))
    expect(config.teams.map((team) => team.name)).toEqual(['north', 'south'])
    expect(config.databaseUrl).toBe(env.WAREHOUSE_URL)
    // As a file of teams its settings would be ignored.
    const named = { ...env, INTAKE_CONFIG: join(directory, 'intake-sync.json') }
    expect(() => readConfig(withEnvFile(named, readEnvFile(named, directory)))).toThrow(
      /DATABASE_URL is not read/,
    )
    rmSync(directory, { recursive: true })
  })

  test('lists the exit codes of the command line', () => {
    const codes = [...readme.matchAll(/^\| ([\d, ]+) \| /gm)].flatMap((row) => row[1]!.split(', '))
    expect(codes).toEqual(['0', '1', '2', '3', '4', '130', '143'])
  })
})

test('docs/emulator.md names every shape and every fault', async () => {
  const text = read('docs/emulator.md')
  for (const list of ['--shape', '--faults']) {
    const all = JSON.parse((await runCommand(['emulator', list, 'list', '--json'], {})).stdout)
    const names = Object.keys(all).filter((name) => !new RegExp(`[\\s\`]${name}[\\s\`=]`).test(text))
    expect(names).toEqual([])
  }
})

describe.each(documents)('%s', (name) => {
  const text = read(name)

  test('links only to existing files', () => {
    for (const [, target = '', anchor] of text.matchAll(/\]\(([^)#\s]*)(?:#([^)\s]+))?\)/g)) {
      if (/^[a-z]+:/.test(target)) continue
      const path = target === '' ? join(root, name) : resolve(root, dirname(name), target)
      expect([target, existsSync(path)]).toEqual([target, true])
      expect(relative(root, path)).not.toMatch(/^\.\./)
      if (anchor !== undefined) expect(anchorsOf(readFileSync(path, 'utf8'))).toContain(anchor)
    }
  })

  test('names only commands and options that exist', async () => {
    const typed = [
      ...text.matchAll(/`(?:npx )?intake-sync ([a-z][^`]*)`/g),
      ...blocksOf(text).flatMap((block) => [
        ...block.text.matchAll(/^(?:npx |\$ )?intake-sync ([a-z].*)$/gm),
      ]),
    ]
    for (const [, words] of typed) {
      const [command = '', nested = ''] = words!.replace(/#.*/, '').split(/\s+/)
      expect(await commands()).toContain(command)
      const help = await helpOf(command)
      const isGroup = new RegExp(`^ {2}${nested || '-'}\\b`, 'm').test(help.split('\nCommands:\n')[1] ?? '')
      const all = isGroup ? help + (await helpOf(command, nested)) : help
      for (const [option] of words!.matchAll(/--[a-z][a-z-]*/g))
        expect([words, all]).toEqual([words, expect.stringContaining(option)])
    }
  })

  test('has shell blocks that a shell can parse', () => {
    for (const { text: script } of blocksOf(text).filter((block) => block.language === 'sh')) {
      expect(spawnSync('sh', ['-n'], { input: script, encoding: 'utf8' }).stderr).toBe('')
    }
  })
})

test('the tour and the guide for contributors name only files and scripts that exist', () => {
  const text = read('docs/tour.md') + read('CONTRIBUTING.md')
  const named = [...text.matchAll(/`((?:src|test|docs|scripts)\/[\w./-]+)`/g)].map(([, path]) => path!)
  expect(named.length).toBeGreaterThan(15)
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([])
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  for (const [, script] of text.matchAll(/npm run ([\w:]+)/g)) expect(Object.keys(scripts)).toContain(script)
})

test('docs/architecture.md shows every folder of src, and no other', () => {
  const table = [...read('docs/architecture.md').matchAll(/^\| `src\/(\w+)`/gm)].map((match) => match[1])
  const folders = readdirSync(join(root, 'src'), { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  )
  expect(table.toSorted()).toEqual(folders.map((folder) => folder.name).toSorted())
})

test('every dependency has its reason in docs/decisions', () => {
  const reasons = read('docs/decisions/0005-libraries.md')
  const { dependencies } = JSON.parse(read('package.json')) as { dependencies: Record<string, string> }
  for (const name of Object.keys(dependencies)) expect(reasons).toContain(name)
})

test('the lock file contains every optional package that it names: npm ci rejects it otherwise', () => {
  interface Locked {
    readonly optionalDependencies?: Readonly<Record<string, string>>
  }
  const { packages } = JSON.parse(read('package-lock.json')) as { packages: Readonly<Record<string, Locked>> }
  const names = new Set(Object.keys(packages).map((path) => path.split('node_modules/').at(-1)))
  for (const { optionalDependencies = {} } of Object.values(packages)) {
    for (const name of Object.keys(optionalDependencies)) expect(names).toContain(name)
  }
})

test('no dependency may run install scripts unreviewed', () => {
  const lock = JSON.parse(read('package-lock.json')) as {
    packages: Record<string, { hasInstallScript?: true }>
  }
  const { allowScripts } = JSON.parse(read('package.json')) as { allowScripts: Record<string, boolean> }
  const scripted = Object.entries(lock.packages).filter(
    ([path, each]) => path !== '' && each.hasInstallScript,
  )
  const names = scripted.map(([path]) => path.split('node_modules/').at(-1)!)
  expect(Object.keys(allowScripts).toSorted()).toEqual([...new Set(names)].toSorted())
})
