/** How a simulated client handles a statement and its result. */
import type pg from 'pg'
import { from as copyFrom } from 'pg-copy-streams'

export type Query = string | { readonly text: string; readonly name?: string; readonly values?: unknown[] }

/** The text of a statement, and its name in the trace. */
export function textOf(query: Query): { text: string; label: string } {
  if (typeof query === 'string') return { text: query, label: shortOf(query) }
  return { text: query.text, label: query.name ?? shortOf(query.text) }
}

/** COPY of these lines. */
export async function send(client: pg.Client, text: string, lines: Buffer): Promise<void> {
  const stream = client.query(copyFrom(text))
  await new Promise<void>((resolve, reject) => {
    stream.once('error', reject)
    stream.once('finish', resolve)
    stream.end(lines)
  })
}

/** Rows without a defined order are sorted, so that it does not depend on their place. */
export function sortRows(result: unknown): void {
  const { rows } = (result ?? {}) as { rows?: unknown[] }
  if (rows === undefined || rows.length < 2) return
  // Numbers of slices go on from seed to seed: 9 is before 10.
  const padded = (text: string) => text.replaceAll(/\d+/g, (digits) => digits.padStart(20, '0'))
  const isNumbered = typeof rows[0] === 'object' && rows[0] !== null && 'slice_id' in rows[0]
  const texts = new Map(
    rows.map((row) => [row, isNumbered ? padded(JSON.stringify(row)) : JSON.stringify(row)]),
  )
  rows.sort((a, b) => (texts.get(a)! < texts.get(b)! ? -1 : 1))
}

/** True if it is over, or will be in a moment. */
export async function settled(work: Promise<unknown>): Promise<boolean> {
  const open = Symbol('open')
  const pause = new Promise((resolve) => setTimeout(() => resolve(open), 3))
  return (await Promise.race([work, pause])) !== open
}

/** Milliseconds of a setting, such as `-c lock_timeout=10000`. */
export function msOf(setting: string): number {
  return Number(/\d+/.exec(setting)![0])
}

export function shortOf(text: string): string {
  return text.trim().replaceAll(/\s+/g, ' ').slice(0, 60)
}
