/**
 * Loads N records of a stream in a process of its own and prints its seconds and peak memory as JSON. Pages are
 * generated on the way.
 */
import { peakOf } from './machine.ts'
import { runRoad } from './road.ts'
import { timed } from './row.ts'
import { sampleNamed } from './sample.ts'

const [url, name, count] = process.argv.slice(2)
if (url === undefined || name === undefined || count === undefined)
  throw new Error('usage: memory-child URL STREAM RECORDS')
const total = Number(count)
const { seconds, result } = await timed(() => runRoad(url, sampleNamed(name), total))
process.stdout.write(JSON.stringify({ seconds, peakBytes: peakOf(), changed: result.changed }))
