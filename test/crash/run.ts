/**
 * `npm run crash`: kills ingesters, drains and Postgres under load, and checks that no acknowledged event is missing and
 * that every table follows from the events; with `--workers`, kills workers of planned runs. Exit 1 if not.
 */

import { migrate } from '../../src/analytics/migrate.ts'
import { whyNotHere } from '../hosts/namespaces.ts'
import { COMBINATIONS, playHosts } from '../hosts/outside.ts'
import { whenInterrupted } from '../support/interruption.ts'
import { readWords, refuse, someOf, wholeNumber } from '../support/words.ts'
import { crash } from './crash.ts'
import { openStage, type Stage } from './stage.ts'
import { killWorkers, linesOf } from './workers.ts'

const USAGE = `npm run crash -- [--kills 50] [--seed N] [--mixture | --workers 1000 | --hosts]

  --kills N    how many times something is killed or frozen
  --seed N     repeats the kills of a run, which prints its seed in its first line
  --mixture    events of several teams and streams, with the same ids, late, twice and in part
  --workers N  kills workers of planned runs N times instead: in a claim, a page, a settle or the end of a run;
               before, after or while Postgres executes a statement
  --hosts      plays three hosts, network namespaces of this machine (as root, on Linux), with a trouble of one of them at
               each moment of the work: ${COMBINATIONS.length} combinations
  --only LIST  of --hosts: these, such as plan/kill,drain/link
  --seconds N  of --hosts: how long a trouble lasts (30)`

const { values } = readWords(USAGE, {
  kills: { type: 'string' },
  seed: { type: 'string' },
  mixture: { type: 'boolean' },
  workers: { type: 'string' },
  hosts: { type: 'boolean' },
  only: { type: 'string' },
  seconds: { type: 'string' },
})
const { mixture = false } = values
if (values.workers !== undefined && (mixture || values.kills !== undefined))
  refuse('--workers goes with neither --kills nor --mixture')
if (values.hosts && (mixture || values.kills !== undefined || values.workers !== undefined))
  refuse('--hosts goes with neither --kills, --mixture nor --workers')
if (!values.hosts && (values.only !== undefined || values.seconds !== undefined))
  refuse('--only and --seconds go with --hosts')
const only = values.only === undefined ? COMBINATIONS : someOf('--only', values.only, COMBINATIONS)
const seconds = wholeNumber('--seconds', values.seconds ?? '30')
const kills = wholeNumber('--kills', values.kills ?? '50')
const seed = wholeNumber('--seed', values.seed ?? String(Date.now() % 1e6), 0)
const ofWorkers = values.workers === undefined ? 0 : wholeNumber('--workers', values.workers)
const say = (line: string) => void process.stdout.write(`${line}\n`)

say(`seed ${seed}`)
process.exitCode = (await (values.hosts ? hosts() : onStage())) ? 0 : 1

async function hosts(): Promise<boolean> {
  const reason = whyNotHere()
  if (reason !== null) {
    say(`skipped: ${reason}`)
    return true
  }
  return await playHosts({ seed, seconds, isTimed: true, only, onLine: say })
}

async function onStage(): Promise<boolean> {
  await using stage = await openStage()
  whenInterrupted(() => stage[Symbol.asyncDispose]())
  return await (ofWorkers > 0 ? workers(stage) : processes(stage))
}

async function workers(stage: Stage): Promise<boolean> {
  const { url } = stage
  await migrate(url)
  const outcome = await killWorkers({ url, seed, kills: ofWorkers, say })
  for (const line of linesOf(outcome)) say(line)
  const isRight = outcome.faults.length === 0
  if (!isRight) say(`again: npm run crash -- --workers ${ofWorkers} --seed ${seed}`)
  return isRight
}

async function processes(stage: Stage): Promise<boolean> {
  const verdict = await crash({ ...stage, kills, seed, mixture, say })
  const after =
    verdict.seconds === undefined ? '' : `, done ${verdict.seconds.toFixed(1)} s after the last event`
  say(`${verdict.acknowledged} acknowledged, ${verdict.stored} stored${after}`)
  for (const fault of verdict.faults) say(`WRONG: ${fault}`)
  const isRight = verdict.faults.length === 0
  if (!isRight) say(`again: npm run crash -- --kills ${kills} --seed ${seed}${mixture ? ' --mixture' : ''}`)
  return isRight
}
