/**
 * Packed bodies: which encodings we accept, and how each is unpacked, whole or as it comes.
 *
 * Invariant: a body that cannot be unpacked to its end is a `BodyFault`, never a shorter body; no error of zlib goes
 * further.
 */
import type { Transform } from 'node:stream'
import { promisify } from 'node:util'
import {
  brotliDecompress,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  gunzip,
  inflate,
} from 'node:zlib'

export const ACCEPTED_ENCODINGS = 'gzip, deflate, br'

/** A fault of a received answer: see `failureOfBody`. */
export class BodyFault extends Error {
  readonly fault: 'too_large' | 'encoding'

  constructor(fault: 'too_large' | 'encoding') {
    super(fault)
    this.fault = fault
  }
}

export function isTooLarge(thrown: unknown): boolean {
  return thrown instanceof BodyFault && thrown.fault === 'too_large'
}

/** Counts the packed bytes it was given. */
export type Unpacker = Transform & { readonly bytesWritten: number }

interface Coding {
  readonly whole: (body: Uint8Array, options: { maxOutputLength: number }) => Promise<Uint8Array>
  readonly stream: () => Unpacker
}

const GZIP: Coding = { whole: promisify(gunzip), stream: createGunzip }

const CODINGS: { readonly [encoding: string]: Coding } = {
  gzip: GZIP,
  'x-gzip': GZIP,
  deflate: { whole: promisify(inflate), stream: createInflate },
  br: { whole: promisify(brotliDecompress), stream: createBrotliDecompress },
}

/** How a body with these headers is packed; null when it is not. Throws `BodyFault` for an encoding unknown to us. */
function codingOf(headers: { readonly [name: string]: string }): Coding | null {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  if (encoding === '' || encoding === 'identity') return null
  const coding = Object.hasOwn(CODINGS, encoding) ? CODINGS[encoding] : undefined
  if (coding === undefined) throw new BodyFault('encoding')
  return coding
}

/** Unpacks a body that is there; at most `maxBytes` long once unpacked. */
export async function unpack(
  body: Uint8Array,
  headers: { readonly [name: string]: string },
  maxBytes: number,
): Promise<Uint8Array> {
  const coding = body.length === 0 ? null : codingOf(headers)
  if (coding === null) return body
  try {
    return await coding.whole(body, { maxOutputLength: maxBytes })
  } catch (error) {
    throw new BodyFault(
      (error as { code?: string }).code === 'ERR_BUFFER_TOO_LARGE' ? 'too_large' : 'encoding',
    )
  }
}

/** What unpacks a body as it comes; null when it is not packed. Throws `BodyFault` for an encoding unknown to us. */
export function unpackerOf(headers: { readonly [name: string]: string }): Unpacker | null {
  return codingOf(headers)?.stream() ?? null
}
