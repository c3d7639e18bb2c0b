/**
 * Kills ingesters, drains and Postgres at random times while events arrive, lets everything restart, and checks the
 * result.
 *
 * Invariant: kills and times follow from the seed; nothing that was started here is left at the end.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { builtFile } from '../support/built.ts'
import { type Cast, type Member, openCast } from './cast.ts'
import { openMixtureLoad } from './mixture.ts'
import { query } from './query.ts'
import { startSending } from './sender.ts'
import { judge, type Verdict } from './verdict.ts'

export interface CrashOptions {
  readonly seed: number
  readonly kills: number
  /** A warehouse whose server is durable and restarts by itself. */
  readonly url: string
  /** Process id of its postmaster. */
  readonly postmaster: () => number
  /** For the working directories of the processes. */
  readonly folder: string
  /** Free ports, one per ingester. */
  readonly ports: readonly number[]
  /** True for events of several teams and streams, with refetches; otherwise only events of patients. */
  readonly mixture?: boolean
  readonly say: (line: string) => void
}

const SECRET = 'a secret of the crash test'

/** Events of a mixture per kill, which arrive about as fast as those of patients alone. */
const EVENTS_A_KILL = 300
/** Average time between two kills, and the duration of a kill. */
const KILL_MS = 1_000

export async function crash(options: CrashOptions): Promise<Verdict> {
  return await (options.mixture === true ? crashMixture(options) : crashPatients(options))
}

async function crashMixture(options: CrashOptions): Promise<Verdict> {
  const { seed, kills, url, folder, say } = options
  await using load = await openMixtureLoad({ seed, events: kills * EVENTS_A_KILL, folder })
  return await amid(options, load.env, async (urls, strikes) => {
    const sender = load.send(urls, kills * KILL_MS)
    await strikes()
    await sender.finish()
    const { sent, acknowledged, unavailable, broken } = sender.counts
    say(`sent ${sent}, acknowledged ${acknowledged}, 503 ${unavailable}, broken ${broken}`)
    return await sender.judge(url)
  })
}

async function crashPatients(options: CrashOptions): Promise<Verdict> {
  const { url, say } = options
  return await amid(options, { INTAKE_WEBHOOK_SECRETS: SECRET }, async (urls, strikes, random) => {
    const sender = startSending({ urls, secret: SECRET, patients: 200, lanes: 16, pauseMs: 4, random })
    await strikes()
    await sleep(1_000)
    await sender.stop()
    say(
      `sent ${sender.counts.sent}, acknowledged ${sender.acknowledged.size}, 503 ${sender.counts.unavailable}, broken ${sender.counts.broken}`,
    )
    await emptied(url)
    return await judge(url, sender)
  })
}

/** Runs `work` with ingesters and drains; `strikes` kills as often as requested. */
async function amid(
  options: CrashOptions,
  env: Readonly<Record<string, string>>,
  work: (urls: readonly string[], strikes: () => Promise<void>, random: () => number) => Promise<Verdict>,
): Promise<Verdict> {
  const { kills, url, ports, say } = options
  const random = seeded(options.seed)
  const cast = openCast(builtFile('cli.js'), options.folder)
  const members = startAll(cast, url, ports, env)
  const strikes = async () => {
    for (let kill = 1; kill <= kills; kill++) {
      await sleep(100 + random() * 900)
      say(`${kill}: ${await strike(options, members, random)}`)
    }
  }
  try {
    await Promise.all(members.map((member) => member.ready()))
    return await work(
      ports.map((port) => `http://127.0.0.1:${port}`),
      strikes,
      random,
    )
  } finally {
    await cast.dismiss()
  }
}

function startAll(
  cast: Cast,
  url: string,
  ports: readonly number[],
  own: Readonly<Record<string, string>>,
): readonly Member[] {
  const env = {
    PATH: process.env.PATH,
    DATABASE_URL: url,
    INTAKE_ADMIN_PORT: '0',
    LOG_LEVEL: 'warn',
    ...own,
  }
  const ingesters = ports.map((port, at) =>
    cast.add(`ingester ${at + 1}`, ['serve', '--no-drain', '--no-schedule'], {
      ...env,
      INTAKE_WEBHOOK_PORT: String(port),
    }),
  )
  const drains = [1, 2].map((at) => cast.add(`drain ${at}`, ['serve', '--no-ingest', '--no-schedule'], env))
  return [...ingesters, ...drains]
}

/** One kill; returns its description. */
async function strike(
  options: CrashOptions,
  members: readonly Member[],
  random: () => number,
): Promise<string> {
  const chance = random()
  if (chance < 0.25) {
    // The signal of `pg_ctl stop -m immediate`, and sometimes SIGKILL.
    const signal = chance < 0.2 ? 'SIGQUIT' : 'SIGKILL'
    process.kill(options.postmaster(), signal)
    await answers(options.url)
    return `Postgres ${signal}`
  }
  const victim = members[Math.floor(random() * members.length)]!
  if (chance < 0.35) {
    victim.signal('SIGSTOP')
    await sleep(200 + random() * 2_500)
    victim.signal('SIGCONT')
    return `${victim.name} paused`
  }
  victim.signal('SIGKILL')
  return `${victim.name} SIGKILL`
}

async function answers(url: string): Promise<void> {
  await sleep(50)
  for (const end = Date.now() + 30_000; ; await sleep(50)) {
    try {
      await query(url, 'select 1')
      return
    } catch (error) {
      if (Date.now() > end) throw error
    }
  }
}

/** Waits for the drains, without intervention. */
async function emptied(url: string): Promise<void> {
  const begun = Date.now()
  for (;;) {
    const pending = await query(url, `select from intake_raw.inbox where status = 'pending' limit 1`)
    if (pending.length === 0) return
    if (Date.now() - begun > 60_000) return
    await sleep(100)
  }
}

/** mulberry32: good enough to choose what to kill. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
