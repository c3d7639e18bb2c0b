/** `dbt init`: the models run on Postgres, their tests hold, and every column is described. */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import { openScene, query, type Scene } from '../../e2e/support/scene.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

interface Property {
  readonly name: string
  readonly description: string
  readonly columns: readonly {
    readonly name: string
    readonly description: string
    readonly data_tests?: readonly (
      | string
      | { readonly relationships: { readonly arguments: { readonly to: string; readonly field: string } } }
    )[]
  }[]
}

let scene: Scene
let folder: string
let files: ReadonlyMap<string, string>
let properties: readonly Property[]

beforeAll(async () => {
  folder = makeFolder('dbt-')
  scene = await openScene({ patients: 25, responses: 60 })
  expect((await scene.backfill()).code).toBe(0)
  const out = join(folder, 'package')
  const { code, stdout } = await runCommand(['dbt', 'init', out, '--json'], { DATABASE_URL: scene.url })
  expect(code).toBe(0)
  const paths: string[] = JSON.parse(stdout).files
  const written = readdirSync(out, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  expect(written).toHaveLength(paths.length)
  files = new Map(paths.map((path) => [path, readFileSync(join(out, path), 'utf8')]))
  properties = ['staging', 'marts'].flatMap(
    (layer) => parse(files.get(`models/${layer}/_intake__${layer}.yml`)!).models,
  )
  await query(scene.url, 'create schema intake_dbt')
  for (const { name } of properties)
    await query(scene.url, `create view intake_dbt.${name} as ${rendered(name)}`)
})
afterAll(async () => {
  removeFolder(folder)
  await scene[Symbol.asyncDispose]()
})

/** The SQL of a model, with what dbt puts in the place of `ref` and `source`. */
function rendered(name: string): string {
  const [, text] = [...files].find(([path]) => path.endsWith(`/${name}.sql`))!
  return text
    .replace(/\{\{ ref\('(\w+)'\) \}\}/g, 'intake_dbt.$1')
    .replace(/\{\{ source\('intake', '(\w+)'\) \}\}/g, 'intake_analytics.$1')
}

test('each model runs, and has the columns that its properties describe, in their order', async () => {
  expect(properties.length).toBeGreaterThan(15)
  for (const { name, description, columns } of properties) {
    const rows = await query<{ name: string }>(
      scene.url,
      `select attname as name from pg_attribute where attrelid = 'intake_dbt.${name}'::regclass and attnum > 0 order by attnum`,
    )
    const described = columns.map((column) => column.name).sort()
    const found = rows.map((row) => row.name).sort()
    expect(found.filter((column) => !column.endsWith('_key'))).toEqual(
      described.filter((column) => !column.endsWith('_key')),
    )
    expect(found).toEqual(expect.arrayContaining(described))
    for (const text of [description, ...columns.map((column) => column.description)])
      expect(text).toMatch(/\w.*\.$/s)
  }
})

test('the keys are unique and set, and every link leads to a row', async () => {
  const failures: string[] = []
  let checked = 0
  for (const { name, columns } of properties) {
    for (const column of columns) {
      for (const each of column.data_tests ?? []) {
        const model = `intake_dbt.${name}`
        const failing =
          each === 'unique'
            ? `select from ${model} where ${column.name} is not null group by ${column.name} having count(*) > 1`
            : each === 'not_null'
              ? `select from ${model} where ${column.name} is null`
              : linkless(model, column.name, each as Exclude<typeof each, string>)
        checked += 1
        if ((await query(scene.url, failing)).length > 0)
          failures.push(`${name}.${column.name} ${JSON.stringify(each)}`)
      }
    }
  }
  expect(checked).toBeGreaterThan(40)
  expect(failures).toEqual([])
  const [counts] = await query(
    scene.url,
    `select (select count(*)::int from intake_dbt.intake_responses) as responses,
       (select count(*)::int from intake_analytics.responses) as shown,
       (select sum(responses_requested)::int from intake_dbt.intake_patients) as requested`,
  )
  expect(counts).toEqual({ responses: counts!.shown, shown: counts!.shown, requested: counts!.shown })
})

function linkless(
  model: string,
  column: string,
  {
    relationships: { arguments: to },
  }: { readonly relationships: { readonly arguments: { readonly to: string; readonly field: string } } },
): string {
  const parent = /^ref\('(\w+)'\)$/.exec(to.to)![1]
  return `select from ${model} child where ${column} is not null
    and not exists (select from intake_dbt.${parent} parent where parent.${to.field} = child.${column})`
}

test('sources, exposures and metrics name only what is there', () => {
  const { sources } = parse(files.get('models/staging/_intake__sources.yml')!)
  const tables: Property[] = sources[0].tables
  expect(tables.map(({ name }) => `stg_intake__${name}`)).toEqual(
    properties.map(({ name }) => name).filter((name) => name.startsWith('stg_')),
  )
  const { exposures } = parse(files.get('models/marts/_intake__exposures.yml')!)
  const {
    semantic_models: [semantic],
    metrics,
  } = parse(files.get('models/metrics/_intake__metrics.yml')!)
  const names = properties.map(({ name }) => `ref('${name}')`)
  expect(names).toEqual(expect.arrayContaining([...exposures[0].depends_on, semantic.model]))
  const columns = properties
    .find(({ name }) => `ref('${name}')` === semantic.model)!
    .columns.map(({ name }) => name)
  const used = [...semantic.entities, ...semantic.dimensions].map(
    ({ name, expr }: { name: string; expr?: string }) => expr ?? name,
  )
  expect(columns).toEqual(expect.arrayContaining(used))
  const measures = semantic.measures.map(({ name }: { name: string }) => name)
  for (const { type_params } of metrics)
    expect(measures).toEqual(expect.arrayContaining(Object.values(type_params)))
})

test('a folder with anything in it is refused', async () => {
  const taken = join(folder, 'taken')
  mkdirSync(taken)
  writeFileSync(join(taken, 'mine'), '')
  const { code, stderr } = await runCommand(['dbt', 'init', taken], { DATABASE_URL: scene.url })
  expect([code, stderr]).toEqual([2, expect.stringContaining('the folder is not empty')])
  expect(readdirSync(taken)).toEqual(['mine'])
})
