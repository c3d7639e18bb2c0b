/** The commands that the documents show, as a reader types them: each works (README.md: test/e2e/readme.long.test.ts). */
import { createHmac, randomBytes } from 'node:crypto'
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { makeLogin } from '../analytics/logins.ts'
import { start } from '../e2e/support/play-readme.ts'
import { openScene, query, type Scene } from '../e2e/support/scene.ts'
import { type ServingProcess, startServing, until } from '../e2e/support/serving.ts'
import { builtFile } from '../support/built.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const docs = resolve(import.meta.dirname, '../../docs')
const SECRET = 'invented'

/** The lines of the shell blocks that run `intake-sync`, by document. */
const shown = readdirSync(docs)
  .filter((name) => name.endsWith('.md'))
  .map((name) => [name, linesOf(readFileSync(join(docs, name), 'utf8'))] as const)
  .filter(([, lines]) => lines.length > 0)

function linesOf(text: string): readonly string[] {
  return [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)]
    .flatMap(([, block]) => block!.split('\n'))
    .map((line) => line.replace(/\s+#.*/, '').replace(/^npx /, ''))
    .filter((line) => line.startsWith('intake-sync '))
}

/** Exit code 4 where something waits for a person: the events that nobody can read are dead letters again. */
const UNREADABLE = /^intake-sync replay --inbox/
const RUNS_UNTIL_STOPPED = /^intake-sync (?:serve|console|work)/

let scene: Scene
let folder: string
/** Receives the events of the webhooks that the documents create. */
let serving: ServingProcess
let env: NodeJS.ProcessEnv
/** Values for the names in the documents. */
let names: readonly (readonly [RegExp, string])[]
const deadOf = () =>
  query<{ id: string }>(scene.url, 'select id::text from intake_ops.dead_letters order by id')

beforeAll(async () => {
  scene = await openScene({}, { empty: true })
  folder = makeFolder('documents-')
  cpSync(join(docs, 'queries'), join(folder, 'docs/queries'), { recursive: true })
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  writeFileSync(
    join(bin, 'intake-sync'),
    `#!/bin/sh\nexec '${process.execPath}' '${builtFile('cli.js')}' "$@"\n`,
  )
  chmodSync(join(bin, 'intake-sync'), 0o755)
  const key = randomBytes(32).toString('base64')
  const settings = { ...scene.env, INTAKE_WEBHOOK_SECRETS: SECRET, INTAKE_ENCRYPTION_KEY: key }
  env = {
    ...{ ...settings, HOME: folder, LOG_LEVEL: 'error', INTAKE_WEBHOOK_PORT: '0', INTAKE_ADMIN_PORT: '0' },
    PATH: `${bin}:${process.env.PATH}`,
  }
  expect((await scene.backfill()).code).toBe(0)
  serving = await startServing(settings)
  const target = serving.document.webhooks!
  for (const text of ['first', 'second', 'third']) {
    const signature = createHmac('sha256', SECRET).update(text).digest('hex')
    const headers = { 'X-Service-Signature': signature }
    expect((await fetch(target, { method: 'POST', headers, body: text })).status).toBe(200)
  }
  await until('the events are dead letters', async () => (await deadOf()).length === 3)
  const [first, second, third] = (await deadOf()).map(({ id }) => id)
  const login = await makeLogin(scene.url, 'intake_researcher')
  const patient = scene.emulator.control.world().patients.at(0)!.id
  const [run] = await query<{ id: string }>(scene.url, 'select max(run_id)::text as id from intake_ops.runs')
  names = [
    [/(?<=dead-letters \w+ )12\b/, first!],
    [/\b13\b/, second!],
    [/\b14\b/, third!],
    [/(?<=runs \w+ )12\b/, run!.id],
    [/(?<=patients )ID\b/, patient],
    [/\brosa TEAM\b/, `${login.name} default`],
    [/https:\/\/intake\.example\.com\/webhooks/, target],
    [/9091/, '0'],
  ]
})
afterAll(async () => {
  expect((await serving.stop()).code).toBe(0)
  removeFolder(folder)
  await scene[Symbol.asyncDispose]()
})

it('they are in the documents that a reader works with', () => {
  expect(shown.map(([name]) => name)).toEqual(
    expect.arrayContaining(['console.md', 'operations.md', 'safe-harbor.md', 'verify.md', 'warehouse.md']),
  )
})

it.each(shown)('docs/%s: each of its commands works', async (_, lines) => {
  // A configuration that another document created has no event.
  expect((await scene.backfill()).code).toBe(0)
  for (const line of lines) {
    const typed = names.reduce((text, [name, value]) => text.replace(name, value), line)
    const lasts = RUNS_UNTIL_STOPPED.test(line)
    const running = start({ folder, env, command: null, columns: null }, lasts ? `exec ${typed}` : typed)
    if (lasts) {
      await expect.poll(running.output).toMatch(/^ready: |\/login/m)
      running.stop()
    }
    const { code, output } = await running.ended
    expect([line, code, output]).toEqual([line, UNREADABLE.test(line) ? 4 : 0, expect.anything()])
    // The configuration that the next lines name.
    const created = /webhooks test (\S+)/.exec(output)?.[1]
    if (created !== undefined) names = [...names, [/(?<=webhooks test )ID\b/, created]]
  }
})
