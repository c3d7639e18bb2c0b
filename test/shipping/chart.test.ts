/** The Helm chart of docs/deploy makes what kubernetes.yaml shows, migrates before an upgrade, and refuses wrong values. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Ajv } from 'ajv'
import { describe, expect, it } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { rendered } from './go-template.ts'
import { expectCommand, expectVariables } from './known.ts'

const deploy = resolve(import.meta.dirname, '../../docs/deploy')
const read = (name: string) => readFileSync(join(deploy, name), 'utf8')
const chart = parse(read('chart/Chart.yaml'))
const values = parse(read('chart/values.yaml'))

// biome-ignore lint/suspicious/noExplicitAny: documents of Kubernetes, which the tests look into.
type Document = any

/** What Helm would apply. */
function documents(own: object = {}, release = 'intake-sync'): readonly Document[] {
  const scope = {
    Values: { ...values, ...own },
    Chart: { AppVersion: chart.appVersion, Name: chart.name },
    Release: { Name: release },
  }
  return readdirSync(join(deploy, 'chart/templates')).flatMap((name) =>
    parseAllDocuments(rendered(read(`chart/templates/${name}`), scope))
      .map((document) => {
        expect([name, document.errors]).toEqual([name, []])
        return document.toJS()
      })
      .filter((document) => document !== null),
  )
}

const named = (all: readonly Document[]) =>
  new Map(all.map((each) => [`${each.kind} ${each.metadata.name}`, each]))

/** The pod of a workload. */
const podOf = ({ spec }: Document): Document => (spec?.jobTemplate?.spec ?? spec)?.template?.spec

/** Without what the hook does in place of init containers, and the image's version. */
function withoutMigration(document: Document): Document {
  const copy = structuredClone(document)
  const pod = podOf(copy)
  if (pod === undefined) return copy
  delete pod.initContainers
  pod.volumes = pod.volumes.filter(({ name }: Document) => name !== 'owner')
  for (const container of pod.containers) {
    container.image = 'image'
    if (container.startupProbe !== undefined) container.startupProbe.failureThreshold = 'n'
  }
  return copy
}

describe('the chart', () => {
  it('with its own values makes what kubernetes.yaml shows, and a job that migrates', () => {
    const shown = named(parseAllDocuments(read('kubernetes.yaml')).map((each) => each.toJS()))
    const made = named(documents())
    expect([...made.keys()].toSorted()).toEqual([...shown.keys(), 'Job intake-sync-migrate'].toSorted())
    for (const [name, document] of shown)
      expect([name, withoutMigration(made.get(name))]).toEqual([name, withoutMigration(document)])
  })

  it('migrates as the owner before the pods of a new version start, and never next to them', () => {
    const job = named(documents()).get('Job intake-sync-migrate')
    expect(job.metadata.annotations['helm.sh/hook']).toBe('pre-install,pre-upgrade')
    const [container, ...others] = podOf(job).containers
    expect([others, container.args]).toEqual([[], ['migrate']])
    expect(container.securityContext).toMatchObject({
      readOnlyRootFilesystem: true,
      allowPrivilegeEscalation: false,
    })
    expect(podOf(job).securityContext).toMatchObject({ runAsNonRoot: true })
    const all = documents()
    for (const document of all.filter((each) => each.kind !== 'Job' && podOf(each) !== undefined))
      expect(JSON.stringify(document)).not.toContain('owner')
    expect(job.spec.backoffLimit).toBe(0)
  })

  it('runs commands that exist, with settings that exist', async () => {
    for (const document of documents()) {
      for (const { args } of podOf(document)?.containers ?? []) await expectCommand(args)
      if (document.kind === 'ConfigMap')
        expectVariables(Object.keys(document.data).map((name) => name.replace(/_FILE$/, '')))
    }
  })

  it('takes names, image, settings, secrets and schedule from its values', () => {
    const own = {
      image: { repository: 'registry.example.com/intake-sync', tag: '9.9.9' },
      settings: { ...values.settings, INTAKE_TIMEZONE: 'Europe/Berlin' },
      secret: 'mine',
      ownerSecret: 'theirs',
      backfill: { schedule: '30 3 * * *', timeZone: 'Europe/Berlin' },
      networkPolicy: { ...values.networkPolicy, enabled: false },
      resources: { limits: { memory: '1Gi' } },
    }
    const made = named(documents(own, 'clinic'))
    expect([...made.keys()].every((name) => name.includes(' clinic'))).toBe(true)
    expect([...made.keys()].filter((name) => name.startsWith('NetworkPolicy'))).toEqual([])
    expect(made.get('ConfigMap clinic').data.INTAKE_TIMEZONE).toBe('Europe/Berlin')
    expect(made.get('CronJob clinic-backfill').spec).toMatchObject({
      schedule: '30 3 * * *',
      timeZone: 'Europe/Berlin',
    })
    const [container] = podOf(made.get('Deployment clinic-ingester')).containers
    expect(container).toMatchObject({
      image: 'registry.example.com/intake-sync:9.9.9',
      resources: own.resources,
    })
    const text = JSON.stringify([...made.values()])
    expect([text.includes('"secretName":"mine"'), text.includes('"secretName":"theirs"')]).toEqual([
      true,
      true,
    ])
  })

  it('has the version of the package', () => {
    const { version } = JSON.parse(readFileSync(resolve(deploy, '../../package.json'), 'utf8'))
    expect([chart.version, chart.appVersion]).toEqual([version, version])
  })
})

describe('values.schema.json', () => {
  const check = new Ajv().compile(JSON.parse(read('chart/values.schema.json')))

  it('accepts values.yaml, and names every value of it', () => {
    expect([check(values), check.errors]).toEqual([true, null])
    const { properties } = JSON.parse(read('chart/values.schema.json'))
    expect(Object.keys(properties).toSorted()).toEqual([...Object.keys(values), 'global'].toSorted())
  })

  it.each([
    ['a secret among the settings', { settings: { ...values.settings, INTAKE_API_SECRET: 'x' } }],
    ['no address of the service', { settings: {} }],
    ['a number as a setting', { settings: { ...values.settings, INTAKE_CONCURRENCY: 4 } }],
    ['no replica', { replicas: 0 }],
    ['a schedule that is none', { backfill: { ...values.backfill, schedule: 'nightly' } }],
    ['a misspelt name', { replica: 2 }],
  ])('refuses %s', (_, wrong) => {
    expect(check({ ...values, ...wrong })).toBe(false)
  })
})
