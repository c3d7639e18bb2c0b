/**
 * Restricts targets of events to this machine, unless remote webhooks are allowed.
 *
 * Invariant: these functions open no connection to an address outside loopback. A name is checked by every address that
 * it resolves to when connecting, so that it cannot change in between.
 */
import { lookup } from 'node:dns'
import { BlockList, isIP, type LookupFunction } from 'node:net'

/** IPv4 addresses within IPv6 (`::ffff:127.0.0.1`) are checked by the rule for IPv4. */
const LOOPBACK = new BlockList()
LOOPBACK.addSubnet('127.0.0.0', 8, 'ipv4')
LOOPBACK.addAddress('::1', 'ipv6')

export class RemoteTarget extends Error {
  constructor() {
    super('target is not on loopback; start with --allow-remote-webhooks')
    this.name = 'RemoteTarget'
  }
}

export function isLoopback(address: string): boolean {
  return LOOPBACK.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

/** True for a URL whose host is an address outside loopback. */
export function isRemoteAddress({ hostname }: URL): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1')
  return isIP(host) !== 0 && !isLoopback(host)
}

/** Resolves names as `dns.lookup` does and fails with `RemoteTarget` if any address is not on loopback. */
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
