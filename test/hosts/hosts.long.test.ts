/** A few of the thirty combinations of `npm run crash -- --hosts`, with short troubles. */
import { expect, it } from 'vitest'
import { whyNotHere } from './namespaces.ts'
import { playHosts } from './outside.ts'

const reason = whyNotHere()
if (reason !== null) process.stdout.write(`the test of three hosts is skipped: ${reason}\n`)

it.skipIf(reason !== null)(
  'with three hosts behind a balancer, nothing acknowledged is lost and the tables equal the source, though one of them vanishes, is killed or has another time',
  { timeout: 600_000 },
  async () => {
    const lines: string[] = []
    const only = ['page/kill', 'settle/link', 'drain/clock']
    const onLine = (line: string) => void lines.push(line)
    const isRight = await playHosts({ seed: 1, seconds: 15, isTimed: false, only, onLine })
    expect(isRight, lines.join('\n')).toBe(true)
    expect(lines.filter((line) => line.endsWith(', right')).length).toBe(only.length)
  },
)
