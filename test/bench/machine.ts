/**
 * Measurements of the machine for each figure: the peak memory of its process, and the share of CPU that others used.
 * From Linux; elsewhere the peak is that of the whole process life, and the share of others is unknown.
 */
import { readFileSync, writeFileSync } from 'node:fs'

/** Peak resident bytes of a process since its start, or since the last reset; null if unknown. */
export function peakOf(pid = process.pid): number | null {
  const [, kibibytes] = /VmHWM:\s+(\d+) kB/.exec(contentOf(`/proc/${pid}/status`)) ?? []
  if (kibibytes !== undefined) return Number(kibibytes) * 1024
  return pid === process.pid ? process.resourceUsage().maxRSS * 1024 : null
}

/** Resets the peak of this process. */
export function forgetPeak(): void {
  try {
    writeFileSync('/proc/self/clear_refs', '5')
  } catch {
    // Not Linux, or not allowed: the peak covers a longer time.
  }
}

/** Returns a function that returns the share of CPU time that other machines took since; null if unknown. */
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
  const [, times = ''] = /^cpu +([\d ]+)$/m.exec(contentOf('/proc/stat')) ?? []
  return times
    .split(' ')
    .slice(0, STOLEN + 1)
    .map(Number)
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
