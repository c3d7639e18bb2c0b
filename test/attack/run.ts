/**
 * `npm run attack -- [--seconds 10] [--only NAME,…]`: attacks a fresh installation, as docs/security.md describes. During the
 * attacks on the endpoint, signed events are sent from the same address: it prints how many were accepted, their p99 and
 * the memory of `serve`. Then odd requests, logins that only read, and groups of queries of an analyst. Exit 4 where an
 * attack succeeds, 1 where the suite itself fails.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { availableParallelism, loadavg } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { SIGNATURE_HEADER, sign } from '../../src/core/signature.ts'
import { builtFile } from '../support/built.ts'
import { cleanUp, openEmbedded, temporaryDirectory } from '../support/embedded-fixture.ts'
import { whenInterrupted } from '../support/interruption.ts'
import { withSession } from '../support/sessions.ts'
import { readWords, wholeNumber } from '../support/words.ts'
import { BYSTANDERS } from './bystanders.ts'
import { askAll } from './queries.ts'
import { oddRequests, sendOdd } from './requests.ts'
import { eventOf, post, send } from './traffic.ts'
import { makeWorld } from './world.ts'

const USAGE = `npm run attack -- [--seconds 10] [--only NAME,…] [--weaken SQL]

  --seconds N  how long each attack on the endpoint lasts
  --only NAME  one attack on the endpoint, or \`requests\`, \`logins\` or \`queries\`; several with commas
  --weaken SQL first runs this as the owner, to see that the suite finds what it opens`

/** Each attack with what it does. */
const ATTACKS = {
  none: 'no attack',
  declared: '600 connections declare 64 KiB and send a byte a second',
  idle: '4,000 connections send nothing',
  heads: '1,000 connections never end their head',
  trickle: '300 connections send 5 MB at 40 KB/s',
  large: '30 connections send 5 MB that nobody signed',
  forged: '64 connections send wrong signatures',
  elsewhere: '64 connections ask for unknown teams',
  garbage: '64 connections send no HTTP',
  nested: 'signed bodies of 5 MB of nested arrays',
} as const

const MIN_ACCEPTED = 0.99
const MAX_P99_MS = 1_000
const MAX_MEGABYTES = 300
const MAX_HEALTH_MS = 1_000
const PER_SECOND = 40

const { values } = readWords(USAGE, {
  seconds: { type: 'string' },
  only: { type: 'string' },
  weaken: { type: 'string' },
})
const GROUPS = ['requests', 'logins', 'queries'] as const
const only = values.only?.split(',')
const unknown = only?.find((name) => !(name in ATTACKS) && !GROUPS.some((each) => each === name))
if (unknown !== undefined) {
  process.stderr.write(
    `--only takes some of ${[...Object.keys(ATTACKS), ...GROUPS].join(', ')}, not ${unknown}\n`,
  )
  process.exit(2)
}
const isWanted = (name: string) => only?.includes(name) ?? true
const seconds = wholeNumber('--seconds', values.seconds ?? '10')
const SECRET = 'a secret of the attacked installation'
const faults: string[] = []
let tried = 0
const say = (line: string) => void process.stdout.write(`${line}\n`)

const serving: ChildProcess[] = []
const folder = temporaryDirectory()
const dataDir = join(folder, 'data')
mkdirSync(dataDir)
const server = await openEmbedded({ dataDir })
const ended = async () => {
  for (const each of serving) each.kill('SIGTERM')
  await server.stop()
  await cleanUp()
}
whenInterrupted(ended)
process.once('uncaughtException', async (error) => {
  process.stderr.write(`${error.stack}\n`)
  await ended()
  process.exit(1)
})
const env = {
  PATH: process.env.PATH,
  ...{ DATABASE_URL: server.url, INTAKE_WEBHOOK_SECRETS: SECRET, LOG_LEVEL: 'error', INTAKE_CRON: 'off' },
  ...{ INTAKE_WEBHOOK_PORT: '0', INTAKE_ADMIN_PORT: '0', INTAKE_DATA_DIR: join(folder, 'none') },
}
const cli = builtFile('cli.js')

/** A `serve` with these variables besides, once it answers. */
async function startServe(more: Readonly<Record<string, string>> = {}) {
  const child = spawn(process.execPath, [cli, 'serve', '--json'], {
    ...{ env: { ...env, ...more }, cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] },
  })
  serving.push(child)
  const lines: string[] = []
  for await (const line of createInterface({ input: child.stdout! })) {
    lines.push(line)
    if (line === '}') break
  }
  const { webhooks, admin } = JSON.parse(lines.join('\n')) as { webhooks: string; admin: string }
  return { child, webhooks, admin }
}

const { child: serve, webhooks, admin } = await startServe()

const rows = async <Row extends object>(text: string, given: unknown[] = []) =>
  await withSession(server.url, async (client) => (await client.query<Row>(text, given)).rows)

/** Resident memory in MB, and the longest that /healthz took in ms, until it is stopped. */
function watch() {
  const worst = { megabytes: 0, health: 0 }
  let isOn = true
  const looks = (async () => {
    while (isOn) {
      const status = readFileSync(`/proc/${serve.pid}/status`, 'utf8')
      worst.megabytes = Math.max(worst.megabytes, Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024)
      const begun = performance.now()
      const answer = await fetch(`${admin}/healthz`).catch(() => null)
      worst.health = Math.max(worst.health, answer?.ok ? performance.now() - begun : Number.POSITIVE_INFINITY)
      await sleep(50)
    }
  })()
  return async () => {
    isOn = false
    await looks
    return worst
  }
}

function attack(kind: string) {
  const program = join(import.meta.dirname, 'attacker.ts')
  const words = ['--import', 'tsx', program, kind, webhooks, String(seconds + 2)]
  const child = spawn(process.execPath, words, {
    ...{ env: { ...process.env, ATTACK_SECRET: SECRET }, stdio: ['ignore', 'pipe', 'inherit'] },
  })
  const answers: string[] = []
  createInterface({ input: child.stdout! }).on('line', (line) => void answers.push(line))
  return { answers, ended: once(child, 'exit') }
}

async function attackEndpoint(kind: keyof typeof ATTACKS): Promise<void> {
  const stop = watch()
  const attacker = kind === 'none' ? null : attack(kind)
  await sleep(attacker === null ? 0 : 2_000)
  const { accepted, sent, p99, refused } = await send(webhooks, SECRET, PER_SECOND, seconds)
  await attacker?.ended
  const { megabytes, health } = await stop()
  const share = accepted / sent
  const bad = [
    share < MIN_ACCEPTED ? `accepted ${JSON.stringify(refused)}` : '',
    p99 > MAX_P99_MS ? 'p99' : '',
    megabytes > MAX_MEGABYTES ? 'memory' : '',
    health > MAX_HEALTH_MS ? 'healthz' : '',
    attacker?.answers.some((status) => status !== '200') ? `answers ${[...new Set(attacker.answers)]}` : '',
  ].filter((each) => each !== '')
  const figures = [
    `${(share * 100).toFixed(1)} %`,
    `${p99.toFixed(0)} ms`,
    `${megabytes.toFixed(0)} MB`,
    `${health.toFixed(0)} ms`,
  ]
  say(`| ${ATTACKS[kind]} | ${figures.join(' | ')} |${bad.length === 0 ? '' : `  WRONG: ${bad.join(', ')}`}`)
  tried += 1
  for (const each of bad) faults.push(`${ATTACKS[kind]}: ${each}`)
}

const report = (name: string, succeeded: readonly string[]) => {
  tried += 1
  say(`${name.padEnd(58)} ${succeeded.length === 0 ? 'refused' : `WRONG: ${succeeded.join('; ')}`}`)
  for (const each of succeeded) faults.push(`${name}: ${each}`)
}

/** Every event before garbage on its connection is answered 200. */
async function garbageAfterEvents(): Promise<readonly string[]> {
  const { hostname, port } = new URL(webhooks)
  const answers = await Promise.all(
    Array.from({ length: 50 }, async (_, at) => {
      const body = eventOf(`garbage-${at}`)
      const socket = connect(Number(port), hostname)
      let received = ''
      socket.on('data', (part) => {
        received += String(part)
      })
      socket.on('error', () => {})
      socket.write(
        `POST /webhooks HTTP/1.1\r\nHost: here\r\nContent-Length: ${body.length}\r\n${SIGNATURE_HEADER}: ${sign(body, SECRET)}\r\n\r\n${body}\0garbage\r\n\r\n`,
      )
      await once(socket, 'close')
      return received.startsWith('HTTP/1.1 200')
    }),
  )
  const lost = answers.filter((isAnswered) => !isAnswered).length
  return lost === 0 ? [] : [`${lost} of ${answers.length} events were not answered 200`]
}

/** Wrong signatures share the few sessions of quick queries, however many arrive at once. */
async function sessionsOfForgeries(): Promise<readonly string[]> {
  const count = async () =>
    (
      await rows<{ open: number }>(
        `select count(*)::int as open from pg_stat_activity where datname = current_database()
           and application_name in ('intake-sync bounded query', 'intake-sync ingest secrets')`,
      )
    )[0]!.open
  let most = 0
  for (let at = 0; at < 20; at += 1) {
    const answers = Promise.all(Array.from({ length: 50 }, () => post(webhooks, Buffer.from('{}'), 'wrong')))
    most = Math.max(most, await count())
    await answers
  }
  // Of the four, each may have been replaced by another while Postgres still ends it.
  return most > 8 ? [`${most} sessions at once`] : []
}

/** A signed event becomes a row, and the database migrates: soon, or never. */
async function work(): Promise<void> {
  const id = `worked-${Math.random()}`
  const status = await post(webhooks, eventOf(id), SECRET)
  if (status !== 200) throw new Error(`an event was answered ${status}`)
  execFileSync(process.execPath, [cli, 'migrate'], { env, cwd: folder, timeout: 90_000, stdio: 'ignore' })
  for (const end = Date.now() + 60_000; ; await sleep(100)) {
    const pending = await rows(`select from intake_raw.inbox where record_id = $1 and status = 'pending'`, [
      id,
    ])
    if (pending.length === 0) return
    if (Date.now() > end) throw new Error('an event was not drained in a minute')
  }
}

function insecureDatabase(): readonly string[] {
  const words = [cli, 'status']
  try {
    execFileSync(process.execPath, words, {
      ...{ env: { ...env, DATABASE_URL: 'postgres://u:p@db.example.com/w?sslmode=require' }, cwd: folder },
      stdio: 'ignore',
    })
  } catch (error) {
    return (error as { status?: number }).status === 2 ? [] : ['not refused with exit 2']
  }
  return ['accepted']
}

/** Every odd request, one after the other; nothing of them may end `serve` or disturb the next signed event. */
async function attackWithRequests(): Promise<void> {
  const inbox = async () =>
    (await rows<{ count: number }>('select count(*)::int from intake_raw.inbox'))[0]!.count
  let sent = 0
  for (const each of oddRequests(SECRET)) {
    const stored = async () => (await inbox()) - sent
    const send = async () => {
      sent += 1
      return await post(webhooks, eventOf(`after ${sent}`), SECRET)
    }
    report(`request: ${each.name}`, await sendOdd(each, { url: webhooks, stored, send }))
  }
  report('serve runs on after all of them', serve.exitCode === null ? [] : ['it ended'])
}

async function attackWithQueries(): Promise<void> {
  const world = await makeWorld({
    ...{ url: server.url, north: { url: webhooks, secret: SECRET } },
    async openSouth() {
      const secret = 'a secret of the second team'
      const { child, webhooks: url } = await startServe({
        INTAKE_TEAM: 'south',
        INTAKE_WEBHOOK_SECRETS: secret,
      })
      const close = async () => {
        child.kill('SIGTERM')
        await once(child, 'exit')
      }
      return { url, secret, close }
    },
    grant: (login, team) =>
      void execFileSync(process.execPath, [cli, 'access', 'grant', login, team], {
        env,
        cwd: folder,
        stdio: 'ignore',
      }),
    migrate: () =>
      void execFileSync(process.execPath, [cli, 'migrate'], { env, cwd: folder, stdio: 'ignore' }),
  })
  try {
    for (const [name, succeeded] of await askAll(world)) report(`query: ${name}`, succeeded)
  } finally {
    await world.end()
  }
}

if (values.weaken !== undefined) await rows(values.weaken)
const attacks = (Object.keys(ATTACKS) as (keyof typeof ATTACKS)[]).filter(isWanted)
const busy = loadavg()[0]! / availableParallelism()
if (busy > 0.5)
  say(`the machine is busy (load ${busy.toFixed(1)} a core): times say more about it than about intake-sync`)
if (attacks.length > 0)
  say('| attack | signed events accepted | p99 | memory | /healthz at most |\n|---|---:|---:|---:|---:|')
for (const kind of attacks) await attackEndpoint(kind)
if (isWanted('requests')) {
  report('garbage after a valid event', await garbageAfterEvents())
  report('wrong signatures open sessions', await sessionsOfForgeries())
  await attackWithRequests()
}
if (isWanted('logins')) {
  for (const [name, run] of Object.entries(BYSTANDERS)) report(name, await run({ url: server.url, work }))
  report('a remote database without verification', insecureDatabase())
}
if (isWanted('queries')) await attackWithQueries()
if (only === undefined) {
  await work()
  const nested = await rows<{ open: number }>(
    `select count(*)::int as open from intake_raw.inbox where octet_length(body) > 1000000 and status <> 'dead'`,
  )
  report('nested bodies become dead letters', nested[0]!.open === 0 ? [] : [`${nested[0]!.open} are not`])
}
serve.kill('SIGTERM')
await once(serve, 'exit')
await server.stop()
await cleanUp()
say(
  faults.length === 0
    ? `no attack of ${tried} succeeded`
    : `${faults.length} things that were attacked are open:\n  ${faults.join('\n  ')}`,
)
process.exitCode = faults.length === 0 ? 0 : 4
