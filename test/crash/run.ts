/**
 * `npm run crash -- [--kills 50] [--seed N]`: kills ingesters, drains and Postgres under load, and checks that no
 * acknowledged event is missing and that every table is what the events say. Exit 1 when something is wrong.
 */
import { whenInterrupted } from '../support/interruption.ts'
import { readWords, wholeNumber } from '../support/words.ts'
import { crash } from './crash.ts'
import { openStage } from './stage.ts'

const USAGE = `npm run crash -- [--kills 50] [--seed N]

  --kills N  how many times something is killed or frozen
  --seed N   whom, and when: as a run tells it in its first line`

const { values } = readWords(USAGE, { kills: { type: 'string' }, seed: { type: 'string' } })
const kills = wholeNumber('--kills', values.kills ?? '50')
const seed = wholeNumber('--seed', values.seed ?? String(Date.now() % 1e6), 0)
process.stdout.write(`seed ${seed}\n`)
await using stage = await openStage()
whenInterrupted(() => stage[Symbol.asyncDispose]())
const verdict = await crash({ ...stage, kills, seed, say: (line) => void process.stdout.write(`${line}\n`) })
process.stdout.write(`${verdict.acknowledged} acknowledged, ${verdict.stored} stored\n`)
for (const fault of verdict.faults) process.stdout.write(`WRONG: ${fault}\n`)
if (verdict.faults.length > 0)
  process.stdout.write(`again: npm run crash -- --kills ${kills} --seed ${seed}\n`)
process.exitCode = verdict.faults.length === 0 ? 0 : 1
