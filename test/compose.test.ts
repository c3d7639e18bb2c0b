import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { Ajv } from 'ajv'
import addFormats from 'ajv-formats'
import { describe, expect, onTestFinished, test } from 'vitest'
import { parse } from 'yaml'
import { readConfig } from '../src/config/config.ts'
import { expectCommand, expectVariables } from './shipping/known.ts'

/** Lints what no container engine is needed for: docker-compose.yml and Dockerfile. */
const root = resolve(import.meta.dirname, '..')
const read = (name: string) => readFileSync(join(root, name), 'utf8')

interface Service {
  readonly image?: string
  readonly user?: string
  readonly read_only?: boolean
  readonly command?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly secrets?: readonly string[]
  readonly volumes?: readonly string[]
  readonly ports?: readonly string[]
  readonly networks?: readonly string[] | Readonly<Record<string, unknown>>
  readonly network_mode?: string
  readonly profiles?: readonly string[]
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly healthcheck?: unknown
  readonly stop_grace_period?: string
  readonly ulimits?: unknown
  readonly mem_limit?: string
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>
  readonly secrets: Readonly<Record<string, { readonly file: string }>>
  readonly volumes: Readonly<Record<string, unknown>>
  readonly networks: Readonly<Record<string, unknown>>
}

const compose = parse(read('docker-compose.yml'), { merge: true }) as Compose
const { version } = JSON.parse(read('package.json')) as { version: string }
const services = Object.entries(compose.services)
const CONDITIONS = ['service_started', 'service_healthy', 'service_completed_successfully']

describe('docker-compose.yml', () => {
  test.each(services)('%s refers only to what is defined', (_, service) => {
    for (const secret of service.secrets ?? []) expect(Object.keys(compose.secrets)).toContain(secret)
    for (const volume of service.volumes ?? []) {
      expect(Object.keys(compose.volumes)).toContain(volume.split(':')[0])
    }
    const networks = Array.isArray(service.networks) ? service.networks : Object.keys(service.networks ?? {})
    for (const network of networks) expect(Object.keys(compose.networks)).toContain(network)
    const shared = /^service:(.+)$/.exec(service.network_mode ?? '')?.[1]
    if (shared !== undefined) expect(Object.keys(compose.services)).toContain(shared)
    for (const [name, value] of Object.entries(service.environment ?? {})) {
      if (!name.endsWith('_FILE')) continue
      expect(service.secrets).toContain(/^\/run\/secrets\/(\w+)$/.exec(value)?.[1])
    }
  })

  test.each(services)('%s waits only for what its profile starts, and can be waited for', (_, service) => {
    for (const [name, { condition }] of Object.entries(service.depends_on ?? {})) {
      const other = compose.services[name]!
      expect(other).toBeDefined()
      expect(CONDITIONS).toContain(condition)
      if (condition === 'service_healthy') expect(other.healthcheck).toBeDefined()
      for (const profile of other.profiles ?? []) expect(service.profiles).toContain(profile)
    }
  })

  test.each(services)('%s holds no password, and binds ports to this machine only', (_, service) => {
    for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/)
    for (const [name, value] of Object.entries(service.environment ?? {})) {
      if (!/PASSWORD|SECRET|KEY|DATABASE_URL/.test(name)) continue
      // Those of the emulator are made up.
      if (service.profiles?.includes('emulator') && value === 'rehearsal') continue
      expect([name, value]).toEqual([
        expect.stringMatching(/_FILE$/),
        expect.stringMatching(/^\/run\/secrets\//),
      ])
    }
  })

  test('is a Compose file, by the schema of its specification', () => {
    const { $schema: _, ...schema } = JSON.parse(read('test/shipping/schema/compose-spec.json')) as object & {
      $schema: string
    }
    const ajv = new Ajv({ strict: false, allErrors: true })
    addFormats.default(ajv)
    for (const name of ['ports', 'expose', 'duration', 'subnet_ip_address']) ajv.addFormat(name, true)
    const isCompose = ajv.compile(schema)
    isCompose(compose)
    expect(isCompose.errors ?? []).toEqual([])
    isCompose({ services: { one: { image: 'one', restarts: 'always' } } })
    expect(isCompose.errors).toHaveLength(1)
  })

  test('each of our services runs unprivileged on a read-only file system, with a command and settings that exist', async () => {
    const ours = services.filter(([, each]) => each.image?.startsWith('intake-sync'))
    expect(ours.map(([name]) => name)).toEqual(
      expect.arrayContaining(['migrate', 'ingester', 'nightly', 'backfill', 'emulator', 'rehearsal']),
    )
    for (const [name, service] of ours) {
      expect([name, service]).toEqual([name, expect.objectContaining({ read_only: true, cap_drop: ['ALL'] })])
      expect(service.user).not.toMatch(/root|^0/)
      await expectCommand(service.command!)
      expectVariables(Object.keys(service.environment ?? {}))
    }
  })

  test('every image of others is pinned by its digest, here and in what else is shipped', () => {
    // The chart's only image is ours, of a repository that its values name.
    const files = readdirSync(join(root, 'docs/deploy'), { recursive: true, encoding: 'utf8' })
      .filter((name) => !name.startsWith('chart'))
      .map((name) => `docs/deploy/${name}`)
      .filter((name) => /\.ya?ml$|Dockerfile/.test(name))
    const images = ['docker-compose.yml', 'Dockerfile', ...files].flatMap((name) =>
      [...read(name).matchAll(/^[ \t]*(?:- )?(?:image:|FROM|# syntax=)[ \t]*(\S+)/gm)].map(
        (each) => each[1]!,
      ),
    )
    const ours = images.filter((each) => each === `intake-sync:${version}`)
    const others = images.filter((each) => !ours.includes(each))
    expect(ours.length).toBeGreaterThan(4)
    expect(others.length).toBeGreaterThan(2)
    for (const image of others) expect(image).toMatch(/^[\w./:-]+:[\w.-]+@sha256:[0-9a-f]{64}$/)
    // No tag has two digests.
    expect(new Set(others.map((each) => each.split('@')[0])).size).toBe(new Set(others).size)
  })

  test('no container of ours leaves a core file, or takes more memory than it needs', () => {
    for (const [name, service] of services) {
      expect([name, service.ulimits]).toEqual([name, { core: 0 }])
      if (service.image?.startsWith('intake-sync')) expect([name, service.mem_limit]).toEqual([name, '512m'])
    }
  })

  test('only what migrates has the login of the owner; what runs all the time has that of intake_loader', () => {
    const owners = services.filter(([, each]) => each.secrets?.includes('database_url_owner'))
    expect(owners.filter(([, each]) => each.profiles === undefined).map(([name]) => name)).toEqual([
      'migrate',
    ])
    // A rehearsal migrates its own database, which is gone afterwards.
    for (const [, each] of owners) expect(each.profiles ?? ['emulator']).toEqual(['emulator'])
    for (const name of ['ingester', 'nightly', 'backfill'])
      expect(compose.services[name]!.environment!.DATABASE_URL_FILE).toBe('/run/secrets/database_url')
    const script = read('docs/deploy/postgres-logins.sh')
    expect(script).toContain("create role intake_serve login password :'password' in role intake_loader;")
    expect(script).not.toContain('superuser')
  })

  test('a serving container has a health check at its own address, and time to end', () => {
    const serving = services.filter(([, { command }]) => /^(?:serve|work)$/.test(command?.[0] ?? ''))
    expect(serving.map(([name]) => name)).toEqual([
      'ingester',
      'ingester-2',
      'worker',
      'nightly',
      'rehearsal-ingester',
    ])
    for (const [name, service] of serving) {
      const { test: probe } = service.healthcheck as { test: readonly string[] }
      expect([name, probe.slice(0, 3)]).toEqual([name, ['CMD', 'node', '-e']])
      expect(probe[3]).toContain(`http://127.0.0.1:${readConfig({}).adminPort}/healthz`)
      expect([name, service.stop_grace_period]).toEqual([name, '2m'])
    }
    // Between them they run every part of it once.
    const off = serving
      .filter(([, each]) => each.profiles === undefined)
      .flatMap(([, { command }]) => command!.slice(1))
    expect(off.toSorted()).toEqual(['--no-drain', '--no-ingest', '--no-schedule', '--no-work'])
  })

  test('a container that runs to its end has no health check, and is not restarted', () => {
    const once = services.filter(([, { command }]) =>
      /^(?:migrate|backfill|verify|webhooks)$/.test(command?.[0] ?? ''),
    )
    expect(once.length).toBeGreaterThan(4)
    for (const [name, service] of once)
      expect([name, service]).toEqual([
        name,
        expect.objectContaining({ healthcheck: { disable: true }, restart: 'no' }),
      ])
  })

  test('a rehearsal reaches no warehouse but its own', () => {
    const rehearsed = services.filter(([, each]) => each.profiles?.includes('emulator'))
    for (const [name, service] of rehearsed) {
      const networks = service.network_mode ?? service.networks
      expect([name, networks]).toEqual([name, expect.anything()])
      expect([name, service.network_mode ?? 'service:emulator']).toEqual([name, 'service:emulator'])
      expect(JSON.stringify(service.networks ?? {})).not.toContain('default')
      expect(service.ports ?? []).toEqual([])
    }
  })

  test('the balancer reaches every ingester of the warehouse, and repeats only events', () => {
    const conf = read('docs/deploy/balancer.conf')
    const servers = [...conf.matchAll(/^ *server (\S+):(\d+) resolve /gm)].map(([, name, port]) => [
      name!,
      Number(port),
    ])
    const ingesters = Object.keys(compose.services).filter((name) => name.startsWith('ingester'))
    expect(servers).toEqual(ingesters.map((name) => [name, readConfig({}).webhookPort]))
    expect(ingesters.length).toBeGreaterThan(1)
    const { ports, ...first } = compose.services.ingester!
    expect(compose.services['ingester-2']).toEqual({ ...first, ports: [], profiles: ['scale'] })
    const balancer = compose.services.balancer!
    expect(Object.keys(balancer.depends_on!)).toEqual(ingesters)
    expect(balancer).toMatchObject({ read_only: true, cap_drop: ['ALL'], profiles: ['scale'] })
    // A read-only file system: everything that nginx writes is in the tmpfs.
    for (const [, path] of conf.matchAll(/^ *(?:pid|\w+_temp_path) (\S+);/gm))
      expect(path).toMatch(/^\/tmp\//)
    // What it publishes is what it listens on.
    expect(balancer.ports).toEqual([expect.stringMatching(/:8080$/)])
    expect(conf).toMatch(/^ *listen 8080;/m)
  })

  const nginx = spawnSync('nginx', ['-v'], { stdio: 'ignore' }).status === 0
  test.skipIf(!nginx)('nginx reads the configuration of the balancer (skipped where there is none)', () => {
    const { status, stderr } = spawnSync('nginx', ['-t', '-c', join(root, 'docs/deploy/balancer.conf')], {
      encoding: 'utf8',
    })
    expect([status, stderr]).toEqual([0, expect.stringContaining('syntax is ok')])
  })

  test('the probe of health fails where nothing answers', () => {
    const [, , script] = (compose.services.ingester!.healthcheck as { test: readonly string[] }).test.slice(1)
    const probe = script!.replace(':9090', ':1')
    expect(spawnSync(process.execPath, ['-e', probe]).status).toBe(1)
  })

  test('a secret comes from a file that git and the image ignore', () => {
    for (const { file } of Object.values(compose.secrets)) expect(file).toMatch(/^\.\/secrets\/\w+$/)
    expect(read('.gitignore')).toContain('/secrets/')
    expect(read('.dockerignore')).toMatch(/^\*$/m)
    expect(read('.dockerignore')).not.toContain('secrets')
  })

  const plugin = spawnSync('docker', ['compose', 'version'], { stdio: 'ignore' }).status === 0
  test.skipIf(!plugin)('docker compose reads it (skipped where there is no compose plugin)', () => {
    execFileSync('docker', ['compose', '--profile', '*', 'config', '--quiet'], { cwd: root, stdio: 'pipe' })
  })
})

/** The parts of dockerfile-utils, the validator of Docker's language server. */
interface Linter {
  readonly ValidationSeverity: { readonly ERROR: number }
  validate(
    text: string,
    settings: Readonly<Record<string, number>>,
  ): readonly { readonly message: string; readonly range: { readonly start: { readonly line: number } } }[]
}

describe('Dockerfile', () => {
  const steps = read('Dockerfile')
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))

  test('passes the linter, which finds what is wrong', () => {
    const { validate, ValidationSeverity } = createRequire(import.meta.url)('dockerfile-utils') as Linter
    const { ERROR } = ValidationSeverity
    const complaints = (text: string) =>
      validate(text, {
        ...{
          instructionCasing: ERROR,
          instructionJSONInSingleQuotes: ERROR,
          instructionWorkdirRelative: ERROR,
        },
      }).map(({ message, range }) => `${range.start.line + 1}: ${message}`)
    const text = read('Dockerfile')
    expect(complaints(text)).toEqual([])
    for (const [right, wrong] of [
      ['WORKDIR /app', 'WORKDIR app'],
      ['EXPOSE 8080', 'EXPOSE eighty'],
      ['--interval=10s', '--intervall=10s'],
      ['USER node', 'USRE node'],
    ] as const)
      expect([wrong, complaints(text.replace(right, wrong)).length]).toEqual([wrong, 1])
  })

  test('copies only what exists and what the ignore file lets through', () => {
    const allowed = [...read('.dockerignore').matchAll(/^!(.+)$/gm)].map((match) => match[1]!)
    for (const step of steps.filter((line) => /^COPY (?!--from)/.test(line))) {
      for (const source of step.split(/\s+/).slice(1, -1)) {
        expect([source, existsSync(join(root, source))]).toEqual([source, true])
        expect(allowed).toContain(source.split('/')[0])
      }
    }
  })

  test('ends as an ordinary user in the exec form, on one pinned major of Node', () => {
    const images = steps.flatMap((line) => /^FROM (\S+)/.exec(line)?.[1] ?? [])
    expect(new Set(images).size).toBe(1)
    expect(images[0]).toMatch(/^node:\d+-\w+-slim@sha256:[0-9a-f]{64}$/)
    expect(steps.findLast((line) => line.startsWith('USER'))).toBe('USER node')
    expect(steps).toContain('ENTRYPOINT ["intake-sync"]')
    expect(steps).toContain('STOPSIGNAL SIGTERM')
  })

  test('installs what the lock file names, and runs no script of a package', () => {
    const installs = steps.flatMap((line) => line.match(/npm (?:ci|install|i|prune)\b[^&]*/g) ?? [])
    expect(installs.map((each) => each.split(' ')[1])).toEqual(['ci', 'prune'])
    for (const each of installs) expect(each).toContain('--ignore-scripts')
    expect(steps.filter((line) => /^(?:ADD|SHELL)\b|curl|wget|apt-get/.test(line))).toEqual([])
    // No secret is built in: they come when it runs.
    expect(steps.filter((line) => /^(?:ARG|ENV)\b/.test(line))).toEqual(['ENV NODE_ENV=production'])
  })

  test('asks `serve` for its health where it answers; where nothing does, it is not healthy', async () => {
    const [, json] = /^HEALTHCHECK (?:--\S+ )+CMD (\[.+\])$/.exec(
      steps.find((line) => line.startsWith('HEALTHCHECK'))!,
    )!
    const [program, ...words] = JSON.parse(json!) as string[]
    expect(program).toBe('node')
    const healthOf = (port: number) =>
      new Promise<number | null>((resolve) => {
        const env = { PATH: process.env.PATH, INTAKE_ADMIN_PORT: String(port) }
        spawn(process.execPath, words, { env }).on('close', resolve)
      })
    let status = 200
    const server = createServer((request, response) =>
      response.writeHead(request.url === '/healthz' ? status : 404).end(),
    )
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    expect(await healthOf(port)).toBe(0)
    status = 503
    expect(await healthOf(port)).toBe(1)
    expect(await healthOf(1)).toBe(1)
    expect(words.join(' ')).toContain(`|| ${readConfig({}).adminPort}}/healthz`)
  })
})
