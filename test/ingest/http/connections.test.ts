/** Which connection is closed for a new one: the oldest of the peer that has most on which nothing was signed. */
import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { networksOf } from '../../../src/core/peers.ts'
import { openConnections } from '../../../src/ingest/http/connections.ts'

function open(limits: { readonly connections: number; readonly connectionsOfPeer: number }) {
  let closed = 0
  const connections = openConnections({
    ...{ limits, proxies: networksOf(['10.0.0.9']), onClosed: () => (closed += 1) },
  })
  const names = new Map<Socket, string>()
  /** A connection from the last part of an address; closed ones have no name. */
  const connect = (name: string, peer: number | string): Socket => {
    const socket = Object.assign(new EventEmitter(), {
      ...{ remoteAddress: typeof peer === 'string' ? peer : `10.0.0.${peer}`, destroyed: false },
      destroy() {
        socket.destroyed = true
        names.delete(socket)
        socket.emit('close')
      },
    }) as unknown as Socket & { destroyed: boolean }
    names.set(socket, name)
    connections.add(socket)
    return socket
  }
  return { connections, connect, open: () => [...names.values()].join(''), closed: () => closed }
}

test('where all are taken, the oldest of the peer that has most ends', () => {
  const { connect, open: left, closed } = open({ connections: 6, connectionsOfPeer: 9 })
  for (const [name, peer] of [
    ['a', 1],
    ['b', 2],
    ['c', 2],
    ['d', 2],
    ['e', 3],
    ['f', 3],
  ] as const)
    connect(name, peer)
  expect([left(), closed()]).toEqual(['abcdef', 0])
  connect('g', 4)
  expect([left(), closed()]).toEqual(['acdefg', 1])
  // Also for a peer that has one already, and may have more.
  connect('h', 1)
  expect([left(), closed()]).toEqual(['adefgh', 2])
})

test('a peer with as many as it may have loses its oldest, though others are older; a proxy may have any number', () => {
  const { connect, open: left } = open({ connections: 20, connectionsOfPeer: 2 })
  for (const [name, peer] of [
    ['a', 1],
    ['b', 2],
    ['c', 2],
  ] as const)
    connect(name, peer)
  expect(left()).toBe('abc')
  connect('d', 2)
  expect(left()).toBe('acd')
  for (const name of ['p', 'q', 'r', 's']) connect(name, 9)
  expect(left()).toBe('acdpqrs')
})

test('where all are taken, a peer with as many as it may have loses its own oldest, though another has more', () => {
  const { connections, connect, open: left, closed } = open({ connections: 6, connectionsOfPeer: 2 })
  for (const [name, peer] of [
    ['p', 9],
    ['q', 9],
    ['r', 9],
    ['a', 1],
    ['b', 2],
    ['c', 2],
  ] as const)
    connect(name, peer)
  connect('d', 2)
  expect([left(), closed()]).toEqual(['pqracd', 1])
  // The proxy has most.
  const last = connect('e', 1)
  expect([left(), closed()]).toEqual(['qracde', 2])
  connections.trust(last)
  connect('f', 1)
  connect('g', 1)
  expect([left(), closed()]).toEqual(['acdefg'.replace('a', 'r'), 4])
})

test('one on which something was signed is never closed, and the newcomer is where there is no other', () => {
  const { connections, connect, open: left, closed } = open({ connections: 2, connectionsOfPeer: 1 })
  const [first, second] = [connect('a', 1), connect('b', 2)]
  connections.trust(first)
  expect([connections.isTrusted(first), connections.isTrusted(second)]).toEqual([true, false])
  // It does not count among the strangers of its peer.
  connect('c', 1)
  expect(left()).toBe('ac')
  expect(connections.isTrusted(second)).toBe(false)
  const third = connect('d', 3)
  expect(left()).toBe('ad')
  for (let times = 0; times < 2; times++) connections.trust(third)
  connect('e', 4)
  expect([left(), closed()]).toEqual(['ad', 3])
  first.destroy()
  expect(connections.isTrusted(first)).toBe(false)
  connect('f', 5)
  expect([left(), closed()]).toEqual(['df', 3])
})

test('those that have ended count no more, also when their event was signed just then', () => {
  const { connections, connect, open: left, closed } = open({ connections: 2, connectionsOfPeer: 2 })
  for (const name of ['a', 'b', 'c']) {
    const gone = connect(name, 1)
    gone.destroy()
    connections.trust(gone)
    expect(connections.isTrusted(gone)).toBe(false)
  }
  for (const name of ['d', 'e']) connect(name, 2)
  expect([left(), closed()]).toEqual(['de', 0])
})

test('the addresses of an IPv6 network are one peer, and those that have ended count no more', () => {
  const { connect, open: left, closed } = open({ connections: 9, connectionsOfPeer: 2 })
  const first = connect('a', '2001:db8::1')
  connect('b', '2001:db8::2')
  connect('c', '2001:db8:0:1::1')
  first.destroy()
  connect('d', '2001:db8::3')
  expect([left(), closed()]).toEqual(['bcd', 0])
  connect('e', '2001:db8::4')
  expect([left(), closed()]).toEqual(['cde', 1])
})
