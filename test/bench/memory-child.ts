/** Loads N patients in a process of its own and prints its seconds and peak memory as JSON. Pages are made on the way. */
import { patientPage } from './pages.ts'
import { runRoad } from './road.ts'
import { timed } from './row.ts'

const [url, count] = process.argv.slice(2)
if (url === undefined || count === undefined) throw new Error('usage: memory-child URL RECORDS')
const total = Number(count)
const { seconds, result } = await timed(() => runRoad(url, (page) => patientPage(page, total), total))
const peakBytes = process.resourceUsage().maxRSS * 1024
process.stdout.write(JSON.stringify({ seconds, peakBytes, changed: result.changed }))
