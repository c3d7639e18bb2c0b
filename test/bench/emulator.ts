/**
 * Listed records per second of the emulator at page size 500, compared with a bare server of the same bytes.
 *
 * Invariant: both servers run in processes of their own and are read by the same client; a figure counts only when each
 * page contained the right number of records.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Pool } from 'undici'
import { programOf } from './child.ts'
import { peakOf } from './machine.ts'
import { type BenchRow, median, timed } from './row.ts'

const PAGE_SIZE = 500
const AIM = 20_000
const SAMPLES = 3

interface Server extends AsyncDisposable {
  readonly pid: number
  readonly origin: string
  readonly headers: Record<string, string>
}

/** `pages` pages of each list, with one and with four concurrent requests. */
export async function benchEmulator(pages: number): Promise<readonly BenchRow[]> {
  await using emulator = await startChild({ records: pages * PAGE_SIZE })
  const rows: BenchRow[] = []
  for (const list of ['patients', 'responses']) {
    const paths = Array.from(
      { length: pages },
      (_, at) => `/v2/${list}?page_size=${PAGE_SIZE}&page=${at + 1}`,
    )
    await expectRecords(emulator, paths)
    const { origin, headers } = emulator
    await using bare = await startChild({ copy: { origin, headers, paths } })
    for (const flight of [1, 4]) {
      const made: number[] = []
      const served: number[] = []
      for (let sample = 0; sample < SAMPLES; sample += 1) {
        made.push(await rateOf(emulator, paths, flight))
        served.push(await rateOf(bare, paths, flight))
      }
      const figure = median(made)
      const floor = median(served)
      rows.push({
        what: `${list} listed by the emulator, ${PAGE_SIZE} a page, ${flight} in flight`,
        figure,
        unit: 'records/s',
        floorIs: 'the same bytes from a bare HTTP server',
        floor,
        ratio: figure / floor,
        aim: `≥ ${AIM}/s`,
        met: figure >= AIM,
        peakBytes: peakOf(emulator.pid),
      })
    }
  }
  return rows
}

async function rateOf(
  { origin, headers }: Server,
  paths: readonly string[],
  flight: number,
): Promise<number> {
  const pool = new Pool(origin, { connections: flight })
  const left = [...paths]
  const worker = async () => {
    for (let path = left.shift(); path !== undefined; path = left.shift()) {
      const { statusCode, body } = await pool.request({ method: 'GET', path, headers })
      if (statusCode !== 200) throw new Error(`${path} answered ${statusCode}`)
      await body.dump({ limit: Number.POSITIVE_INFINITY })
    }
  }
  const { seconds } = await timed(() => Promise.all(Array.from({ length: flight }, worker)))
  await pool.close()
  return (paths.length * PAGE_SIZE) / seconds
}

/** Also warms up the emulator. */
async function expectRecords({ origin, headers }: Server, paths: readonly string[]): Promise<void> {
  const ids = new Set<string>()
  for (const path of paths) {
    const response = await fetch(origin + path, { headers })
    const { results } = (await response.json()) as { readonly results: readonly { readonly id: string }[] }
    for (const { id } of results) ids.add(id)
  }
  const wanted = paths.length * PAGE_SIZE
  if (ids.size !== wanted) throw new Error(`${ids.size} of ${wanted} records were listed`)
}

export async function startChild(task: object): Promise<Server> {
  const file = programOf('emulator-child')
  // The options of the benchmark come from the command line.
  const child = spawn(process.execPath, [...process.execArgv, file, JSON.stringify(task)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const { origin, headers } = JSON.parse(await firstLine(child)) as Pick<Server, 'origin' | 'headers'>
  return {
    pid: child.pid!,
    origin,
    headers,
    async [Symbol.asyncDispose]() {
      const gone = once(child, 'exit')
      child.stdin!.end()
      await gone
    },
  }
}

async function firstLine(child: ChildProcess): Promise<string> {
  let text = ''
  for await (const chunk of child.stdout!.iterator({ destroyOnReturn: false })) {
    text += String(chunk)
    if (text.includes('\n')) return text
  }
  throw new Error('a server of the benchmark did not start')
}
