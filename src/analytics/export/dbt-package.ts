/**
 * A dbt package over the analysts' views: sources with freshness, staging models, marts, tests, exposures and metrics.
 *
 * Invariant: columns and descriptions are those of the warehouse, where COMMENTs state each of them once. Models are views:
 * a table would keep a copy of what `erase` removes.
 */
import { stringify } from 'yaml'
import type { Session } from '../../warehouse/connect.ts'
import {
  EXPOSURES,
  FRESHNESS,
  type Key,
  type Link,
  MARTS,
  type Mart,
  MEASURES,
  RELATIONS,
  type Relation,
  TIME_SPINE,
} from './dbt-models.ts'

export interface PackageFile {
  /** Relative to the folder of the package. */
  readonly path: string
  readonly text: string
}

interface Described {
  readonly name: string
  readonly about: string
}

interface View extends Described {
  readonly columns: readonly (Described & { readonly type: string })[]
}

interface Model {
  readonly relation: Relation
  readonly view: View
}

/** The files of the package for the views of a migrated warehouse. */
export async function dbtPackage(session: Session): Promise<readonly PackageFile[]> {
  const views = await readViews(session)
  const models = RELATIONS.map((relation): Model => ({ relation, view: views.get(relation.view)! }))
  const yaml = (path: string, document: object) => ({ path, text: stringify({ version: 2, ...document }) })
  return [
    { path: 'dbt_project.yml', text: stringify(PROJECT) },
    { path: 'profiles.example.yml', text: PROFILE },
    { path: 'README.md', text: README },
    yaml('models/staging/_intake__sources.yml', sources(models)),
    yaml('models/staging/_intake__staging.yml', { models: models.map(describeStaging) }),
    ...models.map((model) => ({
      path: `models/staging/${staging(model.view.name)}.sql`,
      text: stagingSql(model),
    })),
    yaml('models/marts/_intake__marts.yml', { models: MARTS.map((mart) => describeMart(mart, models)) }),
    ...MARTS.map((mart) => ({ path: `models/marts/${martName(mart.name)}.sql`, text: martSql(mart) })),
    yaml('models/marts/_intake__exposures.yml', EXPOSURES),
    yaml('models/metrics/_intake__metrics.yml', METRICS),
    { path: 'models/metrics/intake_time_spine.sql', text: TIME_SPINE },
  ]
}

async function readViews({ client }: Session): Promise<ReadonlyMap<string, View>> {
  const { rows } = await client.query<View>(
    `select c.relname as name, obj_description(c.oid) as about, json_agg(json_build_object('name', a.attname,
       'about', col_description(c.oid, a.attnum), 'type', format_type(a.atttypid, a.atttypmod)) order by a.attnum) as columns
     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.relnamespace = 'intake_analytics'::regnamespace and c.relkind = 'v' group by c.oid`,
  )
  return new Map(rows.map((view) => [view.name, view]))
}

const staging = (view: string) => `stg_intake__${view}`
const martName = (mart: string) => `intake_${mart}`
const relationOf = (view: string) => RELATIONS.find((relation) => relation.view === view)!
const keyName = (view: string) => `${relationOf(view).row}_key`

function keySql(columns: readonly string[]): string {
  return columns.map((column) => `${column}::text`).join(" || '/' || ")
}

function sources(models: readonly Model[]): object {
  const tables = models.map(({ view }) => ({
    name: view.name,
    description: view.about,
    ...(view.name === 'freshness' ? FRESHNESS : {}),
    columns: view.columns.map(describe),
  }))
  return { sources: [{ name: 'intake', schema: 'intake_analytics', description: ABOUT_SOURCE, tables }] }
}

const ABOUT_SOURCE = 'The analysts’ views of intake-sync: a limited data set, without direct identifiers.'

function describe({ name, about, type }: View['columns'][number]): object {
  return { name, description: about, data_type: type }
}

function describeStaging({ relation, view }: Model): object {
  const links = relation.links.map((link) => linkColumn(link, staging(link.to)))
  return {
    name: staging(view.name),
    description: view.about,
    columns: [...view.columns.map(describe), ownKey(relation), ...links],
  }
}

function ownKey({ view, row, key }: Relation): object {
  return { ...keyColumn(view, row, key), data_tests: key.isPartial ? ['unique'] : ['unique', 'not_null'] }
}

/** `model`: the one that has the rows of the view that is linked to. */
function linkColumn({ to, holds }: Link, model: string): object {
  const { row, key } = relationOf(to)
  const relationships = {
    arguments: { to: `ref('${model}')`, field: keyName(to) },
    ...(holds === 'later' ? { config: { severity: 'warn' } } : {}),
  }
  const data_tests = [...(holds === 'always' ? ['not_null'] : []), { relationships }]
  return { ...keyColumn(to, row, key), data_tests }
}

function keyColumn(view: string, row: string, { isPartial }: Key): object {
  const about = `Key of the ${row.replaceAll('_', ' ')}${isPartial ? ', where it has one' : ''}.`
  return { name: keyName(view), description: about }
}

function stagingSql({ relation: { key, links }, view }: Model): string {
  const keys = [{ to: view.name, columns: key.of }, ...links]
  const columns = [
    ...view.columns.map(({ name }) => name),
    ...keys.map(({ to, columns }) => `${keySql(columns)} as ${keyName(to)}`),
  ]
  return `select\n  ${columns.join(',\n  ')}\nfrom {{ source('intake', '${view.name}') }}\n`
}

/** Links lead to other marts, where there is one. */
function describeMart({ name, about, of, extra }: Mart, models: readonly Model[]): object {
  const { view, relation } = models.find((model) => model.view.name === of)!
  const links = relation.links.flatMap((link) => {
    const mart = MARTS.find((each) => each.of === link.to)
    return mart === undefined ? [] : [linkColumn(link, martName(mart.name))]
  })
  return {
    name: martName(name),
    description: about,
    columns: [
      ...view.columns.map(describe),
      ownKey(relation),
      ...links,
      ...extra.map((column) => ({ name: column.name, description: column.about })),
    ],
  }
}

function martSql({ of, join, extra }: Mart): string {
  const columns = ['model.*', ...extra.map(({ name, sql }) => `${sql} as ${name}`)]
  const joined = join === undefined ? '' : `${join}\n`
  return `select\n  ${columns.join(',\n  ')}\nfrom {{ ref('${staging(of)}') }} model\n${joined}`
}

const PROJECT = {
  name: 'intake',
  version: '1.0.0',
  'config-version': 2,
  // Before, arguments of tests were not nested.
  'require-dbt-version': '>=1.10.8',
  profile: 'intake',
  'model-paths': ['models'],
  models: { intake: { '+materialized': 'view' } },
}

const PROFILE = `# Copy to ~/.dbt/profiles.yml. The login needs the role intake_analyst, and a schema of its own to create views in.
intake:
  target: warehouse
  outputs:
    warehouse:
      type: postgres
      host: "{{ env_var('PGHOST') }}"
      port: "{{ env_var('PGPORT', '5432') | as_number }}"
      user: "{{ env_var('PGUSER') }}"
      password: "{{ env_var('PGPASSWORD') }}"
      dbname: "{{ env_var('PGDATABASE') }}"
      schema: intake_dbt
      threads: 2
`

const README = `# Intake: a dbt package

Generated by \`intake-sync dbt init\` from the analysts' views of a warehouse.

\`\`\`sh
cp profiles.example.yml ~/.dbt/profiles.yml   # and set PGHOST, PGUSER, PGPASSWORD, PGDATABASE
dbt build
dbt source freshness
\`\`\`

Models are views, so that what \`intake-sync erase\` removes is gone here too. A model that you materialise as a table
keeps a copy until its next run: run it after each erasure.

A question that waits for a decision shows no values: see \`intake-sync classify list\`.
`

const METRICS = {
  models: [
    {
      name: 'intake_time_spine',
      description: 'One row per day, for metrics.',
      time_spine: { standard_granularity_column: 'date_day' },
      columns: [{ name: 'date_day', description: 'The day.', granularity: 'day' }],
    },
  ],
  semantic_models: [
    {
      name: 'responses',
      description: 'Responses by the day on which they were requested (UTC).',
      model: `ref('${martName('responses')}')`,
      defaults: { agg_time_dimension: 'requested_on' },
      entities: [
        { name: 'response', type: 'primary', expr: keyName('responses') },
        { name: 'patient', type: 'foreign', expr: 'patient' },
      ],
      dimensions: [
        { name: 'requested_on', type: 'time', expr: 'created_at', type_params: { time_granularity: 'day' } },
        { name: 'form', type: 'categorical' },
        { name: 'packet', type: 'categorical' },
      ],
      measures: MEASURES.map(({ name, about, expr }) => ({ name, description: about, agg: 'sum', expr })),
    },
  ],
  metrics: [
    ...MEASURES.map(({ name, about }) => ({
      name,
      label: name.replaceAll('_', ' '),
      description: about,
      type: 'simple',
      type_params: { measure: name },
    })),
    {
      name: 'share_submitted',
      label: 'share submitted',
      description: 'Share of requested responses that were submitted.',
      type: 'ratio',
      type_params: { numerator: MEASURES[1].name, denominator: MEASURES[0].name },
    },
  ],
}
