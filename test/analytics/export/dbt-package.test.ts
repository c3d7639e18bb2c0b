/** `dbt init`: the models run on Postgres, their tests hold, and every column is described. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { openScene, query, type Scene } from '../../e2e/support/scene.ts'
import { realData } from '../../emulator/real-data.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

interface Relationships {
  readonly relationships: {
    readonly arguments: { readonly to: string; readonly field: string }
    readonly config?: { readonly severity: string }
  }
}

interface Property {
  readonly name: string
  readonly description: string
  readonly columns: readonly {
    readonly name: string
    readonly description: string
    readonly data_tests?: readonly (string | Relationships)[]
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
  await addScore()
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

/** The usual forms have no instrument. */
async function addScore(): Promise<void> {
  const meta = "now(), 'page', now(), ''"
  const asked = ['Little interest or pleasure in doing things', 'Feeling down, depressed, or hopeless']
  await query(
    scene.url,
    [
      `insert into intake.forms (team_id, id, name, _version, _origin, _loaded_at, _hash) values (1, 'phq-2', 'PHQ-2', ${meta})`,
      `insert into intake.responses (team_id, id, patient_id, form_id, is_submitted, submitted_at, _version, _origin, _loaded_at, _hash)
       select 1, 'scored', min(id), 'phq-2', true, now(), ${meta} from intake.patients`,
      ...asked.flatMap((text, place) => [
        `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
         values (1, 'phq-2', ${place + 1}, 'q${place}', 'single_choice', '${text}')`,
        `insert into intake.question_choices (team_id, form_id, question_position, position, question_id, choice_id, text)
         values (1, 'phq-2', ${place + 1}, 1, 'q${place}', 'c', 'Several days')`,
        `insert into intake.response_answers (team_id, response_id, position, value_position, question_id, question_text, value_text)
         values (1, 'scored', ${place + 1}, 1, 'q${place}', '${text}', 'Several days')`,
      ]),
    ].join(';'),
  )
}

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

test('every model has a key, the keys are unique and set, and every link leads to a row', async () => {
  const [failures, warnings]: [string[], string[]] = [[], []]
  let links = 0
  for (const { name, columns } of properties) {
    const tests = columns.flatMap((column) => (column.data_tests ?? []).map((each) => ({ column, each })))
    expect(tests.filter(({ each }) => each === 'unique')).toHaveLength(1)
    for (const { column, each } of tests) {
      const model = `intake_dbt.${name}`
      const failing =
        each === 'unique'
          ? `select from ${model} where ${column.name} is not null group by ${column.name} having count(*) > 1`
          : each === 'not_null'
            ? `select from ${model} where ${column.name} is null`
            : linkless(model, column.name, each as Relationships)
      if (typeof each === 'object') links += 1
      if ((await query(scene.url, failing)).length === 0) continue
      const isWarning = typeof each === 'object' && each.relationships.config?.severity === 'warn'
      ;(isWarning ? warnings : failures).push(`${name}.${column.name} ${JSON.stringify(each)}`)
    }
  }
  expect(links).toBeGreaterThan(45)
  expect(failures).toEqual([])
  // Nobody was deleted; only forms may be without a response.
  expect(warnings.filter((warning) => !/form_key/.test(warning))).toEqual([])
  const [counts] = await query(
    scene.url,
    `select (select count(*)::int from intake_dbt.intake_responses) as responses,
       (select count(*)::int from intake_analytics.responses) as shown,
       (select sum(responses_requested)::int from intake_dbt.intake_patients) as requested`,
  )
  expect(counts).toEqual({ responses: counts!.shown, shown: counts!.shown, requested: counts!.shown })
})

test('each link is looked at in rows that have it', async () => {
  const empty: string[] = []
  for (const { name, columns } of properties)
    for (const { name: column, data_tests = [] } of columns) {
      if (data_tests.every((each) => typeof each === 'string')) continue
      const rows = await query(
        scene.url,
        `select from intake_dbt.${name} where ${column} is not null limit 1`,
      )
      if (rows.length === 0) empty.push(`${name}.${column}`)
    }
  expect(empty).toEqual([])
})

/** `name!`: set in every row; `name?`: may be missing, so that dbt warns only. */
const KEYS = `
  teams: team(team_id)
  patients: patient(patient) team!(team_id)
  form_completion: form(team_id/form_id) team!(team_id)
  questions: question(team_id/form_id/question_id) team!(team_id) form?(team_id/form_id)
  choices: choice(team_id/form_id/question_id/position) team!(team_id) question!(team_id/form_id/question_id)
  responses: response(team_id/response_id) team!(team_id) patient?(patient) form(team_id/form_id)
  answers: answer(team_id/response_id/position/value_position) team!(team_id) response!(team_id/response_id) patient?(patient) form(team_id/form_id) question(team_id/form_id/question_id)
  matrix_answers: matrix_answer(team_id/response_id/position) team!(team_id) response!(team_id/response_id) patient?(patient) form(team_id/form_id) question(team_id/form_id/question_id)
  packet_progress: packet(team_id/packet_response_id) team!(team_id) patient?(patient)
  message_outcomes: message(team_id/message_id) team!(team_id) patient?(patient) response(team_id/response_id) form?(team_id/form_id)
  daily_volume: day(team_id/day/coalesce(form_id,~'')) team!(team_id) form?(team_id/form_id)
  scores: score(team_id/response_id/instrument) team!(team_id) response!(team_id/response_id) patient?(patient) form(team_id/form_id)
  export_answers: export_answer(team_id/export_id/row_number/position) team!(team_id) patient?(patient) response(team_id/response_id) question(team_id/form_id/question_id)
  freshness: stream(team_id/stream) team!(team_id)`

test('each view has its key and links, of these columns, and only as strict as its rows are', () => {
  const found = properties.flatMap(({ name, columns }) => {
    const view = /^stg_intake__(.*)$/.exec(name)?.[1]
    if (view === undefined) return []
    const text = files.get(`models/staging/${name}.sql`)!
    const keys = columns.flatMap((column) => {
      if (column.data_tests === undefined) return []
      const of = new RegExp(`^  (.*) as ${column.name}`, 'm').exec(text)![1]!
      const parts = of.split(" || '/' || ").map((part) => part.replace('::text', '').replace(' ', '~'))
      const link = column.data_tests.find((each) => typeof each === 'object')
      const mark =
        link === undefined
          ? column.data_tests.includes('not_null') || view === 'packet_progress'
            ? ''
            : '?'
          : link.relationships.config?.severity === 'warn'
            ? '?'
            : column.data_tests.includes('not_null')
              ? '!'
              : ''
      return [`${column.name.replace(/_key$/, '')}${mark}(${parts.join('/')})`]
    })
    return [`${view}: ${keys.join(' ')}`]
  })
  expect(found).toEqual(
    KEYS.trim()
      .split('\n')
      .map((line) => line.trim()),
  )
})

test('the marts count requested and submitted responses, questions and answers, and hours', async () => {
  const differing = async (mart: string, expected: string, on: string) =>
    await query(
      scene.url,
      `with expected as (${expected}) select * from intake_dbt.${mart} own full join expected on ${on}
       where to_jsonb(own) @> to_jsonb(expected) is not true`,
    )
  expect(
    await differing(
      'intake_patients',
      `select p.patient, count(r.response_id) as responses_requested,
         count(*) filter (where r.is_submitted and r.is_skipped is not true) as responses_submitted,
         min(r.created_at) as first_requested_at, max(r.submitted_at) as last_submitted_at
       from intake_analytics.patients p left join intake_analytics.responses r using (patient) group by 1`,
      'own.patient = expected.patient',
    ),
  ).toEqual([])
  expect(
    await differing(
      'intake_responses',
      `select r.response_id, count(distinct a.position) as questions, count(distinct a.position) filter (where a.is_answered) as questions_answered
       from intake_analytics.responses r left join intake_analytics.answers a using (team_id, response_id) group by 1`,
      'own.response_id = expected.response_id',
    ),
  ).toEqual([])
  const [hours] = await query<Record<string, number>>(
    scene.url,
    `select (select bool_and(round(hours_to_submit * 3600) = round(extract(epoch from time_to_submit))) from intake_dbt.intake_responses) as submit,
       (select bool_and(round(hours_to_answer * 3600) = round(extract(epoch from time_to_answer))) from intake_dbt.intake_messages) as answer`,
  )
  expect(hours).toEqual({ submit: true, answer: true })
})

const fixed = new URL('../../fixtures/dbt-package.txt', import.meta.url)

test('settings, metrics, exposures and freshness are those that were reviewed; UPDATE_DOCS=1 renews these', () => {
  const { sources } = parse(files.get('models/staging/_intake__sources.yml')!)
  const freshness = sources[0].tables.flatMap(({ name, config }: { name: string; config?: object }) =>
    config === undefined ? [] : [`${name}: ${JSON.stringify(config)}`],
  )
  const paths = ['dbt_project.yml', 'profiles.example.yml', 'models/marts/_intake__exposures.yml']
  const more = ['models/metrics/_intake__metrics.yml', 'models/metrics/intake_time_spine.sql']
  const text = [
    ...[...paths, ...more].map((path) => `## ${path}\n${files.get(path)}`),
    ...freshness,
    '',
  ].join('\n')
  if (process.env.UPDATE_DOCS === '1') writeFileSync(fixed, text)
  expect(text).toBe(readFileSync(fixed, 'utf8'))
})

function linkless(
  model: string,
  column: string,
  { relationships: { arguments: to } }: Relationships,
): string {
  const parent = /^ref\('(\w+)'\)$/.exec(to.to)![1]
  return `select from ${model} child where ${column} is not null
    and not exists (select from intake_dbt.${parent} parent where parent.${to.field} = child.${column})`
}

describe('the files are what dbt reads', () => {
  const own = JSON.parse(readFileSync(new URL('../../fixtures/dbt.schema.json', import.meta.url), 'utf8'))
  const ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true, strictRequired: false })
  const check = (part: 'properties' | 'project') => ajv.compile({ ...own, $ref: `#/$defs/${part}` })
  const yaml = () => [...files].filter(([path]) => /^models\/.*\.yml$/.test(path))

  test('with the keys, words and forms that dbt has', () => {
    const [isProject, isProperties] = [check('project'), check('properties')]
    expect(yaml()).toHaveLength(5)
    for (const [path, text] of yaml())
      expect([path, isProperties(parse(text)), isProperties.errors]).toEqual([path, true, null])
    const project = parse(files.get('dbt_project.yml')!)
    expect([isProject(project), isProject.errors]).toEqual([true, null])
  })

  test.each<[string, RegExp, string]>([
    ['a misspelt key', /data_tests:/, 'data_test:'],
    ['an unknown test', /- unique/, '- uniqe'],
    ['arguments that are not nested', /( +)arguments:\n +to: (.*)\n +field: (.*)/, '$1to: $2\n$1field: $3'],
    ['a link that is no ref', /to: ref\('(\w+)'\)/, 'to: $1'],
    ['a period that dbt does not have', /period: hour/, 'period: hours'],
    ['freshness without its column', /loaded_at_field: .*\n/, '\n'],
    ['a time without its grain', /type_params:\n\s+time_granularity: day/, 'label: day'],
    ['a name with capitals', /- name: share_submitted(\n\s+label)/, '- name: Share$1'],
    ['a metric without its measure', /measure: /, 'mesure: '],
    ['an owner without a name', /owner:\n(\s+)name: \w+\n\s+email: .*/, 'owner: {}'],
  ])('and not with %s', (_, from, to) => {
    const isProperties = check('properties')
    const changed = yaml().filter(([, text]) => from.test(text))
    expect(changed.length).toBeGreaterThan(0)
    for (const [, text] of changed) expect(isProperties(parse(text.replace(from, to)))).toBe(false)
  })

  const published = process.env.DBT_JSON_SCHEMAS ?? realData('dbt')
  const missing = existsSync(published)
    ? ''
    : ' (skipped: set DBT_JSON_SCHEMAS to schemas/latest of dbt-jsonschema)'
  test.skipIf(missing !== '')(`as the JSON Schemas that dbt publishes say${missing}`, () => {
    const read = (name: string) => JSON.parse(readFileSync(join(published, `${name}-latest.json`), 'utf8'))
    const theirs = new Ajv({ strict: false, allErrors: true, validateFormats: false })
    const [isProperties, isProject] = ['dbt_yml_files', 'dbt_project'].map((name) =>
      theirs.compile({ ...read(name), $id: name }),
    )
    for (const [path, text] of yaml())
      expect([path, isProperties!(parse(text)), isProperties!.errors]).toEqual([path, true, null])
    expect([isProject!(parse(files.get('dbt_project.yml')!)), isProject!.errors]).toEqual([true, null])
  })
})

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

test('the help names the version of dbt that the package requires', async () => {
  const required = parse(files.get('dbt_project.yml')!)['require-dbt-version'].slice(2)
  expect((await runCommand(['dbt', 'init', '--help'], {})).stdout).toContain(`${required} or later`)
})
