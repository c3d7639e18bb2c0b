/**
 * The current source, built for child processes of tests, which then need no loader.
 *
 * Invariant: there is one build per state of the source, and it is complete or absent; workers that build at the same
 * time do not disturb each other.
 */
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { join, resolve } from 'node:path'

const ROOT = resolve(import.meta.dirname, '../..')
const CACHE = join(ROOT, 'node_modules/.cache/intake-sync-tests')
/** What the console serves, which is no TypeScript. */
const SERVED = ['console/assets', 'console/views']
const HOUR = 3_600_000

let built: string | undefined

/** The path of a built file, such as `cli.js`. */
export function builtFile(name: string): string {
  built ??= build()
  return join(built, name)
}

function build(): string {
  const place = join(CACHE, stateOfSource())
  if (existsSync(join(place, 'dist/cli.js'))) return join(place, 'dist')
  removeOld()
  const draft = `${place}.${randomBytes(4).toString('hex')}`
  mkdirSync(draft, { recursive: true })
  copyFileSync(join(ROOT, 'package.json'), join(draft, 'package.json'))
  symlinkSync(join(ROOT, 'sql'), join(draft, 'sql'))
  const plain = [
    '--noCheck',
    '--declaration',
    'false',
    '--sourceMap',
    'false',
    '--outDir',
    join(draft, 'dist'),
  ]
  execFileSync(process.execPath, [
    join(ROOT, 'node_modules/typescript/bin/tsc'),
    '-p',
    join(ROOT, 'tsconfig.build.json'),
    ...plain,
  ])
  for (const folder of SERVED)
    cpSync(join(ROOT, 'src', folder), join(draft, 'dist', folder), { recursive: true })
  try {
    renameSync(draft, place)
  } catch {
    rmSync(draft, { recursive: true, force: true })
  }
  return join(place, 'dist')
}

function stateOfSource(): string {
  const hash = createHash('sha256')
  for (const file of ['package.json', 'tsconfig.json', 'tsconfig.build.json'])
    hash.update(readFileSync(join(ROOT, file)))
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
  for (const file of files.filter((name) => /\.\w+$/.test(name)).sort()) {
    hash.update(file).update(readFileSync(join(ROOT, 'src', file)))
  }
  return hash.digest('hex').slice(0, 16)
}

function removeOld(): void {
  if (!existsSync(CACHE)) return
  for (const entry of readdirSync(CACHE)) {
    const path = join(CACHE, entry)
    const made = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
    if (made < Date.now() - HOUR) rmSync(path, { recursive: true, force: true })
  }
}
