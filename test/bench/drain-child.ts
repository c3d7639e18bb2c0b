/** A drain in a process of its own, like `serve --no-ingest`; prints the seconds to visibility when asked whether it is idle. */
import { createInterface } from 'node:readline'
import pino from 'pino'
import { systemClock } from '../../src/core/clock.ts'
import { type DrainTeam, openDrain } from '../../src/ingest/drain/drain.ts'

let visible: number[] = []
await using drain = openDrain({
  url: process.argv[2]!,
  teams: JSON.parse(process.argv[3]!) as DrainTeam[],
  clock: systemClock,
  logger: pino({ level: 'silent' }),
  watch: {
    drained(_team, _counts, seconds) {
      for (const each of seconds) visible.push(each)
    },
    refetched() {},
    // A figure of a drain with errors in our own code does not count.
    defect: () => process.exit(1),
  },
})
process.stdout.write('ready\n')
for await (const _ of createInterface({ input: process.stdin })) {
  await drain.idle()
  process.stdout.write(`${JSON.stringify(visible)}\n`)
  visible = []
}
