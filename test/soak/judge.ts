/** Faults of a year of nights. Times are plotted, and not judged: they depend on the machine. */
import type { Night, Soak } from './soak.ts'

/** How much more a mean may be than one soon after retention began. */
const GROWTH = 1.2
/** Heaps, free pages and caches vary this much however little there is to store. */
const SLACK_BYTES = 24 * 1024 * 1024
/** The same for a table, and what it may grow besides: tombstones stay. */
const TABLE_GROWTH = 1.5
const TABLE_SLACK_BYTES = 512 * 1024
/** Rows that stay for 400 days: they grow for the whole year. */
const KEPT_FOR_A_YEAR = ['intake_raw.removed_records']
/** Far below the age at which autovacuum freezes tables by force, 200 million. */
const MAX_AGE = 50_000_000

export function judge(
  { nights, differing, neglected, oldestAge, sizes }: Soak,
  retentionDays: number,
): readonly string[] {
  const faults: string[] = []
  if (differing.length > 0) faults.push(`differs from a fresh load: ${differing.join(', ')}`)
  for (const { table, dead, live } of neglected)
    faults.push(`autovacuum left ${dead} dead rows next to ${live} live ones in ${table}`)
  if (oldestAge > MAX_AGE) faults.push(`the oldest row is ${oldestAge} transactions old`)
  for (const { table, before, after } of sizes)
    if (after > before * TABLE_GROWTH + TABLE_SLACK_BYTES && !KEPT_FOR_A_YEAR.includes(table))
      faults.push(`${table} grew from ${before} to ${after} bytes`)
  const retained = nights.slice(retentionDays)
  const part = Math.ceil(retained.length / 3)
  const grown = (what: string, value: (night: Night) => number) => {
    const mean = (some: readonly Night[]) => some.reduce((sum, night) => sum + value(night), 0) / some.length
    const [early, late] = [mean(retained.slice(0, part)), mean(retained.slice(-part))]
    if (late > early * GROWTH + SLACK_BYTES)
      faults.push(`${what} grew from ${Math.round(early)} to ${Math.round(late)} bytes`)
  }
  grown('the database', ({ databaseBytes }) => databaseBytes)
  grown('memory', ({ residentBytes }) => residentBytes)
  return faults
}
