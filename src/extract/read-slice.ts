/** A slice read in the way that its stream says. */
import type { Session } from '../warehouse/connect.ts'
import { readExports } from './exports/read-exports.ts'
import { readList } from './read-list.ts'
import { readWindows } from './read-windows.ts'
import type { SliceNote, SliceOptions } from './slice-note.ts'
import type { Source } from './source.ts'

export function readSlice(source: Source, session: Session, options: SliceOptions): Promise<SliceNote> {
  const { reading } = source.stream
  if (reading?.kind === 'windows') return readWindows(source, session, options, reading)
  if (reading?.kind === 'exports') return readExports(source, session, options)
  return readList(source, session, options)
}
