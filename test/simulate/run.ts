/**
 * `npm run simulate -- [--seeds 100] [--seed 1] [--readers] [--verbose] [--first]`: runs this many seeds from the given one
 * on, or with `--first` up to the first that violates a law, and prints violations. For a single seed, prints each choice.
 * Exit 1 if a law was violated.
 */
import { whenInterrupted } from '../support/interruption.ts'
import { readWords, wholeNumber } from '../support/words.ts'
import { hasReader } from './follower.ts'
import { simulate } from './simulate.ts'
import { openStage } from './stage.ts'

const USAGE = `npm run simulate -- [--seeds 100] [--seed 1] [--readers] [--verbose] [--first]

  --seeds N  how many are played
  --seed S   the first of them; with --seeds 1 its choices are printed
  --readers  plays only seeds that have a reader of the change feed
  --verbose  prints the choices of each
  --first    stops at the first that violates a law`

const { values } = readWords(USAGE, {
  seeds: { type: 'string' },
  seed: { type: 'string' },
  readers: { type: 'boolean' },
  verbose: { type: 'boolean' },
  first: { type: 'boolean' },
})
const seeds = wholeNumber('--seeds', values.seeds ?? '100')
const first = wholeNumber('--seed', values.seed ?? '1', 0)
const plays = values.readers ? hasReader : () => true
/** Tables grow with each seed: after a while a new database costs less. */
const PER_DATABASE = 100
const say = (line: string) => void process.stdout.write(`${line}\n`)

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
process.exitCode = failed === 0 ? 0 : 1
