/**
 * Checks of this machine: Node.js, disk, ports.
 *
 * Sizes are in bytes.
 */
import { createServer } from 'node:net'
import { type Check, failed, ok, warning } from './check.ts'

/** The oldest supported version. */
const OLDEST = [20, 19] as const
/** The end of life of each long-term release. */
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
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1]))
    return failed('node', `Node ${version} is older than ${OLDEST.join('.')}`, newer)
  const end = END_OF_LIFE[major]
  if (end !== undefined && today > end)
    return warning('node', `Node ${version} is past its end of life (${end})`, newer)
  if (major % 2 === 1) return warning('node', `Node ${version} is not a long-term release`, newer)
  return ok('node', `Node ${version}`)
}

const GB = 1024 ** 3

/** `free`: bytes free on the disk of the warehouse; null if the warehouse is on another machine. */
export function diskCheck(free: number | null): Check {
  if (free === null) return ok('disk', 'the warehouse is on another machine; a write to it succeeds')
  const left = `${(free / GB).toFixed(1)} GB are free on the disk of the warehouse`
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

/** Checks that `serve` can listen on the port, or that a running `serve` uses it (`isOurs`). */
export async function portCheck({ name, variable, host, port }: Port, isOurs: boolean): Promise<Check> {
  if (port === 0) return ok(name, 'any free port')
  const code = await tryToListen(host, port)
  if (code === null) return ok(name, `${host}:${port} is free`)
  if (code === 'EADDRINUSE') {
    if (isOurs) return ok(name, `serve listens on ${host}:${port}`)
    return failed(name, `another program uses ${host}:${port}`, `stop it, or set ${variable} to a free port`)
  }
  if (code === 'EACCES')
    return failed(name, `this user may not listen on ${host}:${port}`, `set ${variable} to a port above 1023`)
  return failed(
    name,
    `${host} is not an address of this machine (${code})`,
    `correct ${variable.replace(/PORT$/, 'HOST')}`,
  )
}

function tryToListen(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'unknown'))
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)))
  })
}

/** Whether a `serve` responds at the address. */
export async function serveAnswers(host: string, port: number): Promise<boolean> {
  if (port === 0) return false
  const name = host.includes(':') ? `[${host}]` : host === '0.0.0.0' ? '127.0.0.1' : host
  try {
    const response = await fetch(`http://${name}:${port}/healthz`, { signal: AbortSignal.timeout(2_000) })
    await response.body?.cancel()
    return response.ok
  } catch {
    return false
  }
}
