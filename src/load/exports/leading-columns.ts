/**
 * The first seven columns of every export (specification, section 4.5), read by position.
 *
 * Invariant: a cell that does not fit its column gives null and a problem. Times have no zone: Postgres reads them in the
 * zone of the session, which is set to the team's.
 */
import { parseInstant } from '../../core/time.ts'
import type { Cell } from '../../streams/parts/cell.ts'

export interface LeadingColumn {
  readonly name: string
  readonly title: string
  /** Undefined if the text, which is not empty, cannot be read. */
  readonly read: (text: string) => Cell | undefined
  /** Reason of the problem in that case. */
  readonly unless: string
}

export const LEADING_COLUMNS: readonly LeadingColumn[] = [
  text('client_id', 'Client ID'),
  text('first_name', 'First Name'),
  text('last_name', 'Last Name'),
  text('email', 'Email'),
  time('sent_at', 'Sent at'),
  time('completed_at', 'Completed at'),
  {
    name: 'archived',
    title: 'Archived',
    read: (cell) => ARCHIVED[cell.trim().toLowerCase()],
    unless: 'not True or False',
  },
]

const ARCHIVED: Readonly<Record<string, Cell>> = Object.assign(Object.create(null), { true: 't', false: 'f' })

function text(name: string, title: string): LeadingColumn {
  return { name, title, read: (cell) => cell, unless: '' }
}

function time(name: string, title: string): LeadingColumn {
  return { name, title, read: readTime, unless: 'not a time (YYYY-MM-DD HH:MM:SS.ffffff)' }
}

const ZONED = /[T ].*(?:[Zz]|[+-]\d\d(?::?\d\d)?)$/

/** A time with a zone, which the specification does not have, is read as that instant. */
function readTime(cell: string): Cell | undefined {
  const trimmed = cell.trim()
  const instant = parseInstant(trimmed)
  if (instant === null) return undefined
  if (ZONED.test(trimmed)) return instant
  return instant.slice(0, -1).replace('T', ' ')
}

/** True when the header's titles are those of the specification, whatever their case and blanks. */
export function areLeadingTitles(titles: readonly string[]): boolean {
  const plain = (title: string) => title.replace(/\s+/g, '').toLowerCase()
  return LEADING_COLUMNS.every(({ title }, at) => plain(titles[at] ?? '') === plain(title))
}
