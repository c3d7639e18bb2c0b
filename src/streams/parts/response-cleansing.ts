/**
 * Removes the parts of a response that no table may contain: the signed part of addresses, and bytes of images and files.
 *
 * Invariant: in a file or signature, every address loses its query string and all bytes become `(not kept)`; elsewhere
 * only a text that is entirely a signed address or an image is changed. Texts that people wrote stay, including
 * addresses with a query. A value with nothing to remove is returned itself, not a copy.
 */
import { isLosslessNumber, TOO_DEEP } from '../../core/json.ts'
import {
  beginsAsAddress,
  FILE_FIELDS,
  isInlineData,
  isInlineImage,
  isSigned,
  REMOVED_VALUE,
  SIGNATURE_FIELDS,
  withoutQuery,
} from './response-parts.ts'

/** Fields that contain a file or an image. */
const PARTS: ReadonlySet<string> = new Set([...FILE_FIELDS, ...SIGNATURE_FIELDS])

/** Fields of a file or signature with its address or its bytes. */
const ADDRESS = /(?:^|_)(?:url|uri|href|link|src)$/i
const BYTES = /(?:^|_)(?:image|data|content|contents|bytes|body|base64|blob|thumbnail|svg|png)$/i

/** Longer than any name, with characters of base64 only. Linear: no blank can be matched in two ways. */
const ENCODED = /^[A-Za-z0-9+/_\-\s]{200,}(?:={1,2}\s*)?$/

/** A record with more levels is refused; in its dead letter, `TOO_DEEP` replaces what is deeper. */
const DEEPEST = 500

export function cleansedResponse(input: unknown): unknown {
  return cleansed(input, '', false, 0)
}

/** `name` is the field that contains the value or its list. */
function cleansed(value: unknown, name: string, inPart: boolean, depth: number): unknown {
  if (typeof value === 'string') return inPart ? partText(value, name) : otherText(value)
  if (typeof value !== 'object' || value === null || isLosslessNumber(value)) return value
  if (depth > DEEPEST) return TOO_DEEP
  return Array.isArray(value)
    ? cleansedList(value, name, inPart, depth)
    : cleansedFields(value, inPart, depth)
}

function cleansedList(list: readonly unknown[], name: string, inPart: boolean, depth: number): unknown {
  let copy: unknown[] | null = null
  for (let index = 0; index < list.length; index++) {
    const item = cleansed(list[index], name, inPart, depth + 1)
    if (item === list[index]) continue
    copy ??= list.slice()
    copy[index] = item
  }
  return copy ?? list
}

function cleansedFields(record: object, inPart: boolean, depth: number): unknown {
  let changed: Map<string, unknown> | null = null
  for (const name in record) {
    const value = (record as Record<string, unknown>)[name]
    const item = cleansed(value, name, inPart || PARTS.has(name), depth + 1)
    if (item === value) continue
    changed ??= new Map()
    changed.set(name, item)
  }
  if (changed === null) return record
  // By entries, because a field may be named `__proto__`.
  return Object.fromEntries(
    Object.entries(record).map(([name, value]) => [name, changed.has(name) ? changed.get(name) : value]),
  )
}

function partText(text: string, name: string): string {
  if (text === '' || text === REMOVED_VALUE) return text
  if (isInlineData(text)) return REMOVED_VALUE
  if (ADDRESS.test(name) || beginsAsAddress(text)) return withoutQuery(text)
  return BYTES.test(name) || ENCODED.test(text) ? REMOVED_VALUE : text
}

/** Start of a text that may be an address or an image; most texts do not match. */
const MAY_BE = /^\s*(?:https?:|\/\/|data:image)/i

/** Quick test by the first character: true for nearly every text. */
function beginsOtherwise(text: string): boolean {
  const first = text.charCodeAt(0)
  return first > 0x2f && first < 0x7f && first !== 0x48 && first !== 0x68 && first !== 0x44 && first !== 0x64
}

function otherText(text: string): string {
  if (beginsOtherwise(text) || !MAY_BE.test(text)) return text
  if (isInlineImage(text)) return REMOVED_VALUE
  return isSigned(text) ? withoutQuery(text) : text
}
