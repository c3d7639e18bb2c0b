/**
 * A file that cannot be read. Invariant: the message names the fault and its line, and shows no part of the file.
 */
import { IntakeError } from '../../core/errors.ts'

export class MalformedFile extends IntakeError {
  /** `line` counts from 1, lines within quoted cells included. */
  constructor(what: string, line: number) {
    super(`the file is malformed: ${what}, line ${line}`, { code: 'malformed_file', verdict: 'dead_letter' })
    this.name = 'MalformedFile'
  }
}
