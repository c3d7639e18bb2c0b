import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'

/** Lints what no container engine is needed for: docker-compose.yml, Dockerfile, and the script of the nights. */
const root = resolve(import.meta.dirname, '..')
const read = (name: string) => readFileSync(join(root, name), 'utf8')

interface Service {
  readonly image?: string
  readonly user?: string
  readonly read_only?: boolean
  readonly command?: readonly string[]
  readonly entrypoint?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly secrets?: readonly string[]
  readonly volumes?: readonly string[]
  readonly ports?: readonly string[]
  readonly networks?: readonly string[] | Readonly<Record<string, unknown>>
  readonly network_mode?: string
  readonly profiles?: readonly string[]
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly healthcheck?: unknown
}

interface Compose {
  readonly services: Readonly<Record<string, Service>>
  readonly secrets: Readonly<Record<string, { readonly file: string }>>
  readonly volumes: Readonly<Record<string, unknown>>
  readonly networks: Readonly<Record<string, unknown>>
}

const compose = parse(read('docker-compose.yml'), { merge: true }) as Compose
const services = Object.entries(compose.services)
/** Commands that compose names before they exist, with the profile that says so. */
const COMING: Readonly<Record<string, string>> = { serve: 'ingester' }
const CONDITIONS = ['service_started', 'service_healthy', 'service_completed_successfully']

function commandsOf(): readonly string[] {
  const help = execFileSync(process.execPath, ['--import', 'tsx', 'src/cli.ts', '--help'], { cwd: root })
  return [...String(help).matchAll(/^ {2}([a-z][\w-]*) /gm)].map((match) => match[1]!)
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
      const command = service.entrypoint === undefined ? service.command![0]! : 'backfill'
      if (commands.includes(command)) continue
      expect([command, service.profiles]).toEqual([command, [COMING[command]]])
    }
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

describe('scripts/nightly.sh', () => {
  function night(command: string, at: string): { directory: string; run: ReturnType<typeof spawn> } {
    const directory = mkdtempSync(join(tmpdir(), 'intake-sync-nightly-'))
    writeFileSync(join(directory, 'intake-sync'), `#!/bin/sh\n${command}\n`)
    chmodSync(join(directory, 'intake-sync'), 0o755)
    const run = spawn('sh', [join(root, 'scripts/nightly.sh')], {
      env: { PATH: `${directory}:${process.env.PATH}`, NIGHTLY_AT: at, TZ: 'UTC' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    return { directory, run }
  }

  test('waits for its time, and ends at once on SIGTERM', async () => {
    const { directory, run } = night('exit 1', '02:00')
    expect(String((await once(run.stdout!, 'data'))[0])).toMatch(/^next backfill at .* 02:00:00 UTC\n$/)
    run.kill('SIGTERM')
    expect(await once(run, 'exit')).toEqual([0, null])
    rmSync(directory, { recursive: true })
  })

  test('runs the backfill, says how it ended, and waits for the next night', async () => {
    const soon = new Date(Date.now() + 2_000).toISOString().slice(11, 19)
    const { directory, run } = night('echo "ran $1"; exit 4', soon)
    let output = ''
    for (const stream of [run.stdout!, run.stderr!]) {
      stream.on('data', (data) => {
        output += data
      })
    }
    await expect.poll(() => output.match(/next backfill/g)?.length, { timeout: 20_000 }).toBe(2)
    expect(output).toContain('ran backfill\n')
    expect(output).toContain('the backfill ended with exit code 4')
    run.kill('SIGTERM')
    expect(await once(run, 'exit')).toEqual([0, null])
    rmSync(directory, { recursive: true })
  })
})
