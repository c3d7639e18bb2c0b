/** The examples of docs/deploy: what they run and set exists, and they are as safe as they say. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { validate as isCron } from 'node-cron'
import { describe, expect, onTestFinished, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { readConfig } from '../../src/config/config.ts'
import { SLICES_AT_ONCE } from '../../src/extract/work.ts'
import { expectCommand, expectVariables, wordsAfterCli } from './known.ts'

const deploy = resolve(import.meta.dirname, '../../docs/deploy')
const read = (name: string) => readFileSync(join(deploy, name), 'utf8')
const { version } = JSON.parse(readFileSync(resolve(deploy, '../../package.json'), 'utf8')) as {
  version: string
}

describe('systemd', () => {
  const units = readdirSync(join(deploy, 'systemd'))
  const services = units.filter((name) => name.endsWith('.service'))
  /** The settings of a unit, in their order. */
  const settingsOf = (name: string) =>
    [...read(`systemd/${name}`).matchAll(/^([A-Za-z]+)=(.*)$/gm)].map((each) => [each[1]!, each[2]!] as const)
  const valuesOf = (name: string, key: string) =>
    settingsOf(name).flatMap(([each, value]) => (each === key ? [value] : []))

  test.each(services)('%s runs a command that exists, with secrets that it is handed', async (name) => {
    const [command, ...more] = valuesOf(name, 'ExecStart')
    expect(more).toEqual([])
    expect(command).toMatch(
      /^(?:\/usr\/bin\/env INTAKE_ADMIN_PORT=960%i )?\/usr\/bin\/node (--max-semi-space-size=32 )?\/opt\/intake-sync\/dist\/cli\.js /,
    )
    await expectCommand(wordsAfterCli(command!))
    // A worker takes no port of another, nor that of `serve`.
    expect(command!.startsWith('/usr/bin/env ')).toBe(name.includes('@'))
    const environment = valuesOf(name, 'Environment').map((line) => line.split('=') as [string, string])
    expectVariables(environment.map(([variable]) => variable))
    const handed = valuesOf(name, 'LoadCredential').map((line) => line.split(':')[0])
    const taken = environment.flatMap(([, value]) => (value.startsWith('%d/') ? [value.slice(3)] : []))
    expect(taken.toSorted()).toEqual(handed.toSorted())
    for (const [variable, value] of environment)
      if (variable !== 'NODE_ENV')
        expect([variable, value]).toEqual([expect.stringMatching(/_FILE$/), `%d/${value.slice(3)}`])
  })

  test.each(services)('%s has no privilege that it does not need, and has time to end', (name) => {
    const settings = new Map(settingsOf(name))
    for (const yes of [
      'DynamicUser',
      'NoNewPrivileges',
      'PrivateTmp',
      'PrivateDevices',
      'ProtectHome',
      'RestrictNamespaces',
    ])
      expect([yes, settings.get(yes)]).toEqual([yes, 'yes'])
    expect(settings.get('ProtectSystem')).toBe('strict')
    expect(settings.get('CapabilityBoundingSet')).toBe('')
    expect(settings.get('UMask')).toBe('0077')
    expect(settings.get('LimitCORE')).toBe('0')
    expect(settings.get('MemoryMax')).toBe('512M')
    expect(settings.get('TimeoutStopSec')).toBe('2min')
    // Node compiles as it runs.
    expect(settings.has('MemoryDenyWriteExecute')).toBe(false)
  })

  test('only the unit that migrates has the login of the owner, and it runs before the others', () => {
    const owners = services.filter((name) => read(`systemd/${name}`).includes('database_url_owner'))
    expect(owners).toEqual(['intake-sync-migrate.service'])
    for (const name of services.filter((each) => !owners.includes(each)))
      expect(valuesOf(name, 'After')[0]).toContain('intake-sync-migrate.service')
  })

  test('the timer starts a unit that is there, at the hour of the default schedule', () => {
    for (const timer of units.filter((name) => name.endsWith('.timer')))
      expect(services).toContain(timer.replace('.timer', '.service'))
    expect(valuesOf('intake-sync-backfill.timer', 'OnCalendar')).toEqual(['*-*-* 02:00:00'])
    expect(readConfig({}).cron).toBe('0 2 * * *')
  })

  const systemd = spawnSync('systemd-analyze', ['--version'], { stdio: 'ignore' }).status === 0
  test.skipIf(!systemd)('systemd reads them without a word (skipped where there is none)', () => {
    const folder = mkdtempSync(join(tmpdir(), 'intake-sync-units-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const paths = units.map((name) => join(folder, name))
    for (const [at, name] of units.entries())
      writeFileSync(paths[at]!, read(`systemd/${name}`).replace('/usr/bin/node', process.execPath))
    const words = ['verify', '--man=no', ...paths]
    const { status, stdout, stderr } = spawnSync('systemd-analyze', words, { encoding: 'utf8' })
    // Of units of the machine it may have something to say.
    const said = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('intake-sync'))
    expect([said, status]).toEqual([[], 0])
  })
})

describe('crontab', () => {
  const lines = read('crontab')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  const jobs = lines.filter((line) => !/^[A-Z]+=/.test(line))

  test('its lines have a moment, a user, and a command that exists', async () => {
    expect(jobs).toHaveLength(2)
    for (const job of jobs) {
      const [, moment, user, command] = /^((?:\S+ ){4}\S+)\s+(\S+)\s+(.+)$/.exec(job)!
      expect(isCron(moment!)).toBe(true)
      expect(user).toBe('intake-sync')
      // cron ends a command at a percent sign.
      expect(command).not.toContain('%')
      expect(command).toMatch(/^ulimit -c 0; /)
      expect(spawnSync('sh', ['-n', '-c', command!]).status).toBe(0)
      await expectCommand(wordsAfterCli(command!))
    }
    expectVariables(lines.filter((line) => !jobs.includes(line)).map((line) => line.split('=')[0]!))
  })

  test('what a settings file holds reaches the command', () => {
    const folder = mkdtempSync(join(tmpdir(), 'intake-sync-cron-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    writeFileSync(join(folder, 'environment'), 'INTAKE_TEAM=north\n')
    const command = jobs[0]!
      .replace(/^.*?set -a/, 'set -a')
      .replace('/etc/intake-sync', folder)
      .replace(/exec node .*/, 'exec node -p process.env.INTAKE_TEAM')
    expect(String(execFileSync('sh', ['-c', command])).trim()).toBe('north')
  })
})

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
}

interface Container {
  readonly name: string
  readonly image: string
  readonly args: readonly string[]
  readonly env?: readonly { readonly name: string; readonly value: string }[]
  readonly envFrom: readonly { readonly configMapRef: { readonly name: string } }[]
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[]
  readonly livenessProbe?: Probe
  readonly readinessProbe?: Probe
  readonly startupProbe?: Probe
  readonly securityContext: unknown
  readonly resources: { readonly limits: { readonly memory: string } }
  readonly volumeMounts: readonly {
    readonly name: string
    readonly mountPath: string
    readonly readOnly?: true
  }[]
}

interface Pod {
  readonly restartPolicy?: string
  readonly automountServiceAccountToken: boolean
  readonly terminationGracePeriodSeconds: number
  readonly securityContext: unknown
  readonly containers: readonly Container[]
  readonly volumes: readonly { readonly name: string; readonly secret?: { readonly secretName: string } }[]
}

// biome-ignore lint/suspicious/noExplicitAny: manifests of several kinds
type Manifest = any

describe('kubernetes', () => {
  const documents = parseAllDocuments(read('kubernetes.yaml'))
  const manifests = documents.map((each) => each.toJS() as Manifest)
  const ofKind = (kind: string): Manifest => manifests.find((each) => each.kind === kind)
  const deployment = ofKind('Deployment')
  const cronJob = ofKind('CronJob')
  const pods: readonly (readonly [string, Manifest])[] = [
    ['Deployment', deployment.spec.template],
    ['CronJob', cronJob.spec.jobTemplate.spec.template],
  ]

  test('is YAML of kinds that are stable, each named and labelled', () => {
    expect(documents.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([])
    expect(manifests.map(({ apiVersion, kind }) => `${apiVersion} ${kind}`)).toEqual([
      ...[
        'v1 ConfigMap',
        'networking.k8s.io/v1 NetworkPolicy',
        'apps/v1 Deployment',
        'v1 Service',
        'policy/v1 PodDisruptionBudget',
        'batch/v1 CronJob',
      ],
    ])
    for (const { metadata } of manifests) {
      expect(metadata.name).toMatch(/^intake-sync/)
      expect(metadata.labels['app.kubernetes.io/name']).toBe('intake-sync')
    }
    // A secret is made from files, and stands in no manifest.
    expect(ofKind('Secret')).toBeUndefined()
  })

  test.each(pods)(
    'the pods of the %s run a command that exists, with settings that do',
    async (_, template) => {
      const { containers } = template.spec as Pod
      expect(containers).toHaveLength(1)
      const [{ args, env = [], envFrom, image }] = containers as [Container]
      expect(image).toBe(`intake-sync:${version}`)
      await expectCommand(args)
      expect(envFrom).toEqual([{ configMapRef: { name: ofKind('ConfigMap').metadata.name } }])
      expectVariables([...env.map(({ name }) => name), ...Object.keys(ofKind('ConfigMap').data)])
    },
  )

  test.each(pods)(
    'the pods of the %s are unprivileged, and find their secrets where they look',
    (_, template) => {
      const pod = template.spec as Pod
      const { containers, volumes } = pod
      expect(pod.automountServiceAccountToken).toBe(false)
      expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(120)
      expect(pod.securityContext).toMatchObject({
        runAsNonRoot: true,
        runAsUser: 1000,
        seccompProfile: { type: 'RuntimeDefault' },
      })
      const [{ securityContext, volumeMounts, resources }] = containers as [Container]
      expect(securityContext).toEqual({
        ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
      })
      expect(Number.parseInt(resources.limits.memory, 10)).toBeGreaterThan(300)
      const mount = volumeMounts.find(({ name }) => name === 'secrets')!
      expect(mount.readOnly).toBe(true)
      expect(volumes.find(({ name }) => name === 'secrets')!.secret!.secretName).toBe('intake-sync')
      const named = [...read('kubernetes.yaml').matchAll(/--from-file=(\w+)/g)].map((each) => each[1])
      for (const [name, value] of Object.entries<string>(ofKind('ConfigMap').data)) {
        if (!name.endsWith('_FILE')) expect(name).not.toMatch(/KEY|SECRET|PASSWORD|DATABASE_URL/)
        else expect(named.map((each) => `${mount.mountPath}/${each}`)).toContain(value)
      }
      expect(template.metadata.labels).toMatchObject({ 'app.kubernetes.io/name': 'intake-sync' })
    },
  )

  test.each(pods)('only the init container of the %s has the login of the owner', (_, template) => {
    const [migrating, ...others] = template.spec.initContainers as Container[]
    expect([migrating!.args, others]).toEqual([['migrate'], []])
    expect(migrating!.env).toEqual([
      { name: 'DATABASE_URL_FILE', value: '/run/secrets/owner/database_url_owner' },
    ])
    expect(migrating!.envFrom).toBeUndefined()
    expect(migrating!.securityContext).toEqual(template.spec.containers[0].securityContext)
    for (const { volumeMounts } of template.spec.containers as Container[])
      expect(volumeMounts.map(({ name }) => name)).not.toContain('owner')
  })

  test('a pod is reached for webhooks and by the monitor only, and reaches names, Postgres and the service', () => {
    const { podSelector, ingress, egress, policyTypes } = ofKind('NetworkPolicy').spec
    for (const [, template] of pods) expect(template.metadata.labels).toMatchObject(podSelector.matchLabels)
    expect(policyTypes).toEqual(['Ingress', 'Egress'])
    const portsOf = (rules: readonly { ports: readonly { port: unknown }[] }[]) =>
      rules.flatMap(({ ports }) => ports.map(({ port }) => port))
    expect(portsOf(ingress)).toEqual(['webhooks', 'admin'])
    expect(portsOf(egress)).toEqual([53, 53, 5432, 443])
  })

  test('the ingester is asked where it answers, and takes webhooks while one of two is replaced', () => {
    const { spec } = deployment
    const [container] = (spec.template.spec as Pod).containers as [Container]
    const { startupProbe, livenessProbe, readinessProbe, ports = [] } = container
    const probes = [startupProbe, livenessProbe, readinessProbe].map((probe) => probe!.httpGet)
    expect(probes.map(({ path }) => path)).toEqual(['/healthz', '/healthz', '/readyz'])
    const portOf = (name: string) => ports.find((port) => port.name === name)!.containerPort
    for (const { port } of probes) expect(portOf(port)).toBe(readConfig({}).adminPort)
    const service = ofKind('Service')
    expect(service.spec.ports.map((port: { targetPort: string }) => portOf(port.targetPort))).toEqual([
      readConfig({}).webhookPort,
    ])
    for (const { selector } of [service.spec, ofKind('PodDisruptionBudget').spec, spec])
      expect(spec.template.metadata.labels).toMatchObject(selector.matchLabels ?? selector)
    expect(spec.replicas).toBeGreaterThan(ofKind('PodDisruptionBudget').spec.minAvailable)
    expect(container.args).toContain('--no-schedule')
  })

  test('the backfill is one at a time, and tried again only where that can help', () => {
    const { spec } = cronJob
    expect(isCron(spec.schedule)).toBe(true)
    expect(spec.concurrencyPolicy).toBe('Forbid')
    const job = spec.jobTemplate.spec
    expect(job.template.spec.restartPolicy).toBe('Never')
    const [rule] = job.podFailurePolicy.rules
    expect(rule.action).toBe('FailJob')
    expect(rule.onExitCodes).toEqual({
      containerName: job.template.spec.containers[0].name,
      operator: 'In',
      values: [2, 3, 4],
    })
  })
})

test('the table of docs/deploy names every file, and none that is not there', () => {
  const named = [...read('README.md').matchAll(/\]\((?:#)?([\w.-]+)\)/g)].map(([, name]) => name!)
  const files = readdirSync(deploy).filter((name) => name !== 'README.md')
  expect(files.filter((name) => !named.includes(name))).toEqual([])
  expect(named.filter((name) => name !== 'cron' && !files.includes(name))).toEqual([])
})

test('the chart, named intake-sync, has what kubernetes-scale.yaml refers to', () => {
  const chart = ['ingester', 'settings'].map((name) => read(`chart/templates/${name}.yaml`)).join('\n')
  const names = [...chart.replaceAll('{{ .Release.Name }}', 'intake-sync').matchAll(/^ {2}name: (\S+)$/gm)]
  const values = parseAllDocuments(read('chart/values.yaml'))[0]!.toJS() as Manifest
  const scale = parseAllDocuments(read('kubernetes-scale.yaml')).map((each) => each.toJS() as Manifest)
  const own = scale.map(({ metadata }) => metadata.name)
  const scaled = scale.flatMap(({ spec }) => spec.scaleTargetRef?.name ?? [])
  const pod = scale.find(({ kind }) => kind === 'Deployment')!.spec.template.spec
  const settings = pod.containers[0].envFrom[0].configMapRef.name
  for (const name of [...scaled, settings]) expect([...own, ...names.map(([, each]) => each)]).toContain(name)
  expect(pod.volumes[0].secret.secretName).toBe(values.secret)
})

describe('kubernetes-scale', () => {
  const [base, scale] = ['kubernetes.yaml', 'kubernetes-scale.yaml'].map((name) =>
    parseAllDocuments(read(name)),
  )
  const toManifests = (documents: typeof base): readonly Manifest[] => documents!.map((each) => each.toJS())
  const added = toManifests(scale)
  const all = [...toManifests(base), ...added]
  const deployments = all.filter(({ kind }) => kind === 'Deployment')

  test('is YAML whose names nothing else has', () => {
    expect(scale!.flatMap(({ errors, warnings }) => [...errors, ...warnings])).toEqual([])
    const names = all.map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    expect(new Set(names).size).toBe(names.length)
    for (const { metadata } of added) expect(metadata.labels['app.kubernetes.io/name']).toBe('intake-sync')
  })

  test('runs workers as safely as ingesters, with probes that they answer', async () => {
    const [ingester, worker] = ['ingester', 'worker'].map((name) =>
      deployments.find(({ metadata }) => metadata.name === `intake-sync-${name}`),
    )
    const [like, pod] = [ingester, worker].map(({ spec }) => spec.template.spec)
    const [container] = pod.containers
    await expectCommand(container.args)
    expectVariables(container.env.map(({ name }: Manifest) => name))
    for (const same of ['securityContext', 'automountServiceAccountToken', 'terminationGracePeriodSeconds'])
      expect([same, pod[same]]).toEqual([same, like[same]])
    for (const same of ['image', 'envFrom', 'securityContext', 'resources', 'volumeMounts'])
      expect([same, container[same]]).toEqual([same, like.containers[0][same]])
    // All but the login of the owner.
    expect(pod.volumes).toEqual(like.volumes.filter(({ name }: Manifest) => name !== 'owner'))
    expect(container.readinessProbe.httpGet).toEqual({ path: '/readyz?part=work', port: 'admin' })
    expect(container.livenessProbe.httpGet).toEqual({ path: '/healthz', port: 'admin' })
    const budget = added.find(({ kind }) => kind === 'PodDisruptionBudget')
    for (const { selector } of [worker.spec, budget.spec])
      expect(worker.spec.template.metadata.labels).toMatchObject(selector.matchLabels)
    expect(worker.spec.replicas).toBeGreaterThan(budget.spec.minAvailable)
  })

  test('scales deployments that exist, never below what their disruption budget keeps', () => {
    const scalers = added.filter(({ kind }) => kind === 'HorizontalPodAutoscaler')
    expect(scalers.length).toBeGreaterThan(0)
    for (const { apiVersion, spec } of scalers) {
      expect(apiVersion).toBe('autoscaling/v2')
      const scaled = deployments.find(({ metadata }) => metadata.name === spec.scaleTargetRef.name)
      expect(spec.scaleTargetRef).toMatchObject({ apiVersion: scaled.apiVersion, kind: 'Deployment' })
      expect(spec.minReplicas).toBeGreaterThanOrEqual(scaled.spec.replicas)
      expect(spec.maxReplicas).toBeGreaterThan(spec.minReplicas)
      const budget = all.find(
        ({ kind, metadata }) => kind === 'PodDisruptionBudget' && metadata.name === scaled.metadata.name,
      )
      expect(spec.minReplicas).toBeGreaterThan(budget.spec.minAvailable)
    }
  })

  test('asks for metrics that its rules of the adapter make', () => {
    const rules = read('kubernetes-scale.yaml').replaceAll(/^# {0,3}/gm, '')
    const made = [...rules.matchAll(/seriesQuery: '(\w+)'\n +name: \{ as: (\w+) \}/g)]
    const asked = added.flatMap(({ spec }) =>
      (spec.metrics ?? []).flatMap((each: Manifest) => each.external?.metric.name ?? []),
    )
    expect(asked.length).toBeGreaterThan(0)
    expect(made.map(([, , name]) => name).toSorted()).toEqual(asked.toSorted())
    for (const [, series] of made) expect(rules).toMatch(new RegExp(`metricsQuery: '.*\\b${series}\\{`))
  })

  test('has as many workers as streams that workers read, or could claim now, for eight of each', () => {
    // A pending stream whose team has four that are being read calls for no worker: test/operate/health/metrics.test.ts.
    const rules = read('kubernetes-scale.yaml')
    const query = /as: slices_for_workers[\s\S]*?metricsQuery: '(.*)'/.exec(rules)![1]!
    expect(query.match(/intake_\w+/g)).toEqual(['intake_slices_claimable', 'intake_slices_claimed'])
    const scaler = added.find(
      ({ kind, metadata }) => kind === 'HorizontalPodAutoscaler' && metadata.name === 'intake-sync-worker',
    )
    expect(scaler.spec.metrics[0].external.target).toEqual({
      type: 'AverageValue',
      averageValue: String(SLICES_AT_ONCE),
    })
  })
})
