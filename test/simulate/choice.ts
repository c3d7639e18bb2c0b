/** The random choices of a seed. Invariant: the same seed and the same questions give the same answers (mulberry32). */
export interface Choice {
  /** From 0 up to 1. */
  share(): number
  /** A whole number from 0 to `limit` - 1. */
  below(limit: number): number
  chance(probability: number): boolean
  one<T>(among: readonly T[]): T
}

export function openChoice(seed: number): Choice {
  let state = seed >>> 0
  const share = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number) => Math.floor(share() * limit)
  return {
    share,
    below,
    chance: (probability) => share() < probability,
    one: (among) => among[below(among.length)]!,
  }
}
