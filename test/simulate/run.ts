/**
 * `npm run simulate -- [--seeds 100] [--seed 1] [--jobs 1] [--readers | --workers] [--verbose] [--first]`: runs this many seeds from the
 * given one on, or with `--first` up to the first that violates a law, and prints violations. For a single seed, prints
 * each choice. Exit 1 if a law was violated.
 */
import { fileURLToPath } from 'node:url'
import { runProgram, whenInterrupted } from '../support/interruption.ts'
import { readWords, wholeNumber } from '../support/words.ts'
import { hasReader } from './follower.ts'
import { hasWorkers } from './plan.ts'
import { simulate } from './simulate.ts'
import { openStage } from './stage.ts'

const USAGE = `npm run simulate -- [--seeds 100] [--seed 1] [--jobs 1] [--readers | --workers] [--verbose] [--first]

  --seeds N  how many are played
  --seed S   the first of them; with --seeds 1 its choices are printed
  --jobs N   shares them among N processes, each with a Postgres of its own unless TEST_DATABASE_URL names one
  --readers  plays only seeds that have a reader of the change feed
  --workers  plays only seeds with workers and planned runs, whose processes are also stopped and cut off
  --verbose  prints the choices of each
  --first    stops at the first that violates a law`

const { values } = readWords(USAGE, {
  seeds: { type: 'string' },
  seed: { type: 'string' },
  jobs: { type: 'string' },
  readers: { type: 'boolean' },
  workers: { type: 'boolean' },
  verbose: { type: 'boolean' },
  first: { type: 'boolean' },
})
const seeds = wholeNumber('--seeds', values.seeds ?? '100')
const first = wholeNumber('--seed', values.seed ?? '1', 0)
/** A process with a single seed would print its choices. */
const jobs = Math.min(wholeNumber('--jobs', values.jobs ?? '1'), Math.floor(seeds / 2))
const plays = values.readers ? hasReader : values.workers ? hasWorkers : () => true
/** Tables grow with each seed: after a while a new database costs less. */
const PER_DATABASE = 100
const say = (line: string) => void process.stdout.write(`${line}\n`)

process.exitCode = await (jobs > 1 ? playInProcesses() : play())

/** Each process plays a part of the seeds. Returns the exit code. */
async function playInProcesses(): Promise<number> {
  const flags = (['readers', 'workers', 'verbose', 'first'] as const).flatMap((name) =>
    values[name] ? [`--${name}`] : [],
  )
  const runs = []
  let next = first
  for (let job = 0, left = seeds; left > 0; job++) {
    const part = Math.ceil(left / (jobs - job))
    const words = [`--seeds=${part}`, `--seed=${next}`, ...flags]
    const own = [...process.execArgv, fileURLToPath(import.meta.url)]
    runs.push(runProgram(process.execPath, [...own, ...words], { stdio: 'inherit' }))
    for (let passed = 0; passed < part; next++) if (plays(next)) passed += 1
    left -= part
  }
  return Math.max(...(await Promise.all(runs)).map(({ status }) => status))
}

async function play(): Promise<number> {
  await using stage = await openStage()
  whenInterrupted(() => stage[Symbol.asyncDispose]())
  const begun = performance.now()
  let [failed, choices, mixed, rounds] = [0, 0, 0, 0]
  let [done, seed] = [0, first]
  while (done < seeds && !(values.first && failed > 0)) {
    await using lane = await stage.lane()
    const forget = whenInterrupted(() => lane[Symbol.asyncDispose]())
    for (
      const end = Math.min(seeds, done + PER_DATABASE);
      done < end && !(values.first && failed > 0);
      done++, seed++
    ) {
      while (!plays(seed)) seed += 1
      const outcome = await simulate(seed, lane)
      choices += outcome.choices
      mixed += outcome.mixed
      rounds += outcome.followed.rounds
      if (values.verbose || seeds === 1 || outcome.faults.length > 0) {
        say(`seed ${outcome.seed} ${JSON.stringify(outcome.plan)}`)
        if (seeds === 1 || values.verbose) for (const line of outcome.trace) say(line)
        for (const fault of outcome.faults) say(`WRONG: ${fault}`)
      }
      if (outcome.faults.length > 0) {
        failed += 1
        say(`again: npm run simulate -- --seed ${outcome.seed} --seeds 1`)
      }
    }
    forget()
    if (done < seeds) say(`${done} seeds so far, ${failed} in violation`)
  }
  const cpu = process.cpuUsage()
  const seconds = (performance.now() - begun) / 1000
  say(
    `${done} seeds from ${first} on, ${choices} choices, ${mixed} batches of several teams, ${rounds} transactions of readers of the change feed, ${seconds.toFixed(1)} s, ${Math.round((seconds * 1000) / done)} ms a seed (${Math.round((cpu.user + cpu.system) / 1000 / done)} ms of them ours): ${failed} in violation`,
  )
  return failed === 0 ? 0 : 1
}
