/**
 * The load of a mixture: events of four streams and three teams with the same ids, from an unreliable service, and that
 * service, which returns each record by its id.
 *
 * Invariant: every event is sent until it is acknowledged, nearly in order over several connections.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Pool } from 'undici'
import { SIGNATURE_HEADER, sign } from '../../src/core/signature.ts'
import { faultsOf } from '../support/mixture/judge.ts'
import { type Mixture, makeMixture } from '../support/mixture/mixture.ts'
import { startMixtureService } from '../support/mixture/service.ts'
import { query } from './query.ts'
import type { Verdict } from './verdict.ts'

const SECRET = 'a secret of the crash test'
const LANES = 16
/** No intervention: a killed process's refetches are made again when their lease ends. Seconds are enough. */
const PATIENCE_MS = 60_000

export interface MixtureLoad extends AsyncDisposable {
  /** For the processes. */
  readonly env: Readonly<Record<string, string>>
  /** Sends for about this long; `finish` sends the rest without a pause. */
  send(urls: readonly string[], milliseconds: number): MixtureSender
}

export interface MixtureSender {
  readonly counts: { sent: number; acknowledged: number; unavailable: number; broken: number }
  /** Resolves when every event is acknowledged. */
  finish(): Promise<void>
  judge(url: string): Promise<Verdict>
}

export async function openMixtureLoad(options: {
  readonly seed: number
  readonly events: number
  readonly folder: string
}): Promise<MixtureLoad> {
  const { seed, events, folder } = options
  const mixture = makeMixture({ seed, events })
  const service = await startMixtureService(mixture)
  const file = join(folder, 'teams.json')
  const teams = mixture.teams.map((name) => ({ name, ...service.of(name), webhookSecrets: [SECRET] }))
  writeFileSync(file, JSON.stringify({ teams }))
  return {
    env: { INTAKE_CONFIG: file },
    send: (urls, milliseconds) => startSending(mixture, urls, milliseconds),
    [Symbol.asyncDispose]: () => service[Symbol.asyncDispose](),
  }
}

function startSending(mixture: Mixture, urls: readonly string[], milliseconds: number): MixtureSender {
  const { deliveries } = mixture
  const pools = urls.map(
    (url) => new Pool(url, { connections: LANES, headersTimeout: 4_000, bodyTimeout: 4_000 }),
  )
  const counts = { sent: 0, acknowledged: 0, unavailable: 0, broken: 0 }
  const odd = new Set<number>()
  const pauseMs = (milliseconds * LANES) / deliveries.length
  let hurry = false
  let next = 0

  async function lane(): Promise<void> {
    while (next < deliveries.length) {
      const { team, body } = deliveries[next++]!
      for (let attempt = next; !(await deliver(pools[attempt % pools.length]!, team, body)); attempt++)
        await sleep(50)
      counts.acknowledged += 1
      if (!hurry) await sleep(pauseMs)
    }
  }

  async function deliver(pool: Pool, team: string, body: Buffer): Promise<boolean> {
    counts.sent += 1
    try {
      const headers = { 'content-type': 'application/json', [SIGNATURE_HEADER]: sign(body, SECRET) }
      const answer = await pool.request({ method: 'POST', path: `/webhooks/${team}`, headers, body })
      await answer.body.dump()
      if (answer.statusCode === 503) counts.unavailable += 1
      else if (answer.statusCode !== 200) odd.add(answer.statusCode)
      return answer.statusCode === 200
    } catch {
      counts.broken += 1
      return false
    }
  }

  const running = Promise.all(Array.from({ length: LANES }, lane))
  return {
    counts,
    async finish() {
      hurry = true
      await running
      await Promise.all(pools.map((pool) => pool.destroy()))
    },
    async judge(url) {
      const seconds = await settled(url)
      const faults = [...(await faultsOf((text, values) => query(url, text, values), mixture))]
      if (odd.size > 0) faults.push(`answers other than 200 and 503: ${[...odd]}`)
      const [inbox] = await query<{ stored: number }>(
        url,
        'select count(*)::int as stored from intake_raw.inbox',
      )
      return {
        acknowledged: counts.acknowledged,
        stored: inbox!.stored,
        seconds,
        faults: faults.slice(0, 10),
      }
    },
  }
}

/** Waits for the drains and their refetches; returns the seconds that it took. */
async function settled(url: string): Promise<number> {
  const begun = Date.now()
  for (; Date.now() - begun < PATIENCE_MS; await sleep(100)) {
    const [left] = await query<{ pending: boolean; asked: boolean }>(
      url,
      `select exists (select from intake_raw.inbox where status = 'pending') as pending,
         exists (select from intake_ops.refetches) as asked`,
    )
    if (!left!.pending && !left!.asked) break
  }
  return (Date.now() - begun) / 1_000
}
