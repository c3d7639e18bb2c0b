/** Addresses are counted by host, and a forwarded one is believed only as far as trusted proxies vouch for it. */
import fc from 'fast-check'
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
    ['fe80::1%eth0.100', 'fe80:0:0:0'],
    ['::1', '0:0:0:0'],
    // Neither is an IPv4 address that is written as IPv6.
    ['1::ffff:10.0.0.1', '1:0:0:0'],
    ['::ffff:1234:5', '0:0:0:0'],
    ['x[2001:db8::1]', 'unknown'],
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

  it.each([
    ['fd12:3456::1', true],
    ['fd12:3456::1%eth0', true],
    ['fe00::1', false],
    ['10.255.255.255', true],
    ['11.0.0.0', false],
    ['::ffff:10.0.0.1', true],
    ['::FFFF:192.0.2.7', true],
    ['192.0.2.6', false],
  ])('at %s is a trusted proxy: %s', (address, isForwarded) => {
    expect(peerOf(address, undefined, trusted).isForwarded).toBe(isForwarded)
  })

  it.each([
    [['198.51.100.1'], '10.0.0.1'],
    [' 198.51.100.1 ,  fd00::1 ', '198.51.100.1'],
    ['198.51.100.1, ', 'unknown'],
    ['', 'unknown'],
    ['[fd00::9]', '10.0.0.1'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['::ffff:198.51.100.1', '198.51.100.1'],
    ['::FFFF:198.51.100.1', '198.51.100.1'],
    ['198.51.100.1:', 'unknown'],
    ['x198.51.100.1:80', 'unknown'],
  ])('behind a trusted proxy with the header %j is %s', (forwarded, name) => {
    expect(peerOf('10.0.0.1', forwarded, trusted).name).toBe(name)
  })

  it('in an IPv6 network has one name, however its address is written and whatever its last half is', () => {
    const group = fc.oneof(fc.constant(0), fc.constant(0), fc.integer({ min: 0, max: 0xffff }))
    const written = fc.record({
      groups: fc.array(group, { minLength: 8, maxLength: 8 }),
      isUpper: fc.boolean(),
      isPadded: fc.boolean(),
      from: fc.nat(7),
      length: fc.nat(8),
    })
    fc.assert(
      fc.property(written, ({ groups, isUpper, isPadded, from, length }) => {
        const texts = groups.map((each) => each.toString(16).padStart(isPadded ? 4 : 1, '0'))
        // `::` stands for a row of zeros.
        const row = groups.slice(from, from + length)
        const address =
          row.length > 0 && row.every((each) => each === 0)
            ? `${texts.slice(0, from).join(':')}::${texts.slice(from + row.length).join(':')}`
            : texts.join(':')
        const name = groups.slice(0, 4).map((each) => each.toString(16))
        expect(peerOf(isUpper ? address.toUpperCase() : address, '', null).name).toBe(name.join(':'))
      }),
    )
  })

  it.each([
    ['::1:2:3:4:5:6:7', '0:1:2:3'],
    ['1::3:4:5:6:7:8', '1:0:3:4'],
    ['1:2:3::5:6:7:8', '1:2:3:0'],
    ['1:2::7:8', '1:2:0:0'],
    ['1:2:3:4:5:6:7::', '1:2:3:4'],
    ['1::', '1:0:0:0'],
    ['::', '0:0:0:0'],
  ])('%s is in the network %s', (address, name) => {
    expect(peerOf(address, '', null).name).toBe(name)
  })

  it('that is a trusted proxy has one name, whatever the interface it is reached by', () => {
    for (const zone of ['', '%eth0', '%2']) {
      const peer = peerOf(`fd12:3456::1${zone}`, undefined, trusted)
      expect(peer).toEqual({ name: 'fd12:3456::1', isForwarded: true })
    }
  })

  it('is the connected machine where no proxy is trusted', () => {
    expect(peerOf('10.0.0.1', '198.51.100.1', null)).toEqual({ name: '10.0.0.1', isForwarded: false })
  })
})

test.each([
  ['10.0.0.0/33'],
  ['10.0.0/8'],
  ['fd00::/129'],
  ['10.0.0.0/1000'],
  ['10.0.0.0/-1'],
  ['10.0.0.0/ 8'],
  ['10.0.0.0/8x'],
  ['proxy.internal'],
  ['10.0.0.1/8/8'],
  ['10.0.0.1/'],
  [''],
])('%j names no network', (text) => {
  expect(networksOf(['10.0.0.1', text])).toBeNull()
})

test.each([
  ['10.0.0.0/0', '192.0.2.1', true],
  ['10.0.0.0/32', '10.0.0.0', true],
  ['10.0.0.0/32', '10.0.0.1', false],
  ['10.0.0.7', '10.0.0.7', true],
  ['10.0.0.7', '10.0.0.6', false],
  ['2001:db8::7', '2001:db8::7', true],
  ['2001:db8::7', '2001:db8::6', false],
  ['2001:db8::/128', '2001:db8::', true],
  ['2001:db8::/33', '2001:db8:7fff::1', true],
  ['2001:db8::/33', '2001:db8:8000::1', false],
  ['fe80::/10', 'fe80::1%eth0', true],
])('the network %s contains %s: %s', (network, address, isTrusted) => {
  expect(peerOf(address, undefined, networksOf([network])).isForwarded).toBe(isTrusted)
})
