/**
 * Loads N records of a stream in a process of its own, or verifies them, and prints its seconds, its peak memory and the
 * number of records as JSON. The pages are in the spool whose file is descriptor 3.
 */
import { peakOf } from './machine.ts'
import { runRoad, verifyRoad } from './road.ts'
import { timed } from './row.ts'
import { sampleNamed } from './sample.ts'
import { spoolIn } from './spool.ts'

const [work, url, name, count] = process.argv.slice(2)
if ((work !== 'load' && work !== 'verify') || url === undefined || name === undefined || count === undefined)
  throw new Error('usage: memory-child load|verify URL STREAM RECORDS 3<SPOOL')
const [sample, total] = [sampleNamed(name), Number(count)]
const pages = spoolIn(3)
const { seconds, result } = await timed(work === 'load' ? loaded : verified)
process.stdout.write(JSON.stringify({ seconds, peakBytes: peakOf(), ...result }))

async function loaded() {
  const { changed, unchanged } = await runRoad(url!, sample, total, pages.at)
  return { changed, unchanged }
}

async function verified() {
  const { missing, extra, different, sums } = await verifyRoad(url!, sample, total, pages.at)
  const found = [missing, extra, different].map(({ length }) => length)
  return { changed: found.reduce((sum, each) => sum + each, 0), unchanged: sums.warehouse }
}
