/** Damaged and slow bodies, byte by byte: a client meets each damage where a real one would be. */
import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import type { FaultName, FiredFaults } from '../../../src/emulator/faults.ts'
import { damage, isDamaging, sendFaulty } from '../../../src/emulator/http/strike.ts'

const faultsOf = (...names: FaultName[]): FiredFaults => new Map(names.map((name) => [name, null]))
const latin = (faults: FiredFaults, body: string) => damage(faults, body).toString('latin1')

describe('a byte that is not UTF-8', () => {
  it.each([
    [
      'of a list',
      '[{"id":"1","last_name":"Lee"},{"last_name":"Fox"}]',
      '[{"id":"1","last_name":"\x96ee"},{"last_name":"Fox"}]',
    ],
    ['of a record without a name', '{"text":"How?","name":"x"}', '{"text":"\x96ow?","name":"x"}'],
    ['of a record with both', '{"text":"How?","last_name":"Lee"}', '{"text":"How?","last_name":"\x96ee"}'],
    [
      'after characters of several bytes',
      '{"city":"Žđ","last_name":"Lee"}',
      '{"city":"Å½Ä\x91","last_name":"\x96ee"}',
    ],
    ['of an export, in its second half', 'ID,Name\r\n1,ANN\r\n2,Bob\r\n', 'ID,Name\r\n1,ANN\r\n2,B\x96b\r\n'],
    ['of an empty text: none', '{"last_name":""}', '{"last_name":""}'],
    ['without a text: none', '{"count":0}', '{"count":0}'],
    ['of an export without lower case: none', '1,2\r\n', '1,2\r\n'],
  ])('is put into the text %s', (_where, body, expected) => {
    expect(latin(faultsOf('invalid-utf8'), body)).toBe(expected)
  })
})

it('a body is cut in its middle, counted in bytes, or loses its first byte, and nothing else changes it', () => {
  expect(latin(faultsOf('cut-json'), '{"a":"Ž"}')).toBe('{"a":')
  expect(latin(faultsOf('corrupt-json'), '{"a":1}')).toBe('!"a":1}')
  for (const name of ['truncate', 'drip', 'slow', 'wrong-count'] as const)
    expect(latin(faultsOf(name), '{"a":1}')).toBe('{"a":1}')
  const damaging = (
    ['cut-json', 'corrupt-json', 'invalid-utf8', 'truncate', 'drip', 'slow', 'html-502'] as const
  ).map((name) => isDamaging(faultsOf('next-loop', name)))
  expect(damaging).toEqual([true, true, true, true, true, false, false])
})

describe('a body that is sent piece by piece', () => {
  /** Sends ten times `size` bytes and one more to a caller that leaves after `patience` pieces. */
  async function dripped(body: string, argument: string | null, patience = 99) {
    const steps: unknown[] = []
    const raw = {
      destroyed: false,
      writeHead: (status: number, headers: object) => steps.push([status, headers]),
      write: (piece: Buffer) => {
        steps.push(piece.toString())
        raw.destroyed = steps.filter((step) => typeof step === 'string').length >= patience
      },
      end: () => steps.push('end'),
    }
    const clock = { now: () => 0, sleep: async (milliseconds: number) => void steps.push(milliseconds) }
    const head = { status: 201, headers: { 'content-type': 'a/b' } }
    await sendFaulty(
      raw as unknown as ServerResponse,
      new Map([['drip', argument]]),
      head,
      Buffer.from(body),
      clock,
    )
    return steps
  }

  it('has its length first, at most ten pieces and a pause between two of them', async () => {
    const head = [201, { 'content-type': 'a/b', 'content-length': 11 }]
    expect(await dripped('abcdefghijk', null)).toEqual([
      ...[head, 'ab', 200, 'cd', 200, 'ef', 200, 'gh', 200, 'ij', 200, 'k', 'end'],
    ])
    expect(await dripped('abc', '7')).toEqual([
      ...[[201, { 'content-type': 'a/b', 'content-length': 3 }], 'a', 7, 'b', 7, 'c', 'end'],
    ])
    expect(await dripped('', '7')).toEqual([[201, { 'content-type': 'a/b', 'content-length': 0 }], 'end'])
  })

  it('ends when the caller has left', async () => {
    expect((await dripped('abcdefghijklmnopqrst', '0', 3)).slice(1)).toEqual(['ab', 0, 'cd', 0, 'ef', 'end'])
  })
})

it('a truncated body ends in the middle, and the connection is destroyed once that half was sent', async () => {
  const steps: unknown[] = []
  const raw = {
    writeHead: (_status: number, headers: object) => steps.push(headers),
    write: (piece: Buffer, sent: () => void) => {
      steps.push(piece.toString())
      sent()
    },
    destroy: () => steps.push('destroyed'),
  }
  const clock = { now: () => 0, sleep: async () => void steps.push('waited') }
  const head = { status: 200, headers: {} }
  await sendFaulty(
    raw as unknown as ServerResponse,
    faultsOf('truncate', 'drip'),
    head,
    Buffer.from('abcde'),
    clock,
  )
  expect(steps).toEqual([{ 'content-length': 5 }, 'ab', 'destroyed'])
})
