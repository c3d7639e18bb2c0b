/** Network faults on either side of the ingester while events arrive. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { until } from '../e2e/support/serving.ts'
import type { Network } from '../support/proxy.ts'
import { openStage, type Stage } from './stage.ts'
import {
  goesOn,
  goesOnWithoutRefusal,
  isReady,
  listenTo,
  openTroubled,
  PATIENCE_MS,
  type Troubled,
  unready,
} from './troubled.ts'

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

describe('no acknowledged event is missing, without intervention, when the connection to Postgres', {
  timeout: 300_000,
}, () => {
  it.each<[string, Network, RegExp]>([
    ['resets every connection', { kind: 'away' }, /cannot reach the warehouse/],
    ['swallows what is sent, both ways', { kind: 'silent' }, /the warehouse did not answer in time/],
    ['loses each answer, what was committed too', { kind: 'answers lost' }, /cannot reach the warehouse/],
    ['ends before it has let anybody in', { kind: 'answers cut', bytes: 100 }, /cannot reach the warehouse/],
  ])('%s', async (_, network, words) => {
    const { ingester, warehouse, through } = troubled
    const heard = listenTo(ingester)
    await through(async () => {
      warehouse.become(network)
      try {
        await heard('events are answered 503: ')
        await unready(ingester, words)
      } finally {
        warehouse.become({ kind: 'good' })
      }
    })
    await heard('the warehouse is back')
  })

  it.each<[string, Network]>([
    ['ends in the middle of an answer, again and again', { kind: 'answers cut', bytes: 900 }],
    ['ends in the middle of a statement, again and again', { kind: 'requests cut', bytes: 4_000 }],
  ])('%s', async (_, network) => {
    const { warehouse, through } = troubled
    await through(async (sender) => {
      const from = warehouse.accepted
      warehouse.become(network)
      try {
        // Each connection serves for a moment.
        await until('they connected anew', () => warehouse.accepted >= from + 20, PATIENCE_MS)
        await goesOn(sender)
      } finally {
        warehouse.become({ kind: 'good' })
      }
    })
  })

  it('takes 50 ms each way: nothing is rejected', async () => {
    const { ingester, drain, warehouse, through } = troubled
    await through(async (sender) => {
      warehouse.become({ kind: 'slow', ms: 50 })
      try {
        await goesOnWithoutRefusal(sender, 3)
        await isReady(ingester)
        await isReady(drain, 'drain')
      } finally {
        warehouse.become({ kind: 'good' })
      }
    })
  })
})

describe('no acknowledged event is missing, and nothing else is stored, when the connection of the sender', {
  timeout: 300_000,
}, () => {
  it.each<[string, Network]>([
    ['resets every connection', { kind: 'away' }],
    ['loses each answer, what was stored too', { kind: 'answers lost' }],
    ['ends in the middle of an answer', { kind: 'answers cut', bytes: 40 }],
    ['ends in the middle of a body', { kind: 'requests cut', bytes: 400 }],
  ])('%s', async (_, network) => {
    const { ingester, road, through } = troubled
    await through(async (sender) => {
      const broken = sender.counts.broken
      road.become(network)
      try {
        while (sender.counts.broken < broken + 30) await sleep(20)
        await isReady(ingester)
      } finally {
        road.become({ kind: 'good' })
      }
    })
  })

  it('takes 100 ms each way', async () => {
    const { road, through } = troubled
    await through(async (sender) => {
      road.become({ kind: 'slow', ms: 100 })
      await goesOn(sender)
      road.become({ kind: 'good' })
    })
  })
})

describe('no acknowledged event is missing when a process of ours', { timeout: 300_000 }, () => {
  it('is suspended: the ingester, until its senders abandon their requests', async () => {
    const { ingester, through } = troubled
    await through(async (sender) => {
      const broken = sender.counts.broken
      ingester.running.process.kill('SIGSTOP')
      try {
        while (sender.counts.broken === broken) await sleep(20)
      } finally {
        ingester.running.process.kill('SIGCONT')
      }
    })
  })

  it('is suspended: the drain, with its current batch', async () => {
    const { drain, through } = troubled
    await through(async (sender) => {
      drain.running.process.kill('SIGSTOP')
      try {
        for (let round = 0; round < 3; round++) await goesOn(sender)
      } finally {
        drain.running.process.kill('SIGCONT')
      }
    })
  })
})
