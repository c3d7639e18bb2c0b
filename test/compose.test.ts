import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { readConfig } from '../src/config.ts'
import { builtFile } from './support/built.ts'

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
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>
  readonly secrets: Readonly<Record<string, { readonly file: string }>>
  readonly volumes: Readonly<Record<string, unknown>>
  readonly networks: Readonly<Record<string, unknown>>
}

const compose = parse(read('docker-compose.yml'), { merge: true }) as Compose
const services = Object.entries(compose.services)
const CONDITIONS = ['service_started', 'service_healthy', 'service_completed_successfully']

function helpOf(...words: string[]): string {
  return String(execFileSync(process.execPath, [builtFile('cli.js'), ...words, '--help'], { cwd: root }))
}

function commandsOf(): readonly string[] {
  return [...helpOf().matchAll(/^ {2}([a-z][\w-]*) /gm)].map((match) => match[1]!)
}

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

  test('each of our services runs unprivileged on a read-only file system, with a command that exists', () => {
    const commands = commandsOf()
    expect(commands).toEqual(expect.arrayContaining(['migrate', 'backfill', 'emulator', 'demo']))
    for (const [name, service] of services.filter(([, each]) => each.image?.startsWith('intake-sync'))) {
      expect([name, service]).toEqual([name, expect.objectContaining({ read_only: true, cap_drop: ['ALL'] })])
      expect(service.user).not.toMatch(/root|^0/)
      const [command, ...options] = service.command!
      expect(commands).toContain(command)
      const help = helpOf(command!)
      for (const option of options.filter((word) => word.startsWith('--'))) expect(help).toContain(option)
    }
  })

  test('what serves is asked for its health where it answers, and has time to end', () => {
    const serving = services.filter(([, { command }]) => command?.[0] === 'serve')
    expect(serving.map(([name]) => name)).toEqual(['ingester', 'nightly'])
    for (const [name, service] of serving) {
      const { test: probe } = service.healthcheck as { test: readonly string[] }
      expect([name, probe.slice(0, 3)]).toEqual([name, ['CMD', 'node', '-e']])
      expect(probe[3]).toContain(`http://127.0.0.1:${readConfig({}).adminPort}/healthz`)
      expect([name, service.stop_grace_period]).toEqual([name, '2m'])
    }
    // Between them they run every part of it once.
    const off = serving.flatMap(([, { command }]) => command!.slice(1))
    expect(off.toSorted()).toEqual(['--no-drain', '--no-ingest', '--no-schedule'])
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

describe('Dockerfile', () => {
  const steps = read('Dockerfile')
    .replace(/\\\n/g, ' ')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))

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
    expect(images[0]).toMatch(/^node:\d+-\w+-slim$/)
    expect(steps.findLast((line) => line.startsWith('USER'))).toBe('USER node')
    expect(steps).toContain('ENTRYPOINT ["intake-sync"]')
  })
})
