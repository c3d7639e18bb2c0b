/** One line of the benchmark's table. Invariant: a figure has a floor that was measured in the same run. */
export interface BenchRow {
  readonly what: string
  readonly figure: number
  readonly unit: string
  /** The floor or peer. */
  readonly floorIs: string
  readonly floor: number
  /** figure ÷ floor, in the sense of the aim. */
  readonly ratio: number
  readonly aim: string
  readonly met: boolean
  /** Of the measured process, if it is not the benchmark's own; null if only Postgres works. */
  readonly peakBytes?: number | null
  readonly notes?: string
  /** Its place in the plot of how figures grow with the number of records. */
  readonly plotted?: {
    readonly panel: string
    readonly line: string
    readonly records: number
    readonly few: number
  }
}

export async function timed<Result>(
  work: () => Promise<Result>,
): Promise<{ readonly seconds: number; readonly result: Result }> {
  const begun = performance.now()
  const result = await work()
  return { seconds: (performance.now() - begun) / 1000, result }
}

/** Runs `sample` several times and keeps the median: one busy moment must not decide a figure. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[sorted.length >> 1] ?? 0
}
