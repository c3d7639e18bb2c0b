/**
 * Batch upload of patients (specification, sections 4.1 and 7, which do not show its shape and progress).
 *
 * Invariant: a file that is answered 4xx creates no patient; one that is answered 202 is processed to its end, whatever
 * its rows contain.
 */

import { type Answer, failure, NOT_FOUND } from '../answer.ts'
import { type Call, pathId, type Route } from '../call.ts'
import { readUpload } from './upload-file.ts'
import { type Upload, workUpload } from './upload-work.ts'

async function upload({ world, team, headers, body }: Call): Promise<Answer> {
  const sheet = await readUpload(headers['content-type'], body)
  if (sheet.type === 'wrong-type')
    return failure(400, 'Invalid file type. Only CSV files are allowed.', 'file')
  if (sheet.type === 'invalid') return failure(400, 'Validation error.', 'file')
  const opened = team.uploads.open(sheet.rows.length)
  workUpload(world, opened, sheet)
  return shown(opened, 202)
}

function progress(call: Call): Answer {
  const { uploads } = call.team
  const id = pathId(call, uploads.ids)
  const found = id === undefined ? undefined : uploads.get(id)
  return found === undefined ? failure(404, NOT_FOUND.uploads) : shown(found, 200)
}

function shown(upload: Upload, status: 200 | 202): Answer {
  return { type: 'record', status, resource: 'uploads', record: { ...upload } }
}

export const UPLOAD_ROUTES: readonly Route[] = [
  { path: '/v2/patients/batch-upload', methods: { POST: upload } },
  { path: '/v2/patients/batch-upload/:id', methods: { GET: progress } },
]
