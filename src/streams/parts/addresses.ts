/**
 * Addresses and images in texts: telling them, and cutting from an address what lets its holder in.
 *
 * Invariant: a text that is neither, or holds one among other words, is left as it is.
 */

/** Stands where the bytes of an image or a file stood. */
export const REMOVED_VALUE = '(not kept)'

/** The address up to its query string or fragment. */
export function withoutQuery(address: string): string {
  const end = address.search(/[?#]/)
  return end === -1 ? address : address.slice(0, end)
}

/** True for a text that begins as an absolute address does. */
export function beginsAsAddress(text: string): boolean {
  return /^\s*(?:[a-z][a-z0-9+.-]{0,20}:)?\/\//i.test(text)
}

/** True for a text that is one absolute address and nothing else. */
function isAddress(text: string): boolean {
  return beginsAsAddress(text) && !/\S\s+\S/.test(text)
}

/** True for bytes written as text: a `data:` address. */
export function isInlineData(text: string): boolean {
  return /^\s*data:[^,\s]{0,200},/i.test(text)
}

/** True for a text that is one image, written as a `data:` address, and nothing else. */
export function isInlineImage(text: string): boolean {
  return /^\s*data:image\/[a-z0-9.+-]{1,50}(?:;[^,\s]{0,200})?,\S*\s*$/i.test(text)
}

/** Names under which object stores carry a signature: theirs, and `signature` itself. */
const SIGNATURE = /[?&#](?:amp;)?(?:x-[a-z]+-)?(?:signature|sig)=/i

/** True for an address that lets in whoever holds it. */
export function isSigned(address: string): boolean {
  return SIGNATURE.test(address) && isAddress(address)
}
