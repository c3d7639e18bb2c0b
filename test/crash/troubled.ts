/**
 * An ingester, a drain and a sender that continue through every fault that a test causes.
 *
 * Invariant: no intervention: the processes are those of the start, and each fault ends with events that are acknowledged
 * again, an empty inbox, both processes ready, and every table as the events imply.
 */
import { expect } from 'vitest'
import { type ServingProcess, startServing, until } from '../e2e/support/serving.ts'
import { openProxy, type TcpProxy } from '../support/proxy.ts'
import { query } from './query.ts'
import { type Sender, startSending } from './sender.ts'
import type { Stage } from './stage.ts'
import { judge } from './verdict.ts'

export interface Troubled extends AsyncDisposable {
  readonly ingester: ServingProcess
  readonly drain: ServingProcess
  /** Between both processes and Postgres. */
  readonly warehouse: TcpProxy
  /** Between the sender and the ingester. */
  readonly road: TcpProxy
  /** Sends from before `trouble` until after it, then checks the result. */
  through(trouble: (sender: Sender) => Promise<void>): Promise<Sender>
}

const SECRET = 'a secret of the crash test'
/** Number of events that prove acknowledgements. */
const SOME = 40
/** Enough for a machine that six processes share. */
export const PATIENCE_MS = 60_000

export async function openTroubled(stage: Stage): Promise<Troubled> {
  const warehouse = await openProxy(stage.url)
  const env = { DATABASE_URL: warehouse.through(stage.url), INTAKE_WEBHOOK_SECRETS: SECRET }
  const ingester = await startServing(env, '--no-drain', '--no-schedule')
  const drain = await startServing(env, '--no-ingest', '--no-schedule')
  const road = await openProxy(ingester.document.webhooks!)
  const origin = road.through(new URL(ingester.document.webhooks!).origin)
  let seed = 1

  async function through(trouble: (sender: Sender) => Promise<void>): Promise<Sender> {
    await ready()
    const random = () => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed / 2_147_483_647
    }
    const sender = startSending({
      urls: [origin],
      ...{ secret: SECRET, patients: 100, lanes: 12, pauseMs: 10, random },
    })
    try {
      await goesOn(sender)
      await trouble(sender)
      await goesOn(sender)
    } finally {
      await sender.stop()
    }
    await until('the inbox is empty', async () => (await pendingIn(stage.url)) === 0, PATIENCE_MS)
    await ready()
    const verdict = await judge(stage.url, sender)
    expect(verdict.faults).toEqual([])
    return sender
  }

  const ready = () => Promise.all([isReady(ingester), isReady(drain, 'drain')])

  return {
    ...{ ingester, drain, warehouse, road, through },
    [Symbol.asyncDispose]: async () => {
      warehouse.become({ kind: 'good' })
      const ended = await Promise.all([ingester.stop(), drain.stop()])
      for (const proxy of [road, warehouse]) await proxy[Symbol.asyncDispose]()
      expect(ended.map(({ code }) => code)).toEqual([0, 0])
      // Any error is accepted here.
      for (const { output } of ended)
        expect(output).not.toMatch(/Reading \d|ann\d+@|a secret of|postgres:\/\//)
    },
  }
}

/** Waits until this many more are acknowledged. */
export async function goesOn(sender: Sender): Promise<void> {
  const before = sender.acknowledged.size
  await until('events are acknowledged', () => sender.acknowledged.size >= before + SOME, PATIENCE_MS)
}

/**
 * Waits until this many are acknowledged and none of them is refused meanwhile; begins anew after one that is, because a
 * machine that pauses refuses events too.
 */
export async function goesOnWithoutRefusal(sender: Sender, rounds: number): Promise<void> {
  let [before, refused] = [sender.acknowledged.size, sender.counts.unavailable]
  const isLongEnough = () => {
    if (sender.counts.unavailable > refused)
      [before, refused] = [sender.acknowledged.size, sender.counts.unavailable]
    return sender.acknowledged.size >= before + rounds * SOME
  }
  await until('events are acknowledged and none is refused', isLongEnough, PATIENCE_MS)
}

/** Waits until the part is ready: a machine that pauses may answer late. */
export async function isReady(serving: ServingProcess, part: 'ingest' | 'drain' = 'ingest'): Promise<void> {
  const answers = async () => (await serving.get(`/readyz?part=${part}`)).status === 200
  await until(`${part} is ready`, answers, PATIENCE_MS)
}

export async function pendingIn(url: string): Promise<number> {
  return await countIn(url, sqlPending)
}

/** Events that were settled. */
export async function settledIn(url: string): Promise<number> {
  return await countIn(url, sqlSettled)
}

const sqlPending = `select count(*)::int as events from intake_raw.inbox where status = 'pending'`
const sqlSettled = `select count(*)::int as events from intake_raw.inbox where status <> 'pending'`

async function countIn(url: string, statement: string): Promise<number> {
  const [row] = await query<{ events: number }>(url, statement)
  return row!.events
}

/** Waits until the part is not ready (503) with a reason that contains `words`; it must answer in any case. */
export async function unready(
  serving: ServingProcess,
  words: RegExp,
  part: 'ingest' | 'drain' = 'ingest',
): Promise<void> {
  await until(
    `/readyz?part=${part} says ${words}`,
    async () => {
      const { status, text } = await serving.get(`/readyz?part=${part}`)
      return status === 503 && words.test(text)
    },
    PATIENCE_MS,
  )
}

/** Its standard error from now on: waits until it contains `words`. */
export function listenTo({ running }: ServingProcess): (words: string) => Promise<void> {
  const from = running.errors().length
  return (words) =>
    until(`the log says "${words}"`, () => running.errors().slice(from).includes(words), PATIENCE_MS)
}
