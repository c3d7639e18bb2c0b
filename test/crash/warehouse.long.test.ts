/** Faults of Postgres while events arrive: reported in the log and by /readyz, and survived without intervention. */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../e2e/support/serving.ts'
import { often } from '../support/thorough.ts'
import { query } from './query.ts'
import { openStage, type Stage } from './stage.ts'
import {
  goesOn,
  goesOnWithoutRefusal,
  isReady,
  listenTo,
  openTroubled,
  PATIENCE_MS,
  pendingIn,
  settledIn,
  type Troubled,
  unready,
} from './troubled.ts'

/** How long it is stopped. */
const AWAY_MS = often(4_000, 60_000)

let stage: Stage
let troubled: Troubled

beforeAll(async () => {
  stage = await openStage()
  troubled = await openTroubled(stage)
})

afterAll(async () => {
  try {
    await troubled?.[Symbol.asyncDispose]()
  } finally {
    await stage?.[Symbol.asyncDispose]()
  }
})

/** Process ids of the sessions of one of our processes. */
async function sessionsOf(purpose: string): Promise<readonly number[]> {
  const rows = await query<{ pid: number }>(
    stage.url,
    `select pid from pg_stat_activity where application_name = 'intake-sync ${purpose}'`,
  )
  return rows.map(({ pid }) => pid)
}

async function holding<T>(statement: string, action: () => Promise<T>): Promise<T> {
  const client = await connect()
  try {
    await client.query('begin')
    await client.query(statement)
    return await action()
  } finally {
    await client.end()
  }
}

async function connect(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: stage.url, application_name: 'crash test' })
  client.on('error', () => undefined)
  await client.connect()
  return client
}

describe('no acknowledged event is missing, without intervention, and the fault is reported, when Postgres', {
  timeout: 300_000,
}, () => {
  it('is stopped and stays away: 503 all the time, and only stored events are acknowledged', async () => {
    const { ingester, drain, through } = troubled
    const [heard, drainHeard] = [listenTo(ingester), listenTo(drain)]
    await through(async (sender) => {
      const comeBack = await stage.leave()
      await Promise.all([unready(ingester, /"ingest: /), unready(drain, /"drain: /, 'drain')])
      const [acknowledged, refused] = [sender.acknowledged.size, sender.counts.unavailable]
      await sleep(AWAY_MS)
      expect(sender.acknowledged.size).toBe(acknowledged)
      await until('events are refused', () => sender.counts.unavailable > refused, PATIENCE_MS)
      expect(await ingester.get('/healthz')).toMatchObject({ status: 200 })
      await unready(ingester, /database: cannot reach the warehouse/)
      await comeBack()
    })
    await heard('events are answered 503: ')
    await heard('the warehouse is back')
    await drainHeard('draining events again')
  })

  it.each(['SIGQUIT', 'SIGKILL'] as const)('is ended with %s, and recovers', async (signal) => {
    const { ingester, through } = troubled
    const heard = listenTo(ingester)
    await through(async (sender) => {
      process.kill(stage.postmaster(), signal)
      await heard('events are answered 503: ')
      await goesOn(sender)
    })
    await heard('the warehouse is back')
  })

  it('loses one of its processes to SIGKILL, and with it all sessions', async () => {
    const { ingester, through } = troubled
    const heard = listenTo(ingester)
    await through(async () => {
      const [victim] = await sessionsOf('ingest')
      process.kill(victim!, 'SIGKILL')
      await heard('events are answered 503: ')
    })
    await heard('the warehouse is back')
  })

  it('has suspended sessions of the ingester: others replace them while they stay suspended', async () => {
    const { ingester, through } = troubled
    const heard = listenTo(ingester)
    // Between two statements they hold no lock of the server.
    const frozen = await sessionsOf('ingest')
    expect(frozen).not.toEqual([])
    for (const pid of frozen) process.kill(pid, 'SIGSTOP')
    try {
      await through(async () => {
        await heard('events are answered 503: the warehouse did not answer in time')
        await heard('the warehouse is back')
      })
    } finally {
      for (const pid of frozen) process.kill(pid, 'SIGCONT')
    }
  })

  it('has suspended sessions of the drain: events are acknowledged, and drained when they resume', async () => {
    const { through } = troubled
    const frozen = new Set<number>()
    const freeze = async () => {
      for (const pid of await sessionsOf('drain')) {
        process.kill(pid, 'SIGSTOP')
        frozen.add(pid)
      }
    }
    await freeze()
    expect(frozen.size).toBeGreaterThan(0)
    const before = await settledIn(stage.url)
    await through(async (sender) => {
      await goesOn(sender)
      // A session that was being opened may have drained a batch.
      await freeze()
      const drained = (await settledIn(stage.url)) - before
      await goesOn(sender)
      const { size } = sender.acknowledged
      expect(await pendingIn(stage.url)).toBeGreaterThanOrEqual(size - drained)
      expect((await settledIn(stage.url)) - before).toBe(drained)
      for (const pid of frozen) process.kill(pid, 'SIGCONT')
    })
  })

  it('has no connection left', async () => {
    const { ingester, drain, through } = troubled
    const [heard, drainHeard] = [listenTo(ingester), listenTo(drain)]
    await through(() =>
      withoutConnections(async () => {
        await heard('events are answered 503: ')
        await drainHeard('events are not drained: ')
        await unready(ingester, /the warehouse has no connection left/)
        await unready(drain, /drain: the warehouse has no connection left/, 'drain')
      }),
    )
  })

  it('has the inbox locked by another session', async () => {
    const { ingester, through } = troubled
    await through(async (sender) => {
      await holding('lock table intake_raw.inbox in access exclusive mode', async () => {
        const refused = sender.counts.unavailable
        await unready(ingester, /ingest: a table of the warehouse is locked/)
        await until('events are refused', () => sender.counts.unavailable > refused + 20, PATIENCE_MS)
      })
    })
  })

  it('has a table locked by another session: events are acknowledged, and drained when it is free', async () => {
    const { ingester, drain, through } = troubled
    const heard = listenTo(drain)
    await through(async (sender) => {
      await holding('lock table intake.patients in access exclusive mode', async () => {
        await goesOn(sender)
        await unready(
          drain,
          /drain: (?:a batch of events is under way for|a table of the warehouse is locked)/,
          'drain',
        )
        await heard('events are not drained: a table of the warehouse is locked by another session')
        await isReady(ingester)
        await goesOn(sender)
      })
    })
    await heard('draining events again')
  })

  it('has a slow disk, 100 ms per flush: everything takes longer, and nothing is rejected', async () => {
    const { ingester, drain, through } = troubled
    await through(async (sender) => {
      await set('commit_siblings = 0', 'commit_delay = 100000')
      try {
        const begun = performance.now()
        await query(stage.url, 'create temporary table slow as select 1')
        expect(performance.now() - begun).toBeGreaterThan(100)
        await goesOnWithoutRefusal(sender, 5)
        await isReady(ingester)
        await isReady(drain, 'drain')
      } finally {
        await set('commit_siblings = default', 'commit_delay = default')
      }
    })
  })
})

/** In all sessions, at once. */
async function set(...settings: readonly string[]): Promise<void> {
  for (const setting of settings) await query(stage.url, `alter system set ${setting}`)
  await query(stage.url, 'select pg_reload_conf()')
}

/** Takes all free connections, then those of our processes, also while one of them tries to reconnect. */
async function withoutConnections(action: () => Promise<void>): Promise<void> {
  const others: pg.Client[] = []
  let isOver = false
  const take = async () => {
    while (!isOver) {
      try {
        others.push(await connect())
      } catch {
        await others[0]!.query(
          `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'intake-sync %'`,
        )
        await sleep(20)
      }
    }
  }
  const taking = take()
  try {
    await action()
  } finally {
    isOver = true
    await taking
    await Promise.all(others.map((other) => other.end()))
  }
}
