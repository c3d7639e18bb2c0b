/**
 * Pseudo-random draws as a pure function of a key and a counter.
 *
 * Invariant: the same key gives the same draws on every machine, and a record's draws do not depend on other
 * records.
 */
import { createHash } from 'node:crypto'

/** Two 32-bit words that stand for a seed and a place in the world, such as `1/production/0/patients`. */
export interface Key {
  readonly a: number
  readonly b: number
}

export function keyOf(...parts: readonly (string | number)[]): Key {
  const digest = createHash('sha256').update(parts.join('/')).digest()
  return { a: digest.readUInt32LE(0), b: digest.readUInt32LE(4) }
}

/** Mixes 32 bits so that neighbouring inputs give unrelated outputs (the finalizer of MurmurHash3). */
export function mix(word: number): number {
  let x = word | 0
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b)
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35)
  return (x ^ (x >>> 16)) >>> 0
}

/** A stream of draws (xorshift128 started from a key and an index). */
export class Draw {
  #x: number
  #y: number
  #z: number
  #w: number

  constructor(key: Key, index: number) {
    this.#x = mix(key.a ^ Math.imul(index, 0x9e3779b1))
    this.#y = mix(key.b + index)
    this.#z = mix(this.#x ^ 0x6a09e667)
    this.#w = mix(this.#y ^ 0xbb67ae85) | 1
  }

  /** A whole number from 0 to 2^32 - 1. */
  word(): number {
    const t = this.#x ^ (this.#x << 11)
    this.#x = this.#y
    this.#y = this.#z
    this.#z = this.#w
    this.#w = this.#w ^ (this.#w >>> 19) ^ t ^ (t >>> 8)
    return this.#w >>> 0
  }

  /** A whole number from 0 to `limit` - 1. */
  below(limit: number): number {
    return Math.floor((this.word() / 0x1_0000_0000) * limit)
  }

  /** From 0 up to 1. */
  share(): number {
    return this.word() / 0x1_0000_0000
  }

  /** True with probability `share` (0 to 1). */
  chance(share: number): boolean {
    return this.word() < share * 0x1_0000_0000
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!
  }

  /** `count` decimal digits as text, leading zeros kept. */
  digits(count: number): string {
    let text = ''
    for (let at = 0; at < count; at += 1) text += String(this.below(10))
    return text
  }
}
