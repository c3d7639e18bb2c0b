/**
 * `npm run crash -- [--kills 50] [--seed N] [--mixture]`: kills ingesters, drains and Postgres under load, and checks that no
 * acknowledged event is missing and that every table follows from the events. Exit 1 if not.
 */
import { whenInterrupted } from '../support/interruption.ts'
import { readWords, wholeNumber } from '../support/words.ts'
import { crash } from './crash.ts'
import { openStage } from './stage.ts'

const USAGE = `npm run crash -- [--kills 50] [--seed N] [--mixture]

  --kills N  how many times something is killed or frozen
  --seed N   repeats the kills of a run, which prints its seed in its first line
  --mixture  events of several teams and streams, with the same ids, late, twice and in part`

const { values } = readWords(USAGE, {
  kills: { type: 'string' },
  seed: { type: 'string' },
  mixture: { type: 'boolean' },
})
const kills = wholeNumber('--kills', values.kills ?? '50')
const seed = wholeNumber('--seed', values.seed ?? String(Date.now() % 1e6), 0)
process.stdout.write(`seed ${seed}\n`)
await using stage = await openStage()
whenInterrupted(() => stage[Symbol.asyncDispose]())
const { mixture = false } = values
const verdict = await crash({
  ...stage,
  kills,
  seed,
  mixture,
  say: (line) => void process.stdout.write(`${line}\n`),
})
const after =
  verdict.seconds === undefined ? '' : `, done ${verdict.seconds.toFixed(1)} s after the last event`
process.stdout.write(`${verdict.acknowledged} acknowledged, ${verdict.stored} stored${after}\n`)
for (const fault of verdict.faults) process.stdout.write(`WRONG: ${fault}\n`)
if (verdict.faults.length > 0)
  process.stdout.write(
    `again: npm run crash -- --kills ${kills} --seed ${seed}${mixture ? ' --mixture' : ''}\n`,
  )
process.exitCode = verdict.faults.length === 0 ? 0 : 1
