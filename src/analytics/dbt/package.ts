/**
 * A dbt package over the analysts' views: sources with freshness, staging models, marts, tests, exposures and metrics.
 *
 * Invariant: columns and descriptions are those of the warehouse, where COMMENTs state each of them once. Models are views:
 * a table would keep a copy of what `erase` removes.
 */
import { stringify } from 'yaml'
import type { Session } from '../../warehouse/connect.ts'
import { MARTS, type Mart, MEASURES, RELATIONS, type Relation } from './models.ts'

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
const rowOf = (view: string) => RELATIONS.find((relation) => relation.view === view)!.row
const keyName = (view: string) => `${rowOf(view)}_key`

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

/** A nightly backfill is late after 26 hours. */
const FRESHNESS = {
  config: {
    loaded_at_field: 'last_run_at',
    freshness: { warn_after: { count: 26, period: 'hour' }, error_after: { count: 50, period: 'hour' } },
  },
}

function describe({ name, about, type }: View['columns'][number]): object {
  return { name, description: about, data_type: type }
}

function describeStaging({ relation: { key, links }, view }: Model): object {
  const own = key === null ? [] : [{ ...keyColumn(view.name), data_tests: ['unique', 'not_null'] }]
  const foreign = links.map(({ to }) => ({
    ...keyColumn(to),
    data_tests: [
      'not_null',
      { relationships: { arguments: { to: `ref('${staging(to)}')`, field: keyName(to) } } },
    ],
  }))
  return {
    name: staging(view.name),
    description: view.about,
    columns: [...view.columns.map(describe), ...own, ...foreign],
  }
}

function keyColumn(view: string): { readonly name: string; readonly description: string } {
  return { name: keyName(view), description: `Key of the ${rowOf(view).replaceAll('_', ' ')}.` }
}

function stagingSql({ relation: { key, links }, view }: Model): string {
  const keys = [...(key === null ? [] : [{ to: view.name, columns: key }]), ...links]
  const columns = [
    ...view.columns.map(({ name }) => name),
    ...keys.map(({ to, columns }) => `${keySql(columns)} as ${keyName(to)}`),
  ]
  return `select\n  ${columns.join(',\n  ')}\nfrom {{ source('intake', '${view.name}') }}\n`
}

function describeMart({ name, about, of, extra }: Mart, models: readonly Model[]): object {
  const { view, relation } = models.find((model) => model.view.name === of)!
  const key = relation.key === null ? [] : [{ ...keyColumn(of), data_tests: ['unique', 'not_null'] }]
  return {
    name: martName(name),
    description: about,
    columns: [
      ...view.columns.map(describe),
      ...key,
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
  'require-dbt-version': '>=1.9.0',
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

const EXPOSURES = {
  exposures: [
    {
      name: 'intake_operations',
      label: 'Intake operations',
      type: 'dashboard',
      maturity: 'medium',
      description: 'Completion of forms and packets, and outcomes of messages.',
      depends_on: ['forms', 'packets', 'messages', 'days'].map((mart) => `ref('${martName(mart)}')`),
      owner: { name: 'Operations', email: 'operations@example.com' },
    },
  ],
}

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

const TIME_SPINE = `select day::date as date_day
from generate_series(timestamp '2000-01-01', timestamp '2049-12-31', interval '1 day') as day
`
