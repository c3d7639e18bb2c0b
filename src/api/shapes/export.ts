/** An entry of the list of exports, and an export as JSON (specification, sections 2.5 and 4.5; neither is shown). */
import { z } from 'zod'
import { Id, identified, Optional, Reference } from './record.ts'

export const Export = z.looseObject({
  ...identified,
  name: Optional,
  form: Reference,
  form_id: Id.nullish(),
  form_name: Optional,
  created_at: Optional,
})

export type Export = z.infer<typeof Export>

/** One client's row, keyed by column title: of columns with the same title, one only is there. */
const Row = z.record(z.string(), z.unknown())

/** What `type=json` may answer. Titles repeat, so only `raw_text` and `download_file` surely hold every column. */
export const ExportContent = z.union([
  z.array(Row),
  z.looseObject({ headers: z.array(z.string()), rows: z.array(z.union([Row, z.array(z.unknown())])) }),
  z.looseObject({ data: z.array(Row) }),
])

export type ExportContent = z.infer<typeof ExportContent>
