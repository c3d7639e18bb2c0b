/**
 * Times of the requests that the service counted or may have counted: the content of its sliding window.
 *
 * Invariant: instants ascend. A ring that grows as needed keeps at most the newest `CAPACITY` of them.
 */

const CAPACITY = 1 << 17

export class Sends {
  #ring = new Float64Array(256)
  #first = 0
  #size = 0
  /** Instant before which sends may have been forgotten. */
  forgottenUpTo = Number.NEGATIVE_INFINITY

  get size(): number {
    return this.#size
  }

  /** The n-th newest, from 1; undefined when there are fewer. */
  newest(n: number): number | undefined {
    return n < 1 || n > this.#size ? undefined : this.#at(this.#size - n)
  }

  add(instant: number): void {
    if (this.#size === CAPACITY) this.#forgetOldest()
    if (this.#size === this.#ring.length) this.#grow()
    const sentAt = this.#size > 0 ? Math.max(instant, this.#at(this.#size - 1)) : instant
    this.#ring[(this.#first + this.#size) % this.#ring.length] = sentAt
    this.#size += 1
  }

  /** Removes a send that the service did not count. */
  remove(instant: number): void {
    const index = this.#firstAfter(instant) - 1
    if (index < 0) return
    for (let position = index; position < this.#size - 1; position++) {
      this.#ring[(this.#first + position) % this.#ring.length] = this.#at(position + 1)
    }
    this.#size -= 1
  }

  /** Moves a send, and any later ones that it would overtake, to a later instant. */
  postpone(instant: number, to: number): void {
    for (let index = this.#firstAfter(instant) - 1; index >= 0 && index < this.#size; index++) {
      if (this.#at(index) >= to) return
      this.#ring[(this.#first + index) % this.#ring.length] = to
    }
  }

  /** The number of sends in (from, to]. */
  between(from: number, to: number): number {
    return Math.max(0, this.#firstAfter(to) - this.#firstAfter(from))
  }

  forgetUpTo(instant: number): void {
    while (this.#size > 0 && this.#at(0) <= instant) this.#forgetOldest()
  }

  #forgetOldest(): void {
    this.forgottenUpTo = this.#at(0)
    this.#first = (this.#first + 1) % this.#ring.length
    this.#size -= 1
  }

  #at(index: number): number {
    return this.#ring[(this.#first + index) % this.#ring.length]!
  }

  /** Index of the first instant after `instant`; the size when there is none. */
  #firstAfter(instant: number): number {
    let low = 0
    let high = this.#size
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#at(middle) <= instant) low = middle + 1
      else high = middle
    }
    return low
  }

  #grow(): void {
    const ring = new Float64Array(this.#ring.length * 2)
    for (let index = 0; index < this.#size; index++) ring[index] = this.#at(index)
    this.#ring = ring
    this.#first = 0
  }
}
