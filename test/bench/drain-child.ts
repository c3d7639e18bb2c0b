/** A drain in a process of its own, as `serve --no-ingest` is; tells the seconds to visibility when asked whether it is idle. */
import { createInterface } from 'node:readline'
import pino from 'pino'
import { systemClock } from '../../src/core/clock.ts'
import { openDrain } from '../../src/ingest/drain/drain.ts'

let visible: number[] = []
await using drain = openDrain({
  url: process.argv[2]!,
  teams: [{ name: 'bench', teamId: 1 }],
  clock: systemClock,
  logger: pino({ level: 'silent' }),
  watch: {
    drained(_team, _counts, seconds) {
      for (const each of seconds) visible.push(each)
    },
    refetched() {},
    defect() {},
  },
})
process.stdout.write('ready\n')
for await (const _ of createInterface({ input: process.stdin })) {
  await drain.idle()
  process.stdout.write(`${JSON.stringify(visible)}\n`)
  visible = []
}
