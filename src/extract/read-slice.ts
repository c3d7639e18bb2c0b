/** Reads a slice by its stream's way of reading: whole list, date windows or exports. */
import { instantOf } from '../core/time.ts'
import type { Session } from '../warehouse/connect.ts'
import { readCheckpoint } from './checkpoint.ts'
import { laterNote } from './conflicts/ask-later.ts'
import { fetchDue } from './conflicts/fetch-due.ts'
import { readExports } from './exports/read-exports.ts'
import { readList } from './read-list.ts'
import { readWindows } from './scan/read-windows.ts'
import { everythingNote, joined, type SliceNote, type SliceOptions } from './slice-note.ts'
import type { Source } from './source.ts'

export async function readSlice(source: Source, session: Session, options: SliceOptions): Promise<SliceNote> {
  const note = await readByItsWay(source, session, options)
  // After the list: a failure here leaves the records that were read.
  if (!options.dry && source.stream.one !== null) await fetchDue(source)
  const later = laterNote(source)
  return later.text === null ? note : joined(note, later)
}

async function readByItsWay(source: Source, session: Session, options: SliceOptions): Promise<SliceNote> {
  const { reading } = source.stream
  if (reading?.kind === 'windows') return readWindows(source, session, options, reading)
  // Whole lists are read whatever the checkpoint is; an invalid one is reported and replaced all the same.
  const checkpoint = readCheckpoint(source.taken.cursor, instantOf(source.clock.now()))
  const note = await (reading?.kind === 'exports' ? readExports : readList)(source, session, options)
  return checkpoint.kind === 'good' ? note : joined(everythingNote(checkpoint.reason), note)
}
