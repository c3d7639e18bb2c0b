/**
 * Names of columns and views, derived from texts that people wrote.
 *
 * Invariant: a name has at most 63 bytes, needs no quotes for a text in Latin letters, is none of `taken`, and is the
 * same for the same text and the same names taken.
 */

/** What Postgres keeps of an identifier, in bytes. */
const MAX_BYTES = 63

/** Letters and digits of any script in lower case, as they are typed; everything else one underscore; without accents. */
export function slugOf(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/[\u0300-\u036f]/g, '')
    .toLowerCase()
    .replace(/ß/g, 'ss')
    .normalize('NFC')
    .replace(/[^\p{L}\p{N}\p{M}]+/gu, '_')
    .replace(/^_+|_+$/g, '')
}

export interface Naming {
  /** Of a text that leaves nothing to make a name of. */
  readonly empty: string
  /** Before a name that would begin with a digit. */
  readonly prefix: string
  readonly taken: ReadonlySet<string>
}

export function nameFor(text: string, { empty, prefix, taken }: Naming): string {
  const slug = slugOf(text) || empty
  const base = cut(/^\p{N}/u.test(slug) ? `${prefix}${slug}` : slug, MAX_BYTES)
  if (!taken.has(base)) return base
  for (let number = 2; ; number++) {
    const suffix = `_${number}`
    const name = `${cut(base, MAX_BYTES - suffix.length)}${suffix}`
    if (!taken.has(name)) return name
  }
}

/** The beginning of `text` that fits, by whole characters, without an underscore at its end. */
function cut(text: string, bytes: number): string {
  let kept = ''
  let length = 0
  for (const character of text) {
    length += Buffer.byteLength(character)
    if (length > bytes) break
    kept += character
  }
  return kept.replace(/_+$/, '')
}
