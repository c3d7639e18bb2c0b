/**
 * Instants of the service's clock as text, because a JavaScript `Date` drops microseconds (law 2).
 *
 * Invariant: an `Instant` is always `YYYY-MM-DDTHH:MM:SS.ffffffZ`, so comparing two as strings compares them in time.
 */
export type Instant = string & { readonly __brand: 'Instant' }

const ISO_TIME =
  /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d+))?)?\s?(Z|z|[+-]\d{2}(?::?\d{2})?)?)?$/

const ISO_DATE = /^(\d{4})-(\d{2})-(\d{2})$/

/** Reads an ISO 8601 date or time; one without a zone is UTC. Null for any other text, and for a day that does not exist. */
export function parseInstant(text: string): Instant | null {
  const part = ISO_TIME.exec(text)
  if (part === null || !isRealDay(Number(part[1]), Number(part[2]), Number(part[3]))) return null
  const hour = Number(part[4] ?? 0)
  const minute = Number(part[5] ?? 0)
  const second = Number(part[6] ?? 0)
  if (hour > 23 || minute > 59 || second > 60) return null
  const zone = zoneMinutes(part[8])
  if (zone === null) return null
  const fraction = (part[7] ?? '').padEnd(6, '0').slice(0, 6)
  if (zone === 0 && second < 60) {
    return `${part[1]}-${part[2]}-${part[3]}T${two(hour)}:${two(minute)}:${two(second)}.${fraction}Z` as Instant
  }
  const milliseconds = utc(Number(part[1]), Number(part[2]), Number(part[3]), hour, minute - zone, second)
  const date = new Date(milliseconds)
  if (date.getUTCFullYear() < 1 || date.getUTCFullYear() > 9999) return null
  return `${date.toISOString().slice(0, 19)}.${fraction}Z` as Instant
}

/** Reads an ISO date, `YYYY-MM-DD`; null for any other text, and for a day that does not exist. */
export function parseDate(text: string): string | null {
  const part = ISO_DATE.exec(text)
  return part !== null && isRealDay(Number(part[1]), Number(part[2]), Number(part[3])) ? text : null
}

/** The instant `micros` microseconds after 1970. */
export function instantOf(micros: number): Instant {
  const whole = Math.floor(micros / 1_000_000)
  const fraction = String(Math.floor(micros - whole * 1_000_000)).padStart(6, '0')
  return `${new Date(whole * 1000).toISOString().slice(0, 19)}.${fraction}Z` as Instant
}

/** Microseconds after 1970 of an instant. */
export function microsOf(instant: Instant): number {
  return Date.parse(`${instant.slice(0, 19)}Z`) * 1000 + Number(instant.slice(20, 26))
}

export function laterOf(a: Instant, b: Instant): Instant {
  return a < b ? b : a
}

function isRealDay(year: number, month: number, day: number): boolean {
  if (year < 1 || month < 1 || month > 12 || day < 1) return false
  return (
    day <=
    (month === 2
      ? isLeap(year)
        ? 29
        : 28
      : month === 4 || month === 6 || month === 9 || month === 11
        ? 30
        : 31)
  )
}

function isLeap(year: number): boolean {
  return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0
}

/** `Date.UTC` reads the years 0 to 99 as 1900 to 1999; this does not. */
function utc(year: number, month: number, day: number, hour: number, minute: number, second: number): number {
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  return date.setUTCHours(hour, minute, second)
}

/** Minutes east of UTC; null for a zone that does not exist. */
function zoneMinutes(zone: string | undefined): number | null {
  if (zone === undefined || zone === 'Z' || zone === 'z') return 0
  const hours = Number(zone.slice(1, 3))
  const minutes = Number(zone.slice(3).replace(':', '') || 0)
  if (hours > 15 || minutes > 59) return null
  return (zone[0] === '-' ? -1 : 1) * (hours * 60 + minutes)
}

function two(value: number): string {
  return value < 10 ? `0${value}` : String(value)
}
