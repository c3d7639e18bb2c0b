/**
 * The connections of the endpoint, by peer.
 *
 * Invariant: a connection is a stranger's until an event on it was signed. Strangers have a limit for each peer; where it
 * is reached, or that of all connections, the peer's oldest stranger is closed, or the oldest of the peer that has most.
 * So a newcomer always gets in, whoever holds thousands of idle connections loses those, and a sender of signed events
 * loses none.
 */
import type { BlockList, Socket } from 'node:net'
import { peerOf } from '../../core/peers.ts'
import type { IngestLimits } from './in-flight.ts'

export interface Connections {
  /** Makes room by closing others, or closes `socket` where there is none. */
  add(socket: Socket): void
  /** An event on this connection was signed. */
  trust(socket: Socket): void
  isTrusted(socket: Socket): boolean
}

export interface ConnectionsOptions {
  readonly limits: Pick<IngestLimits, 'connections' | 'connectionsOfPeer'>
  readonly proxies: BlockList | null
  /** Called for each connection that is closed for the limits. */
  readonly onClosed: () => void
}

export function openConnections({ limits, proxies, onClosed }: ConnectionsOptions): Connections {
  /** By peer, the oldest first. */
  const strangers = new Map<string, Set<Socket>>()
  const peers = new Map<Socket, string>()
  const trusted = new Set<Socket>()

  const forget = (socket: Socket) => {
    trusted.delete(socket)
    const peer = peers.get(socket)
    if (peer === undefined) return
    peers.delete(socket)
    const ofPeer = strangers.get(peer)!
    ofPeer.delete(socket)
    if (ofPeer.size === 0) strangers.delete(peer)
  }
  const end = (socket: Socket) => {
    forget(socket)
    onClosed()
    socket.destroy()
  }
  const oldestOf = (ofPeer: ReadonlySet<Socket> | undefined): Socket | undefined =>
    ofPeer?.values().next().value
  const mostStrangers = () => {
    let most: ReadonlySet<Socket> | undefined
    for (const ofPeer of strangers.values()) if (ofPeer.size > (most?.size ?? 0)) most = ofPeer
    return most
  }

  return {
    add(socket) {
      const peer = peerOf(socket.remoteAddress, undefined, proxies)
      const ofPeer = strangers.get(peer.name)
      const isFull = peers.size + trusted.size >= limits.connections
      const isGreedy = !peer.isForwarded && (ofPeer?.size ?? 0) >= limits.connectionsOfPeer
      if (isFull || isGreedy) {
        const oldest = oldestOf(isGreedy ? ofPeer : mostStrangers())
        if (oldest === undefined) {
          onClosed()
          socket.destroy()
          return
        }
        end(oldest)
      }
      const now = strangers.get(peer.name) ?? new Set()
      strangers.set(peer.name, now.add(socket))
      peers.set(socket, peer.name)
      socket.once('close', () => forget(socket))
    },
    trust(socket) {
      if (trusted.has(socket) || socket.destroyed) return
      forget(socket)
      trusted.add(socket)
    },
    isTrusted: (socket) => trusted.has(socket),
  }
}
