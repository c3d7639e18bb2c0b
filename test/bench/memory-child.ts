/** Loads N records of a stream in a process of its own and prints its seconds and peak memory as JSON. Pages are made on the way. */
import { readFileSync } from 'node:fs'
import { runRoad } from './road.ts'
import { timed } from './row.ts'
import { sampleNamed } from './sample.ts'

const [url, name, count] = process.argv.slice(2)
if (url === undefined || name === undefined || count === undefined)
  throw new Error('usage: memory-child URL STREAM RECORDS')
const total = Number(count)
const { seconds, result } = await timed(() => runRoad(url, sampleNamed(name), total))
process.stdout.write(JSON.stringify({ seconds, peakBytes: peakBytes(), changed: result.changed }))

/** Where there is /proc, of this process only: elsewhere the parent's peak at its start is in the figure too. */
function peakBytes(): number {
  try {
    const [, kibibytes] = /VmHWM:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8')) ?? []
    if (kibibytes !== undefined) return Number(kibibytes) * 1024
  } catch {
    // No /proc here.
  }
  return process.resourceUsage().maxRSS * 1024
}
