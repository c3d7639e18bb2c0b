/** What the image would hold is built and run, without an engine: the steps of the Dockerfile, in folders. */
import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openWarehouse } from '../e2e/support/scene.ts'
import { buildImage, type Image } from './image.ts'

const checkout = resolve(import.meta.dirname, '../..')
let folder: string
let image: Image

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'intake-sync-image-'))
  image = buildImage(checkout, folder)
}, 600_000)

afterAll(() => rmSync(folder, { recursive: true, force: true }))

const program = () => join(image.root, 'usr/local/bin', image.entrypoint[0]!)
const settings = (env: Record<string, string>) => ({
  cwd: join(image.root, 'tmp'),
  env: { PATH: process.env.PATH, ...image.env, ...env },
})

it('contains the program and its dependencies, and neither sources nor build tools', async () => {
  const { version } = JSON.parse(readFileSync(join(checkout, 'package.json'), 'utf8')) as { version: string }
  const { stdout } = await promisify(execFile)(program(), ['--version'], settings({}))
  expect(stdout.trim()).toBe(version)
  for (const path of ['src', 'test', '.git', 'secrets', 'node_modules/typescript', 'node_modules/vitest'])
    expect([path, existsSync(join(image.root, 'app', path))]).toEqual([path, false])
})

/** Each file by its path: its mode and the hash of its bytes, or where its link leads. */
function contentsOf({ root }: Image): Readonly<Record<string, string>> {
  const entries = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => {
      const path = join(root, name)
      const found = lstatSync(path)
      const hash = () => createHash('sha256').update(readFileSync(path)).digest('hex')
      const link = () => readlinkSync(path).replace(root, '')
      const content = found.isSymbolicLink() ? link() : found.isDirectory() ? '' : hash()
      return [name, `${found.mode.toString(8)} ${content}`] as const
    })
  return Object.fromEntries(entries)
}

it('a second build has the same files, byte for byte (scripts/image.mjs compares two builds of an engine)', () => {
  const other = join(folder, 'again')
  mkdirSync(other)
  const [first, second] = [contentsOf(image), contentsOf(buildImage(checkout, other))]
  expect(Object.keys(first).length).toBeGreaterThan(1_000)
  const differing = Object.keys({ ...first, ...second }).filter((name) => first[name] !== second[name])
  expect(differing).toEqual([])
})

it('migrates, serves, is healthy by its own check, and ends with 0 on SIGTERM', async () => {
  await using warehouse = await openWarehouse({ empty: true })
  const env = {
    DATABASE_URL: warehouse.url,
    INTAKE_WEBHOOK_PORT: '0',
    INTAKE_WEBHOOK_SECRETS: 'made up for this',
  }
  const serving = spawn(program(), ['serve', '--json'], settings({ ...env, INTAKE_ADMIN_PORT: '0' }))
  const ended = new Promise<number | null>((done) => serving.once('close', done))
  let said = ''
  for await (const piece of serving.stdout.setEncoding('utf8')) {
    said += piece
    if (said.endsWith('\n}\n')) break
  }
  const { admin } = JSON.parse(said) as { admin: string }
  const [node, ...words] = image.healthcheck
  expect(node).toBe('node')
  await promisify(execFile)(process.execPath, words, settings({ INTAKE_ADMIN_PORT: new URL(admin).port }))
  serving.kill('SIGTERM')
  expect(await ended).toBe(0)
})
