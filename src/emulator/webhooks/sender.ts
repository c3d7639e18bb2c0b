/**
 * Sends one signed POST.
 *
 * Invariant: the signed bytes are sent; no redirect is followed; every outcome is a value, never an exception, and its
 * text reveals nothing of the target or the record; after `close` nothing is in flight.
 */
import { lookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'
import { Agent } from 'undici'
import { sign } from '../../core/signature.ts'

export interface AttemptOutcome {
  /** True for any 2xx. */
  readonly acknowledged: boolean
  readonly status: number | null
  readonly error: string | null
  /** True if a retry cannot succeed. */
  readonly final: boolean
}

export interface Sender {
  post(url: string, body: Buffer, secret: string): Promise<AttemptOutcome>
  close(): Promise<void>
}

export interface SenderOptions {
  readonly allowRemote: boolean
  /** Real milliseconds from the start of an attempt to the end of its answer. */
  readonly timeoutMs: number
}

const USER_AGENT = 'intake-sync-emulator-webhooks'
/** Greatest number of bytes read of an answer; a longer one closes its connection. */
const READ = 65_536

export function openSender({ allowRemote, timeoutMs }: SenderOptions): Sender {
  const agent = new Agent({
    connect: { timeout: timeoutMs, ...(allowRemote ? {} : { lookup: lookUpLoopback }) },
    headersTimeout: 0,
    bodyTimeout: 0,
  })

  async function request(target: URL, body: Buffer, secret: string, signal: AbortSignal): Promise<number> {
    const answer = await agent.request({
      origin: target.origin,
      path: `${target.pathname}${target.search}`,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'user-agent': USER_AGENT,
        'X-Service-Signature': sign(body, secret),
      },
      body,
      signal,
    })
    // Only the status counts, whatever happens to the rest of the answer.
    await answer.body.dump({ limit: READ }).catch(() => undefined)
    return answer.statusCode
  }

  return {
    async post(url, body, secret) {
      const target = new URL(url)
      if (!allowRemote && isRemoteAddress(target)) return failed(new RemoteTarget())
      const control = new AbortController()
      const timer = setTimeout(() => control.abort(), timeoutMs)
      try {
        const status = await request(target, body, secret, control.signal)
        const acknowledged = status >= 200 && status < 300
        return { acknowledged, status, error: acknowledged ? null : `answered ${status}`, final: false }
      } catch (error) {
        return control.signal.aborted ? failed({ code: 'UND_ERR_CONNECT_TIMEOUT' }) : failed(error)
      } finally {
        clearTimeout(timer)
      }
    },
    close: () => agent.destroy(),
  }
}

const REASONS: Readonly<Record<string, string>> = {
  UND_ERR_CONNECT_TIMEOUT: 'timeout',
  ETIMEDOUT: 'timeout',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  UND_ERR_SOCKET: 'connection reset',
  ENOTFOUND: 'name not found',
  EAI_AGAIN: 'name not found',
}

function failed(error: unknown): AttemptOutcome {
  if (error instanceof RemoteTarget) {
    return { acknowledged: false, status: null, error: error.message, final: true }
  }
  const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : ''
  return { acknowledged: false, status: null, error: REASONS[code] ?? 'connection failed', final: false }
}

/** IPv4 addresses within IPv6 (`::ffff:127.0.0.1`) are checked by the rule for IPv4. */
const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4')
LOOPBACK.addAddress('::1', 'ipv6')

class RemoteTarget extends Error {
  constructor() {
    super('target is not on loopback; start with --allow-remote-webhooks')
    this.name = 'RemoteTarget'
  }
}

export function isLoopback(address: string): boolean {
  return LOOPBACK.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

/** True for a URL whose host is an address outside loopback. */
function isRemoteAddress({ hostname }: URL): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  return isIP(host) !== 0 && !isLoopback(host)
}

/**
 * Resolves names as `dns.lookup` does and fails with `RemoteTarget` if any address is not on loopback. A name is checked
 * when connecting, so that it cannot change in between.
 */
export const lookUpLoopback: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return callback(error, [])
    if (addresses.length === 0 || !addresses.every(({ address }) => isLoopback(address))) {
      return callback(new RemoteTarget(), [])
    }
    if (options.all === true) return callback(null, addresses)
    return callback(null, addresses[0]!.address, addresses[0]!.family)
  })
}
