/** The machine that this runs on: Node, disk, ports. */
import { createServer } from 'node:net'
import { type Check, failed, ok, warning } from './check.ts'

/** The least that is supported, and when each line of Node is looked after no longer. */
const LEAST = [20, 19] as const
const END_OF_LIFE: Readonly<Record<number, string>> = {
  20: '2026-04-30',
  22: '2027-04-30',
  24: '2028-04-30',
  26: '2029-04-30',
}

/** `version` as `process.version` has it; `today` as `YYYY-MM-DD`. */
export function nodeCheck(version: string, today: string): Check {
  const [major = 0, minor = 0] = version.replace(/^v/, '').split('.').map(Number)
  const newer = 'install the newest long-term release of Node (nodejs.org)'
  if (major < LEAST[0] || (major === LEAST[0] && minor < LEAST[1]))
    return failed('node', `Node ${version} is older than ${LEAST.join('.')}`, newer)
  const end = END_OF_LIFE[major]
  if (end !== undefined && today > end)
    return warning('node', `Node ${version} is past its end of life (${end})`, newer)
  if (major % 2 === 1 || (major < 20 && end === undefined))
    return warning('node', `Node ${version} is no long-term release`, newer)
  return ok('node', `Node ${version}`)
}

const GB = 1024 ** 3

/** `free` bytes where the warehouse keeps its data; null where that cannot be seen from here. */
export function diskCheck(free: number | null): Check {
  if (free === null)
    return ok('disk', 'the disk of the warehouse cannot be seen from here; a write to it succeeds')
  const left = `${(free / GB).toFixed(1)} GB are free where the warehouse keeps its data`
  const hint = 'free space, or move the data to a larger disk'
  if (free < GB / 4) return failed('disk', left, hint)
  return free < 2 * GB ? warning('disk', left, hint) : ok('disk', left)
}

export interface Port {
  /** `webhook port`, `admin port`. */
  readonly name: string
  readonly variable: string
  readonly host: string
  readonly port: number
}

/** Whether `serve` could listen; one that runs already is no fault. */
export async function portCheck({ name, variable, host, port }: Port, isOurs: boolean): Promise<Check> {
  if (port === 0) return ok(name, 'any free one is taken')
  const code = await tryToListen(host, port)
  if (code === null) return ok(name, `${host}:${port} is free`)
  if (code === 'EADDRINUSE') {
    if (isOurs) return ok(name, `serve listens on ${host}:${port}`)
    return failed(
      name,
      `${host}:${port} is taken by another program`,
      `stop it, or set ${variable} to a free port`,
    )
  }
  if (code === 'EACCES')
    return failed(
      name,
      `${host}:${port} may not be listened on by this user`,
      `set ${variable} to a port above 1023`,
    )
  return failed(
    name,
    `${host} is no address of this machine (${code})`,
    `hint ${variable.replace(/PORT$/, 'HOST')}`,
  )
}

function tryToListen(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'unknown'))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)))
  })
}

/** True when a `serve` answers there. */
export async function serveAnswers(host: string, port: number): Promise<boolean> {
  if (port === 0) return false
  const name = host.includes(':') ? `[${host}]` : host === '0.0.0.0' ? '127.0.0.1' : host
  try {
    const answer = await fetch(`http://${name}:${port}/healthz`, { signal: AbortSignal.timeout(2_000) })
    await answer.body?.cancel()
    return answer.ok
  } catch {
    return false
  }
}
