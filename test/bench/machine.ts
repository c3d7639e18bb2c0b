/**
 * What stands beside a figure: the memory that its process took at most, and how much of the processors others had.
 * Recorded by Linux; elsewhere the peak is that of the process's whole life, and nothing is known of others.
 */
import { readFileSync, writeFileSync } from 'node:fs'

/** Peak resident bytes of a process since its start, or since it was last forgotten; null where nobody tells. */
export function peakOf(pid = process.pid): number | null {
  const [, kibibytes] = /VmHWM:\s+(\d+) kB/.exec(told(`/proc/${pid}/status`)) ?? []
  if (kibibytes !== undefined) return Number(kibibytes) * 1024
  return pid === process.pid ? process.resourceUsage().maxRSS * 1024 : null
}

/** From now on the peak of this process is counted anew. */
export function forgetPeak(): void {
  try {
    writeFileSync('/proc/self/clear_refs', '5')
  } catch {
    // Not Linux, or not allowed: the peak is that of more than was asked for.
  }
}

/** Returns a function that says which share of the processors' time other machines took since; null where nobody tells. */
export function watchStolen(): () => number | null {
  const before = processorTimes()
  return () => {
    const spent = processorTimes().map((each, at) => each - (before[at] ?? 0))
    const all = spent.reduce((sum, each) => sum + each, 0)
    return all === 0 ? null : (spent[STOLEN] ?? 0) / all
  }
}

/** user, nice, system, idle, iowait, irq, softirq, steal. */
const STOLEN = 7

function processorTimes(): readonly number[] {
  const [, times = ''] = /^cpu +([\d ]+)$/m.exec(told('/proc/stat')) ?? []
  return times
    .split(' ')
    .slice(0, STOLEN + 1)
    .map(Number)
}

function told(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
