/** Seeds that once found something, and what: it stays found. */
export interface Regression {
  readonly seed: number
  readonly found: string
}

export const REGRESSIONS: readonly Regression[] = [
  {
    seed: 146,
    found:
      'a deletion that an answer of 404 had proved was undone by an event of just before, and nobody asked again',
  },
  {
    seed: 864,
    found:
      'the last run was refused, rightly: the server had yet to notice that the one before it was ended (the simulation)',
  },
  {
    seed: 2207,
    found:
      'a response came back to a state that an event had told, by a change of its patient that no event told (the simulation)',
  },
]
