/**
 * `npm run crash -- [--kills 50] [--seed N]`: kills ingesters, drains and Postgres under load, and checks that no
 * acknowledged event is missing and that every table is what the events say. Exit 1 when something is wrong.
 */
import { parseArgs } from 'node:util'
import { crash } from './crash.ts'
import { openStage } from './stage.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '50' },
    seed: { type: 'string', default: String(Date.now() % 1e6) },
  },
})
const [kills, seed] = [Number(values.kills), Number(values.seed)]
process.stdout.write(`seed ${seed}\n`)
await using stage = await openStage()
const verdict = await crash({ ...stage, kills, seed, say: (line) => void process.stdout.write(`${line}\n`) })
process.stdout.write(`${verdict.acknowledged} acknowledged, ${verdict.stored} stored\n`)
for (const fault of verdict.faults) process.stdout.write(`WRONG: ${fault}\n`)
process.exitCode = verdict.faults.length === 0 ? 0 : 1
