/**
 * A console in a process of its own, and readers with as many open pages as asked for: each listens, and loads its page
 * again when something changed, as the script of the pages does. Ends with its standard input.
 */
import { createInterface } from 'node:readline'
import { startConsole } from '../console/support/console.ts'

const [url = '', pages = '1'] = process.argv.slice(2)
const PATHS = ['/', '/streams', '/runs', '/inbox', '/dead-letters', '/verify']
/** As in console.js. */
const QUIET_MS = 2_000
const AT_LEAST_MS = 30_000

const page = await startConsole(url)
const reader = await page.enter('viewer')
const closing = new AbortController()

async function read(path: string): Promise<void> {
  let due: NodeJS.Timeout | null = null
  let loaded = 0
  const load = () => {
    due ??= setTimeout(
      async () => {
        due = null
        loaded = Date.now()
        await reader.get(path).catch(() => {})
      },
      Math.max(0, QUIET_MS - (Date.now() - loaded)),
    )
  }
  await reader.get(path)
  const every = setInterval(load, AT_LEAST_MS)
  try {
    const { port } = page
    const headers = { cookie: reader.cookie }
    const response = await fetch(`http://127.0.0.1:${port}/live`, { headers, signal: closing.signal })
    for await (const part of response.body!.pipeThrough(new TextDecoderStream()))
      if (part.includes('event: changed')) load()
  } catch {
    // Closed.
  } finally {
    clearInterval(every)
    if (due !== null) clearTimeout(due)
  }
}

const readers = Array.from({ length: Number(pages) }, (_, at) => read(PATHS[at % PATHS.length]!))
process.stdout.write('ready\n')
for await (const _ of createInterface({ input: process.stdin }));
closing.abort()
await Promise.all(readers)
await page.close()
