/** Addresses are counted by host, and a forwarded one is believed only as far as trusted proxies vouch for it. */
import { describe, expect, it, test } from 'vitest'
import { networksOf, peerOf } from '../../src/core/peers.ts'

const trusted = networksOf(['10.0.0.0/8', '192.0.2.7', 'fd00::/8'])!

describe('a peer', () => {
  it.each([
    ['192.0.2.9', '192.0.2.9'],
    ['::ffff:192.0.2.9', '192.0.2.9'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:db8:1:2::6', '2001:db8:1:2'],
    ['2001:db8::1:2:3', '2001:db8:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['::1', '0:0:0:0'],
    ['not an address', 'unknown'],
    [undefined, 'unknown'],
  ])('at %s is %s', (address, name) => {
    expect(peerOf(address, '198.51.100.1', trusted)).toEqual({ name, isForwarded: false })
  })

  it.each([
    ['198.51.100.1', '198.51.100.1'],
    ['203.0.113.5, 198.51.100.1', '198.51.100.1'],
    ['198.51.100.1, 10.9.9.9, 192.0.2.7', '198.51.100.1'],
    ['198.51.100.1:4711', '198.51.100.1'],
    ['[2001:db8:1:2::6]:4711', '2001:db8:1:2'],
    ['198.51.100.1, canary', 'unknown'],
    ['10.1.1.1', '10.0.0.1'],
    [undefined, '10.0.0.1'],
  ])('behind a trusted proxy that says %s is %s', (forwarded, name) => {
    expect(peerOf('10.0.0.1', forwarded, trusted)).toEqual({ name, isForwarded: true })
  })

  it('is the connected machine where no proxy is trusted', () => {
    expect(peerOf('10.0.0.1', '198.51.100.1', null)).toEqual({ name: '10.0.0.1', isForwarded: false })
  })
})

test.each([
  ['10.0.0.0/33'],
  ['10.0.0/8'],
  ['fd00::/129'],
  ['proxy.internal'],
  ['10.0.0.1/8/8'],
  ['10.0.0.1/'],
  [''],
])('%j names no network', (text) => {
  expect(networksOf(['10.0.0.1', text])).toBeNull()
})
