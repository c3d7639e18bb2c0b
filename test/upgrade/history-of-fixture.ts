/**
 * What the warehouse of the fixture went through under version 0.1: two teams with the same ids, every stream, exports,
 * packets, edits and deletes, events that could not be loaded, an erasure, decisions of analysts, events that wait.
 */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { freePort } from '../../src/embedded/start-server.ts'

/** Of the fixture alone: `webhook_secrets` can be opened with it. */
export const FIXTURE_KEY = Buffer.from('the fixture of version 0.1 alone').toString('base64')

/** The teams, each of a service of its own; with one seed their records have the same ids. */
export const FIXTURE_TEAMS = [
  { name: 'north', world: { seed: '7', patients: 24, responses: 30, shape: 'unknown-fields' } },
  { name: 'south', world: { seed: '7', patients: 16, responses: 30, shape: 'default' } },
] as const

interface Place {
  /** The built command line. */
  readonly cli: string
  readonly databaseUrl: string
  readonly folder: string
}

interface TeamEntry {
  readonly name: string
  readonly baseUrl: string
  readonly apiKey: string
  readonly apiSecret: string
  webhookSecrets?: string[]
}

export async function liveThrough({ cli, databaseUrl, folder }: Place): Promise<void> {
  const children: ChildProcess[] = []
  const config = join(folder, 'teams.json')
  const port = await freePort(undefined)
  const env = {
    ...{ PATH: process.env.PATH, HOME: folder, LOG_LEVEL: 'warn', TZ: 'UTC' },
    ...{ DATABASE_URL: databaseUrl, INTAKE_CONFIG: config, INTAKE_ENCRYPTION_KEY: FIXTURE_KEY },
    ...{ INTAKE_WEBHOOK_PORT: String(port), INTAKE_ADMIN_PORT: '0', INTAKE_CRON: 'off' },
  }
  const run = (expected: readonly number[], ...words: string[]): string => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...words], {
      ...{ cwd: folder, env, encoding: 'utf8', maxBuffer: 2 ** 26 },
    })
    process.stdout.write(`${words.join(' ')}: ${status}\n`)
    if (!expected.includes(status ?? -1))
      throw new Error(`${words[0]} ended with ${status}: ${stdout}${stderr}`)
    return stdout
  }
  const start = async (words: readonly string[]): Promise<{ child: ChildProcess; said: string }> => {
    const child = spawn(process.execPath, [cli, ...words, '--json'], {
      ...{ cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] },
    })
    children.push(child)
    let said = ''
    for await (const piece of child.stdout!.iterator({ destroyOnReturn: false })) {
      said += String(piece)
      if (isDocument(said)) break
    }
    return { child, said }
  }
  const stop = async (child: ChildProcess): Promise<void> => {
    const over = once(child, 'exit')
    child.kill('SIGTERM')
    await over
  }

  try {
    const teams: TeamEntry[] = []
    for (const { name, world } of FIXTURE_TEAMS) {
      const words = Object.entries(world).flatMap(([option, value]) => [`--${option}`, String(value)])
      const { said } = await start(['emulator', '--port', '0', ...words])
      const { base_url: baseUrl, teams: there } = JSON.parse(said).environments[0]
      teams.push({ name, baseUrl, apiKey: there[0].api_key, apiSecret: there[0].api_secret })
    }
    const write = () => writeFileSync(config, JSON.stringify({ teams }))
    write()
    run([0], 'migrate')
    run([0, 4], 'backfill')

    for (const team of teams) {
      const url = `http://127.0.0.1:${port}/webhooks/${team.name}`
      const created = JSON.parse(run([0], 'webhooks', 'create', '--team', team.name, '--url', url, '--json'))
      team.webhookSecrets = [created.signature_secret]
    }
    write()
    const serve = await start(['serve'])
    for (const team of teams) {
      await changeThings(team, 'first')
      await sendOddEvents(team, `http://127.0.0.1:${port}/webhooks/${team.name}`)
    }
    await settled(databaseUrl, teams)
    await stop(serve.child)

    decide(run)
    await asked(databaseUrl, 'create role fixture_analyst login in role intake_analyst')
    run([0], 'access', 'grant', 'fixture_analyst', 'north')
    // Recorded by no webhook: these deletes are found by a full scan.
    for (const team of teams) await api(team, 'DELETE', `/v2/patients/${(await listed(team, 'patients'))[9]}`)
    run([0, 4], 'backfill', '--full')
    run([0, 4], 'verify')
    const [, , erased] = await listed(teams[0]!, 'patients')
    run([0], 'erase', 'patient', erased!, '--team', 'north', '--yes')

    const receiving = await start(['serve', '--no-drain'])
    for (const team of teams) await changeThings(team, 'second')
    await delivered(teams)
    await stop(receiving.child)
  } finally {
    for (const child of children) if (child.exitCode === null) child.kill('SIGKILL')
  }
}

/** Changes that events report: of patients, responses and packets. */
async function changeThings(team: TeamEntry, when: 'first' | 'second'): Promise<void> {
  const patients = await listed(team, 'patients')
  const at = when === 'first' ? 0 : 4
  await api(team, 'POST', '/v2/patients', { first_name: 'Nora', last_name: `Beispiel ${when}` })
  await api(team, 'PATCH', `/v2/patients/${patients[at]}`, { city: `Elsewhere ${when}` })
  await api(team, 'DELETE', `/v2/patients/${patients[at + 1]}`)
  const { results } = await control(team, 'GET', 'packet-responses')
  const open = (results as { id: string; is_submitted: boolean }[]).filter((each) => !each.is_submitted)
  for (const { id } of open.slice(0, 2)) await control(team, 'POST', `packet-responses/${id}/advance`)
  const last = open.at(-1)
  if (last !== undefined) await control(team, 'POST', `packet-responses/${last.id}/submit`)
  const [form] = await listed(team, 'forms')
  const message = { patient: patients[at], form, message_type: 'form_response_request' }
  await api(team, 'POST', '/v2/messages', {
    ...message,
    ...{ preferred_delivery_method: 'email', target_email: 'nobody@example.invalid' },
  })
  await control(team, 'POST', 'clock', { advance_seconds: 30 })
}

/** Signed, and not what the specification says: three become dead letters, one a problem, one a fetch by id. */
async function sendOddEvents(team: TeamEntry, url: string): Promise<void> {
  const timestamp = new Date().toISOString()
  const event = (id: string, event_type: string, data: unknown) =>
    JSON.stringify({ id, timestamp, event_type, source: 'patient', data })
  const [, , , whole] = await listed(team, 'patients')
  const stamps = { created_at: timestamp, updated_at: timestamp }
  const bodies = [
    'not JSON',
    event('odd-1', 'deleted', {}),
    event('odd-2', 'created', { first_name: 'Nobody' }),
    event('odd-3', 'updated', { id: whole, city: 'A part alone' }),
    event('odd-4', 'created', { id: 'odd-patient', first_name: 'Odd', date_birth: 'no date', ...stamps }),
    event('odd-5', 'renamed', { id: 'odd-patient-2', first_name: 'Odd', ...stamps }),
  ]
  for (const body of bodies) {
    const signature = createHmac('sha256', team.webhookSecrets![0]!).update(body).digest('hex')
    const { status } = await fetch(url, {
      ...{ method: 'POST', body, headers: { 'x-service-signature': signature } },
    })
    if (status !== 200) throw new Error(`an odd event was answered ${status}`)
  }
}

/** One question that analysts may read, with a concept, and one that they may not. */
function decide(run: (expected: readonly number[], ...words: string[]) => string): void {
  const words = ['classify', 'list', '--team', 'north', '--json']
  const { questions } = JSON.parse(run([0], ...words)) as {
    questions: { question_id: string; shows: string }[]
  }
  const shown = questions.find(({ shows }) => shows === 'nothing')!.question_id
  const hidden = questions.find(({ shows }) => shows !== 'nothing')!.question_id
  run([0], 'classify', 'set', shown, 'visible', '--concept', 'fixture', '--team', 'north')
  run([0], 'classify', 'set', hidden, 'hidden', '--team', 'north')
}

async function delivered(teams: readonly TeamEntry[]): Promise<void> {
  for (const team of teams) {
    for (;;) {
      const { pending, retrying } = await control(team, 'GET', 'webhooks')
      if (retrying > 0) throw new Error('an event was not received')
      if (pending === 0) break
      await sleep(50)
    }
  }
}

async function settled(databaseUrl: string, teams: readonly TeamEntry[]): Promise<void> {
  await delivered(teams)
  const waiting = `select (select count(*) from intake_raw.inbox where status = 'pending')
    + (select count(*) from intake_ops.refetches) as count`
  for (;;) {
    const [row] = await asked<{ count: string }>(databaseUrl, waiting)
    if (row!.count === '0') return
    await sleep(200)
  }
}

async function asked<Row extends object>(databaseUrl: string, text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    return (await client.query<Row>(text)).rows
  } finally {
    await client.end()
  }
}

async function listed(team: TeamEntry, resource: string): Promise<string[]> {
  const { results } = await api(team, 'GET', `/v2/${resource}?page_size=100`)
  return (results as { id: string }[]).map(({ id }) => id)
}

// biome-ignore lint/suspicious/noExplicitAny: whatever the service answers
type Answer = any

function api(team: TeamEntry, method: string, path: string, body?: unknown): Promise<Answer> {
  const headers = { 'X-API-KEY': team.apiKey, 'X-API-SECRET': team.apiSecret, 'X-API-VERSION': 'v2.1' }
  return ask(`${team.baseUrl}${path}`, method, headers, body)
}

function control(team: TeamEntry, method: string, path: string, body?: unknown): Promise<Answer> {
  return ask(`${team.baseUrl}/_control/${path}`, method, {}, body)
}

async function ask(
  url: string,
  method: string,
  headers: Readonly<Record<string, string>>,
  body: unknown,
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${url} was answered ${response.status}: ${text}`)
  return text === '' ? {} : JSON.parse(text)
}

function isDocument(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
