/** The value of an option that counts something. */
import { InvalidArgumentError } from 'commander'

export function wholeNumber(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('write a whole number from 1')
}
