/**
 * Generates a patient from a key and an index.
 *
 * Invariant: the same arguments give the same record; every optional part is missing, empty, partial and full in some
 * of the records, and `updated_at` is never before `created_at`.
 */
import { stamp } from '../../clock.ts'
import { Draw, type IdSpace, type Key, stableId } from '../draw.ts'
import type { EmergencyContact, Patient, Tag } from '../records.ts'
import {
  CUSTOM_FIELDS,
  FIRST_NAMES,
  LAST_NAMES,
  PLACES,
  RELATIONSHIPS,
  SECOND_LINES,
  SEXES,
  STREETS,
  TAGS,
} from './vocabulary.ts'

/** 2025-01-01T00:00:00Z in microseconds: nothing seeded is older. */
export const WORLD_START = 1_735_689_600_000_000
/** Seeded records are created within a year, and changed within a quarter after that. */
const YEAR = 31_536_000_000_000
const QUARTER = 7_776_000_000_000

/** The part of a patient that other records show. */
export type Person = Pick<Patient, 'id' | 'external_id' | 'first_name' | 'last_name' | 'email'>

interface FirstDraws extends Person {
  readonly place: (typeof PLACES)[number]
  readonly hasAddress: boolean
  readonly created: number
  readonly updated: number
}

/** The first draws of a patient, enough for `Person`. */
function begin(draw: Draw, ids: IdSpace, index: number): FirstDraws {
  const first_name = draw.pick(FIRST_NAMES)
  const last_name = draw.pick(LAST_NAMES)
  const place = draw.pick(PLACES)
  const hasAddress = draw.chance(0.85)
  const { created, updated } = makeTimes(draw)
  const external_id = draw.chance(0.7) ? `EHR-${index + 1}` : null
  const email = makeEmail(draw, index)
  return {
    id: ids.idAt(index),
    external_id,
    first_name,
    last_name,
    email,
    place,
    hasAddress,
    created,
    updated,
  }
}

/** The part of `makePatient(ids, key, index)` that responses show, in a fraction of the time. */
export function makePerson(ids: IdSpace, key: Key, index: number): Person {
  return begin(new Draw(key, index), ids, index)
}

export function makePatient(ids: IdSpace, key: Key, index: number): Patient {
  const draw = new Draw(key, index)
  const { id, external_id, first_name, last_name, email, place, hasAddress, created, updated } = begin(
    draw,
    ids,
    index,
  )
  return {
    id,
    external_id,
    first_name,
    last_name,
    email,
    phone_number: makePhone(draw),
    date_birth: makeBirthDate(draw),
    sex_at_birth: draw.chance(0.05) ? null : draw.pick(SEXES),
    provider: draw.chance(0.6) ? stableId(key, 1, draw.below(7)) : null,
    address: hasAddress ? `${1 + draw.below(9999)} ${draw.pick(STREETS)}` : '',
    address2: hasAddress ? draw.pick(SECOND_LINES) : '',
    city: hasAddress ? place.city : '',
    state: hasAddress ? place.state : '',
    zipcode: hasAddress ? place.zip : '',
    emergency_contact: makeContact(draw, last_name),
    patient_tags: makeTags(draw),
    custom_fields: makeCustomFields(draw),
    created_at: stamp(created),
    updated_at: stamp(updated),
  }
}

/** Times of creation and last change; one record in three never changed, one in twenty has whole seconds. */
export function makeTimes(draw: Draw): { created: number; updated: number } {
  const created = WORLD_START + Math.floor((draw.word() / 0x1_0000_0000) * YEAR)
  if (draw.chance(0.05)) return { created: whole(created), updated: whole(created) }
  if (draw.chance(0.35)) return { created, updated: created }
  return { created, updated: created + Math.floor((draw.word() / 0x1_0000_0000) * QUARTER) }
}

function whole(microseconds: number): number {
  return microseconds - (microseconds % 1_000_000)
}

function makeEmail(draw: Draw, index: number): string | null {
  if (draw.chance(0.08)) return null
  if (draw.chance(0.03)) return ''
  const domain = draw.pick(['example.com', 'example.org', 'mail.example.net', 'EXAMPLE.com'])
  return `${draw.pick(['patient', 'family+kids', 'p.q', "o'neil", 'client_'])}${index + 1}@${domain}`
}

function makePhone(draw: Draw): string | null {
  switch (draw.below(8)) {
    case 0:
      return null
    case 1:
      return ''
    case 2:
      return `+1 (555) ${draw.digits(3)}-${draw.digits(4)}`
    case 3:
      return `+44 20 7946 ${draw.digits(4)}`
    case 4:
      return `555.${draw.digits(3)}.${draw.digits(4)} x${draw.digits(2)}`
    default:
      return `555${draw.digits(7)}`
  }
}

function makeBirthDate(draw: Draw): string | null {
  if (draw.chance(0.04)) return null
  if (draw.chance(0.02)) return draw.pick(['1980-02-29', '2000-02-29', '1900-01-01', '2024-12-31'])
  const year = 1925 + draw.below(99)
  return `${year}-${String(1 + draw.below(12)).padStart(2, '0')}-${String(1 + draw.below(28)).padStart(2, '0')}`
}

function makeContact(draw: Draw, last: string): EmergencyContact | null {
  const kind = draw.below(10)
  if (kind < 3) return null
  const contact: EmergencyContact = {
    first_name: draw.pick(FIRST_NAMES),
    last_name: draw.chance(0.7) ? last : draw.pick(LAST_NAMES),
    phone_number: makePhone(draw) ?? '',
    relationship: draw.pick(RELATIONSHIPS),
  }
  if (kind < 7) return contact
  const place = draw.pick(PLACES)
  const address = `${1 + draw.below(999)} ${draw.pick(STREETS)}`
  const rest = { address2: draw.pick(SECOND_LINES), city: place.city, state: place.state, zipcode: place.zip }
  return { ...contact, address, ...rest }
}

function makeTags(draw: Draw): Tag[] {
  const start = draw.below(TAGS.length)
  const count = Math.max(0, draw.below(6) - 2)
  return Array.from({ length: count }, (_, index) => TAGS[(start + index) % TAGS.length]!)
}

function makeCustomFields(draw: Draw): Record<string, string> {
  const fields: Record<string, string> = {}
  const start = draw.below(CUSTOM_FIELDS.length)
  const count = Math.max(0, draw.below(7) - 2)
  for (let index = 0; index < count; index += 1) {
    const field = CUSTOM_FIELDS[(start + index) % CUSTOM_FIELDS.length]!
    fields[field.key] = draw.pick<string>(field.values)
  }
  return fields
}
