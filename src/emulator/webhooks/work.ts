/**
 * Counts the pending deliveries of a team.
 *
 * Invariant: `idle` resolves only when nothing is queued, delayed or in flight; scheduled retries do not count.
 */
export class Work {
  #pending = 0
  #waiting: (() => void)[] = []

  get pending(): number {
    return this.#pending
  }

  begin(): void {
    this.#pending += 1
  }

  end(): void {
    this.#pending -= 1
    if (this.#pending > 0) return
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  async idle(): Promise<void> {
    while (this.#pending > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }
}
