/** Processes of one team share a budget in the warehouse: none fails, and the next one begins with what they learned. */
import { expect, test } from 'vitest'
import type { ModelState } from '../../src/api/budget/limit-model.ts'
import { runCli } from '../support/cli.ts'
import { runCommand } from '../support/run-command.ts'
import { openScene } from './support/scene.ts'

interface Summary {
  readonly streams: Readonly<Record<string, { readonly requests: number; readonly throttled: number }>>
}

const LIMIT = 12
/** Five requests in any second, in the form in which it is stored. */
const STORED: ModelState = {
  ...{ count: 5, window: 1_000_000, margin: 0, spread: 1.2, proven: null, contradictions: 0 },
  ...{ unsure: false, raise: 0, waitBeforeRaise: 30_000_000 },
}

function counted(output: string): { requests: number; throttled: number } {
  const { streams }: Summary = JSON.parse(output)
  const all = Object.values(streams)
  return {
    requests: all.reduce((sum, { requests }) => sum + requests, 0),
    throttled: all.reduce((sum, { throttled }) => sum + throttled, 0),
  }
}

test('three processes on one limit all succeed; a stored limit paces the next', async () => {
  await using scene = await openScene({ rateLimit: LIMIT, pageSize: 5 })
  const groups = ['patients', 'forms,packets,documents', 'responses']
  const runs = await Promise.all(
    groups.map((streams) => runCli(['backfill', '--streams', streams, '--json'], scene.env)),
  )
  expect(runs.map(({ code }) => code)).toEqual([0, 0, 0])
  // Each joined, and left when it ended.
  expect(await scene.query("select division -> 'holders' as holders from intake_ops.budgets")).toEqual([
    { holders: {} },
  ])

  // A service that would permit any number: only what is stored can pace the run.
  scene.emulator.control.setRateLimit(null)
  await scene.query(
    `update intake_ops.budgets
     set division = division || jsonb_build_object('revision', 99, 'pool', '[[0, 5]]'::jsonb, 'model', $1::jsonb, 'learned', $1::jsonb)`,
    [JSON.stringify(STORED)],
  )
  const begun = performance.now()
  const { code, stdout } = await runCommand(
    ['backfill', '--full', '--streams', 'patients', '--json'],
    scene.env,
  )
  const seconds = (performance.now() - begun) / 1000
  expect(code).toBe(0)
  const { requests, throttled } = counted(stdout)
  expect(throttled).toBe(0)
  expect(requests).toBeGreaterThan(5)
  expect(seconds).toBeGreaterThan(Math.floor((requests - 1) / 5))
})
