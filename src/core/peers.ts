/**
 * Addresses of peers, as they are counted and trusted; and the proxy that logs people in to the console.
 *
 * Invariant: a sender cannot choose its own name: only entries that trusted proxies added are believed, and the
 * addresses of an IPv6 network count as one.
 */
import { BlockList, isIP } from 'node:net'

/** Roles in the console. Each may do what those before it may; a steward may also ask for single values of records. */
export const ROLES = ['viewer', 'operator', 'steward'] as const
export type Role = (typeof ROLES)[number]

/** A proxy in front of the console that logs people in, and names them in a header. */
export interface LoginProxy {
  /** Its headers are believed in connections from these addresses only. */
  readonly addresses: BlockList
  /** In lower case. */
  readonly loginHeader: string
  /** Names of groups, comma-separated; null: none are read. */
  readonly groupsHeader: string | null
  readonly roles: {
    readonly logins: ReadonlyMap<string, Role>
    /** By the names of the other header. A login with the name of a group is not in it. */
    readonly groups: ReadonlyMap<string, Role>
    /** Of all other logins that the proxy names; null: they are refused. */
    readonly others: Role | null
  }
}

/** The networks that `texts` name, as `10.1.2.3`, `10.0.0.0/8` or `fd00::/8`; null when one is none. */
export function networksOf(texts: readonly string[]): BlockList | null {
  const networks = new BlockList()
  for (const text of texts) {
    const [address = '', prefix, ...more] = text.split('/')
    const family = isIP(address)
    const bits = family === 4 ? 32 : 128
    if (family === 0 || more.length > 0 || (prefix !== undefined && !/^\d{1,3}$/.test(prefix))) return null
    if (Number(prefix ?? bits) > bits) return null
    networks.addSubnet(address, Number(prefix ?? bits), family === 4 ? 'ipv4' : 'ipv6')
  }
  return networks
}

export interface Peer {
  /** One address, or the /64 network of an IPv6 address: a host has as many addresses of it as it likes. */
  readonly name: string
  /** The connection is that of a trusted proxy, which other peers share. */
  readonly isForwarded: boolean
}

/** `forwarded`: X-Forwarded-For; only the entries that trusted proxies added are believed. */
export function peerOf(address: string | undefined, forwarded: unknown, trusted: BlockList | null): Peer {
  const direct = plain(address ?? '')
  if (trusted === null || !isIn(trusted, direct)) return { name: networkOf(direct), isForwarded: false }
  const hops = typeof forwarded === 'string' ? forwarded.split(',').map((hop) => plain(hop.trim())) : []
  const last = hops.findLast((hop) => !isIn(trusted, hop))
  return { name: last === undefined ? direct : networkOf(last), isForwarded: true }
}

function isIn(networks: BlockList, address: string): boolean {
  const family = isIP(address)
  return family !== 0 && networks.check(address, family === 4 ? 'ipv4' : 'ipv6')
}

/** Without a port, brackets, a zone, or the prefix of an IPv4 address that is written as IPv6. */
function plain(text: string): string {
  const bare =
    /^\[([^\]]*)\]/.exec(text)?.[1] ?? (/^[\d.]+:\d+$/.test(text) ? text.replace(/:\d+$/, '') : text)
  return bare.replace(/%.*$/, '').replace(/^::ffff:(?=[\d.]+$)/i, '')
}

function networkOf(address: string): string {
  if (isIP(address) === 4) return address
  if (isIP(address) !== 6) return 'unknown'
  const [head = '', tail] = address.split('::')
  const groups = head === '' ? [] : head.split(':')
  const rest = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? [] : Array(Math.max(0, 8 - groups.length - rest.length)).fill('0')
  return [...groups, ...zeros, ...rest]
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')
}
