/**
 * Responses (specification, section 4.4): list with filters, and one by id. Exports (section 4.5): the list, and one
 * export in one of three formats.
 *
 * Invariant: every row of a filtered list satisfies every filter. Days are whole days in UTC, bounds are inclusive, a
 * date filter excludes unsubmitted responses, and an unknown id gives an empty list. Each existing form has
 * exactly one export, whose id differs from every form's.
 */
import { readStamp } from '../../clock.ts'
import type { Shape } from '../../shapes/shape.ts'
import { isUuid } from '../../world/draw.ts'
import { findResponses, type ResponseFilter } from '../../world/find-responses.ts'
import type { Form, Response } from '../../world/records.ts'
import type { Listing } from '../../world/table.ts'
import type { World } from '../../world/world.ts'
import {
  type Answer,
  EXPORT_FORMATS,
  type ExportAnswer,
  failure,
  type JsonRecord,
  NOT_FOUND,
} from '../answer.ts'
import { type Call, pathId, type Route, showingOf } from '../call.ts'
import { listPage } from '../paging.ts'
import { exportOf } from './export-rows.ts'
import { readObject, refused } from './messages.ts'
import { isDate } from './patient-body.ts'
import { showResponse } from './show.ts'

const REFERENCES = ['patient', 'form', 'packet'] as const
const DATES = ['submitted_on', 'submitted_after', 'submitted_before'] as const
const NONE: Listing<Response> = { size: 0, slice: () => [], scan: () => ({ rows: [], next: null }) }
const HOUR = 3_600_000_000
const DAY = 24 * HOUR
/** The years 0 and 9999: bounds that exclude nothing. */
const EARLIEST = -62_167_219_200_000_000
const LATEST = 253_402_300_800_000_000

async function list(call: Call): Promise<Answer> {
  const read = readFilter(call)
  if (read !== 'nobody' && 'type' in read) return read
  const { world } = call
  const everything = read !== 'nobody' && Object.keys(read).length === 0
  const listing = everything ? world.responses : read === 'nobody' ? NONE : await findResponses(world, read)
  const showing = showingOf(call)
  return listPage(call, 'responses', listing, [...REFERENCES, ...DATES], (one) => showResponse(one, showing))
}

/** The filter; `nobody` if an id is unknown to this team; or the failure to answer. */
function readFilter({
  query,
  shape,
  world,
}: Call): ResponseFilter | 'nobody' | Extract<Answer, { type: 'failure' }> {
  const filter: { -readonly [K in keyof ResponseFilter]: ResponseFilter[K] } = {}
  const dates = DATES.flatMap((name) => (query.has(name) ? [[name, query.get(name) ?? ''] as const] : []))
  for (const [name, text] of dates) {
    const day = dayOf(text)
    if (day === undefined) return failure(400, 'Validation error.', name)
    const [from, before] = boundsOf(name, day, shape)
    filter.submittedFrom = Math.max(from, filter.submittedFrom ?? from)
    filter.submittedBefore = Math.min(before, filter.submittedBefore ?? before)
  }
  for (const name of REFERENCES) {
    const text = query.get(name)
    if (text === null) continue
    const table = { patient: world.patients, form: world.forms, packet: world.packets }[name]
    const id = shape.id(text, table.ids)
    // A deleted patient matches no responses; a deleted form still does.
    if (id === undefined || (name === 'patient' && table.get(id) === undefined)) return 'nobody'
    filter[name] = id.toLowerCase()
  }
  return filter
}

/** The range of submission times, start inclusive and end exclusive, that a date filter accepts. */
function boundsOf(name: (typeof DATES)[number], day: number, shape: Shape): readonly [number, number] {
  const start = shape.has('bounds-zone') ? day + 8 * HOUR : day
  if (name === 'submitted_on') return [start, start + DAY]
  const exclusive = shape.has('bounds-exclusive')
  if (name === 'submitted_after') return [exclusive ? start + DAY : start, LATEST]
  return [EARLIEST, exclusive ? start : start + DAY]
}

/** Midnight UTC of a day, or of the day of a time, in microseconds. */
function dayOf(text: string): number | undefined {
  if (text.length > 10) {
    const time = readStamp(text)
    return time === undefined ? undefined : Math.floor(time / DAY) * DAY
  }
  return isDate(text) ? Date.parse(text) * 1000 : undefined
}

function retrieve(call: Call): Answer {
  const id = pathId(call, call.world.responses.ids)
  const response = id === undefined ? undefined : call.world.responses.get(id)
  if (response === undefined) return failure(404, NOT_FOUND.responses)
  return {
    type: 'record',
    status: 200,
    resource: 'responses',
    record: showResponse(response, showingOf(call)),
  }
}

export const RESPONSE_ROUTES: readonly Route[] = [
  { path: '/v2/responses', methods: { GET: list } },
  { path: '/v2/responses/:id', methods: { GET: retrieve } },
]

function listExports(call: Call): Answer {
  const { world } = call
  return listPage(call, 'exports', world.forms, [], (form) => showExport(form, world))
}

function showExport({ id, name, created_at }: Form, { forms, seed }: World): JsonRecord {
  const index = forms.ids.indexOf(id)!
  return { id: seed.exportIds.idAt(index), name: nameOf(name), form: { id, name }, created_at }
}

const nameOf = (form: string) => `${form} export`

function runExport({ body, query, shape, world, version }: Call): Answer {
  const { forms, seed } = world
  const format = formatOf(query.get('type') ?? 'json')
  if (format === undefined) return refused('type')
  const given = readObject(body)?.id
  const text = typeof given === 'string' || typeof given === 'number' ? String(given) : ''
  const id = shape.id(text, seed.exportIds)
  // In shapes with numeric ids an unknown id is not a UUID either.
  if (id === undefined ? !/^\d+$/.test(text) : !isUuid(id)) return refused('id')
  const index = id === undefined ? undefined : seed.exportIds.indexOf(id)
  const form = index === undefined ? undefined : forms.at(index)
  if (form === undefined) return failure(404, NOT_FOUND.exports)
  const table = exportOf(world, form, version === 'v2.1' ? 'flat' : 'legacy', shape.idText)
  return { type: 'export', format, name: nameOf(form.name), table }
}

function formatOf(text: string): ExportAnswer['format'] | undefined {
  return EXPORT_FORMATS.find((one) => one === text)
}

export const EXPORT_ROUTES: readonly Route[] = [
  { path: '/v2/export-csv', methods: { GET: listExports, POST: runExport } },
]
