/**
 * The pages of a list that an earlier scan read before it ended early, and whether the next scan may leave them out.
 *
 * Invariant: they count as read only if the first page of the list and the last of them are as they were, with the same
 * count of the list: then nothing has moved across the place where the earlier scan ended.
 */
import type { Arrival, KeptPages, PageFacts } from './page.ts'

export class Resumption {
  readonly #kept: KeptPages
  readonly #taken = new Set<number>()
  #seam: number | null = null
  #resumed: boolean | null = null

  constructor(kept: KeptPages) {
    this.#kept = kept
  }

  /** Number of the last kept page while its answer decides; no other is requested then. */
  get seam(): number | null {
    return this.#seam
  }

  /** Whether the kept pages count as read; null until that is known. */
  get resumed(): boolean | null {
    return this.#resumed
  }

  /** True for a page that is not to be requested in its turn: it is kept, or was requested before. */
  isTaken(number: number): boolean {
    return this.#taken.has(number)
  }

  /** Returns false if the page was taken before. */
  take(number: number): boolean {
    if (this.#taken.has(number)) return false
    this.#taken.add(number)
    return true
  }

  meet(first: PageFacts, pages: number): void {
    let last = 0
    // Not `Math.max(...)`: a list may have more pages than a call can have arguments.
    for (const number of this.#kept.pages.keys()) last = Math.max(last, number)
    if (isSame(first, this.#kept.first) && last > 1 && last <= pages) this.#seam = last
  }

  firstJudged(): void {
    if (this.#seam === null) this.#resumed = false
  }

  /** The pages that are known once the last kept one has arrived: if it is as it was, the other kept ones too. */
  decide(arrival: Arrival): readonly Arrival[] {
    const { pages } = this.#kept
    this.#seam = null
    this.#resumed = arrival.kind === 'page' && isSame(arrival, pages.get(arrival.number)!)
    if (!this.#resumed) return [arrival]
    const others = [...pages.values()].filter(({ number }) => number !== 1 && number !== arrival.number)
    for (const { number } of others) this.#taken.add(number)
    return [arrival, ...others]
  }
}

function isSame(a: PageFacts, b: PageFacts): boolean {
  return a.count === b.count && a.records === b.records && a.fingerprint === b.fingerprint
}
