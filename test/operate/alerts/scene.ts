/** A warehouse in whose tables a test plants failures, and rounds that post what they find to a receiver. */
import pino from 'pino'
import { expect, onTestFinished } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { type AlertSettings, runRound } from '../../../src/operate/alerts/round.ts'
import { openWebhookChecks } from '../../../src/operate/health/webhook-checks.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { openReceiver, SECRET, shortOf } from './receiver.ts'

export const CANARY = 'canary-5c1f'

export async function openScene(settings: Partial<AlertSettings> = {}) {
  const warehouse = await openWarehouse()
  const receiver = await openReceiver()
  onTestFinished(async () => {
    await receiver[Symbol.asyncDispose]()
    await warehouse.drop()
  })
  const { url } = warehouse
  await query(url, "insert into intake.teams (name) values ('north'), ('south'), ('elsewhere')")
  const said: string[] = []
  const logger = pino({ base: null }, { write: (line: string) => void said.push(line) })
  const options = {
    ...{ url, logger, clock: systemClock, signal: new AbortController().signal, version: '1.2.3' },
    ...{ teams: ['north', 'south'], webhookChecks: openWebhookChecks({ inboxDays: 30 }) },
    settings: { url: receiver.url, secret: SECRET, inboxSeconds: 300, maxAgeHours: 26, ...settings },
  }
  const round = () => runRound(options, { thorough: true, insist: false })
  /** The alerts that one round posts, in short form. */
  const posted = async () => {
    const outcome = await round()
    const posts = receiver.taken().map(shortOf)
    expect([outcome, posts.length]).toEqual(posts.length === 0 ? ['quiet', 0] : ['posted', 1])
    return posts.flat()
  }
  return { url, receiver, options, round, posted, said, query: query.bind(null, url) }
}

export type Scene = Awaited<ReturnType<typeof openScene>>

interface RunOptions {
  readonly kind?: string
  readonly status?: string
  readonly streams?: Readonly<Record<string, string>>
  readonly hoursAgo?: number
  readonly finished?: boolean
}

/** A run of team north over streams with these statuses. Returns its id. */
export async function plantRun(scene: Scene, options: RunOptions = {}): Promise<string> {
  const { kind = 'backfill', status = 'succeeded', streams = {}, hoursAgo = 0, finished = true } = options
  const asked = JSON.stringify({ teams: ['north'], streams: Object.keys(streams) })
  const [run] = await query<{ run_id: string }>(
    scene.url,
    `insert into intake_ops.runs (kind, status, options, started_at, finished_at, error)
     values ($1, $2, $3, now() - make_interval(hours => $4), case when $5 then now() - make_interval(hours => $4) end, $6)
     returning run_id`,
    [kind, status, asked, hoursAgo, finished, CANARY],
  )
  if (kind !== 'backfill') return run!.run_id
  for (const [stream, how] of Object.entries(streams)) {
    await scene.query(
      `insert into intake_ops.run_streams (run_id, team_id, stream, status, note)
       select $1, team_id, $2, $3, $4 from intake.teams where name = 'north'`,
      [run!.run_id, stream, how, CANARY],
    )
  }
  return run!.run_id
}
