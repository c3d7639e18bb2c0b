/**
 * Pseudo-random draws and ids, as pure functions of a key and a counter.
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
    for (let index = 0; index < count; index += 1) text += String(this.below(10))
    return text
  }
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** True for any text in the format of a UUID. */
export function isUuid(text: string): boolean {
  return UUID.test(text)
}

/**
 * UUIDs that encode the index of their record, so that a million ids need no map.
 *
 * Invariant: `indexOf(idAt(i)) === i` for every i below 2^32, and `indexOf` is undefined for any text that is not an
 * id of this space, such as ids of another team, environment, seed or kind.
 * The first word is the index under a keyed permutation; the other three repeat it under other keys, as a check.
 */
export class IdSpace {
  readonly #key: Key

  constructor(key: Key) {
    this.#key = key
  }

  idAt(index: number): string {
    const { a, b } = this.#key
    const word1 = mix(Math.imul(index, 0x9e3779b1) ^ b)
    const word2 = mix(word1 ^ a)
    const word3 = mix(word2 + b)
    return format(scramble(index, a, b), word1, word2, word3)
  }

  indexOf(id: string): number | undefined {
    if (!UUID.test(id)) return undefined
    const lower = id.toLowerCase()
    const index = unscramble(Number.parseInt(lower.slice(0, 8), 16), this.#key.a, this.#key.b)
    return this.idAt(index) === lower ? index : undefined
  }

  /** The id that begins with these twelve or more hex digits, without dashes; undefined if there is none. */
  withPrefix(hex: string): string | undefined {
    const id = this.idAt(unscramble(Number.parseInt(hex.slice(0, 8), 16), this.#key.a, this.#key.b))
    return id.replaceAll('-', '').startsWith(hex) ? id : undefined
  }
}

/** A stable, unique UUID without an index: for questions, choices and the like. */
export function stableId(key: Key, major: number, minor: number): string {
  const start = mix(key.a ^ Math.imul(major, 0x85ebca6b)) ^ Math.imul(minor, 0x9e3779b1)
  const word1 = mix(start ^ key.b)
  const word2 = mix(word1 + minor)
  const word3 = mix(word2 ^ major)
  return format(mix(start), word1, word2, word3)
}

/** A Feistel network of four rounds over two 16-bit halves: a permutation of 32-bit words. */
function scramble(word: number, a: number, b: number): number {
  let left = (word >>> 16) & 0xffff
  let right = word & 0xffff
  for (let round = 0; round < 4; round += 1) {
    const next = left ^ (mix(right ^ (round % 2 === 0 ? a : b) ^ (round << 16)) & 0xffff)
    left = right
    right = next
  }
  return ((left << 16) | right) >>> 0
}

function unscramble(word: number, a: number, b: number): number {
  let left = (word >>> 16) & 0xffff
  let right = word & 0xffff
  for (let round = 3; round >= 0; round -= 1) {
    const previous = right ^ (mix(left ^ (round % 2 === 0 ? a : b) ^ (round << 16)) & 0xffff)
    right = left
    left = previous
  }
  return ((left << 16) | right) >>> 0
}

const DIGITS = Buffer.from('0123456789abcdef')
/** Buffer for the next id: a string from bytes is flat, a concatenated one must be flattened later. */
const written = Buffer.alloc(36, '-')

/** Writes `count` hex digits of `word`, from the bit `high` down. */
function put(at: number, word: number, count: number, high: number): void {
  for (let digit = 0; digit < count; digit += 1) {
    written[at + digit] = DIGITS[(word >>> (high - 4 * digit)) & 15]!
  }
}

/** Four words as a UUID of version 4 and the usual variant. */
function format(word0: number, word1: number, word2: number, word3: number): string {
  const second = (word1 & 0xffff0fff) | 0x4000
  const third = (word2 & 0x3fffffff) | 0x80000000
  put(0, word0, 8, 28)
  put(9, second, 4, 28)
  put(14, second, 4, 12)
  put(19, third, 4, 28)
  put(24, third, 4, 12)
  put(28, word3, 8, 28)
  return written.toString('latin1')
}
