/** A process that sends as many requests as the team's budget permits: its service, warehouse and seconds are arguments. */
import pino from 'pino'
import { openLimiter } from '../../src/api/budget/limiter.ts'
import { openClient } from '../../src/api/client.ts'
import { systemClock } from '../../src/core/clock.ts'
import { openBudgets } from '../../src/load/budgets.ts'

const [url, apiKey, apiSecret, warehouse, seconds] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
]
const logger = pino({ level: 'silent' })
const over = new AbortController()
await using budgets = openBudgets(warehouse)
const limiter = openLimiter({ concurrency: 4, clock: systemClock, logger, store: budgets.ofTeam(1) })
await using client = openClient({
  ...{ baseUrl: url, apiKey, apiSecret, apiVersion: 'v2.1', concurrency: 4, limiter },
  ...{ clock: systemClock, random: Math.random, logger, signal: over.signal },
})
await new Promise((resolve) => process.stdin.once('data', resolve))
const timer = setTimeout(() => over.abort(), Number(seconds) * 1000)
const worker = async () => {
  while (!over.signal.aborted) {
    await client.get(client.paths.packets).catch((error: unknown) => {
      if (!over.signal.aborted) throw error
    })
  }
}
await Promise.all(Array.from({ length: 8 }, worker))
clearTimeout(timer)
await limiter.close()
