/**
 * Patients and their batch upload (specification, sections 4.1 and 7, which do not show an upload's shape and progress).
 *
 * Invariant: PUT clears missing fields, PATCH replaces each given field as a whole; a request that is answered 4xx
 * changes nothing. An upload that is answered 202 is processed to its end, whatever its rows contain.
 */
import { filtered } from '../../world/find-responses.ts'
import type { Patient } from '../../world/records.ts'
import type { Listing } from '../../world/table.ts'
import { type Answer, failure, NOT_FOUND } from '../answer.ts'
import { type Call, pathId, type Route } from '../call.ts'
import { listPage } from '../paging.ts'
import { NO_FIELDS, type PatientFields, readPatientFields } from './patient-body.ts'
import { showPatient } from './show.ts'
import { readUpload } from './upload-file.ts'
import { type Upload, workUpload } from './upload-work.ts'

const EXACT = ['email', 'first_name', 'last_name', 'phone_number', 'external_id'] as const
const SEARCHED = ['first_name', 'last_name', 'email', 'phone_number', 'external_id'] as const

async function list(call: Call): Promise<Answer> {
  return listPage(call, 'patients', await matching(call), ['search', ...EXACT], showPatient)
}

async function matching({ world, query }: Call): Promise<Listing<Patient>> {
  const exact = EXACT.flatMap((name) => (query.has(name) ? [{ name, text: query.get(name) }] : []))
  const search = (query.get('search') ?? '').toLowerCase()
  if (exact.length === 0 && search === '') return world.patients
  return filtered(
    world.patients,
    (patient) =>
      exact.every(({ name, text }) => patient[name] === text) && (search === '' || isFound(patient, search)),
  )
}

/** In one of the fields, or in the name as a whole. */
function isFound(patient: Patient, search: string): boolean {
  const name = `${patient.first_name} ${patient.last_name}`
  return [name, ...SEARCHED.map((field) => patient[field])].some((text) =>
    text?.toLowerCase().includes(search),
  )
}

function create(call: Call): Answer {
  const read = readBody(call)
  if ('type' in read) return read
  const fault = missingName(read)
  if (fault !== undefined) return failure(400, 'Validation error.', fault)
  const now = call.world.now()
  const patient = call.world.patients.create((id) => ({
    id,
    ...NO_FIELDS,
    ...read,
    created_at: now,
    updated_at: now,
  }))
  return { type: 'record', status: 201, resource: 'patients', record: showPatient(patient) }
}

function change(call: Call, full: boolean): Answer {
  const id = pathId(call, call.world.patients.ids)
  if (id === undefined || call.world.patients.get(id) === undefined) return failure(404, NOT_FOUND.patients)
  const read = readBody(call)
  if ('type' in read) return read
  const fault = full ? missingName(read) : undefined
  if (fault !== undefined) return failure(400, 'Validation error.', fault)
  const cleared = full ? NO_FIELDS : {}
  const patient = call.world.patients.update(id, (old) => ({
    ...old,
    ...cleared,
    ...read,
    updated_at: call.world.now(),
  }))
  if (patient === undefined) return failure(404, NOT_FOUND.patients)
  return { type: 'record', status: 200, resource: 'patients', record: showPatient(patient) }
}

function readBody(call: Call): Partial<PatientFields> | ReturnType<typeof failure> {
  let body: unknown
  try {
    body = JSON.parse(call.body.toString('utf8'))
  } catch {
    return failure(400, 'Validation error.')
  }
  const read = readPatientFields(body)
  return 'fault' in read ? failure(400, 'Validation error.', read.fault) : read.fields
}

function missingName(fields: Partial<PatientFields>): string | undefined {
  if (fields.first_name === undefined) return 'first_name'
  return fields.last_name === undefined ? 'last_name' : undefined
}

export const PATIENT_ROUTES: readonly Route[] = [
  { path: '/v2/patients', methods: { GET: list, POST: create } },
  {
    path: '/v2/patients/:id',
    methods: {
      GET: (call) => {
        const id = pathId(call, call.world.patients.ids)
        const patient = id === undefined ? undefined : call.world.patients.get(id)
        if (patient === undefined) return failure(404, NOT_FOUND.patients)
        return { type: 'record', status: 200, resource: 'patients', record: showPatient(patient) }
      },
      PUT: (call) => change(call, true),
      PATCH: (call) => change(call, false),
      DELETE: (call) => {
        const id = pathId(call, call.world.patients.ids)
        const gone = id === undefined ? undefined : call.world.patients.remove(id)
        return gone === undefined ? failure(404, NOT_FOUND.patients) : { type: 'empty', status: 204 }
      },
    },
  },
]

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
