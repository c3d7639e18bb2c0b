/** Pages of patients as the service would send them, made before the clock starts so that making them is not timed. */

const FIRST = ['Ana', 'Björn', 'Chloé', 'Dmitri', 'Eun-ji', 'Fatima', "G'Day", 'Hana', 'İpek', 'José']
const LAST = [
  'Nguyễn',
  'O’Neill',
  'van der Berg',
  'Smith',
  'Kowalska',
  'Okafor',
  '王',
  'García Márquez',
  'Ivanova',
  'Li',
]

export const PAGE_SIZE = 500

/** One page as the bytes of its body; `page` counts from 0. */
export function patientPage(page: number, total: number): Buffer {
  const from = page * PAGE_SIZE
  const to = Math.min(total, from + PAGE_SIZE)
  const results = Array.from({ length: to - from }, (_, at) => patient(from + at))
  const next = to < total ? `http://127.0.0.1/v2/patients?page=${page + 2}` : null
  return Buffer.from(JSON.stringify({ count: total, next, previous: null, results }))
}

/** A patient of ordinary size: contact for two in three, up to three tags, up to two custom fields. */
function patient(index: number): unknown {
  const first = FIRST[index % FIRST.length]
  const last = LAST[Math.trunc(index / 7) % LAST.length]
  const stamp = `2026-0${(index % 9) + 1}-1${index % 10}T0${index % 10}:15:30.${String((index * 7919) % 1_000_000).padStart(6, '0')}Z`
  return {
    id: uuid(index),
    external_id: `EHR-${index}`,
    first_name: first,
    last_name: last,
    email: `person${index}@example.com`,
    phone_number: String(5_550_000_000 + index),
    date_birth: `19${String(30 + (index % 70)).padStart(2, '0')}-0${(index % 9) + 1}-2${index % 8}`,
    sex_at_birth: index % 2 === 0 ? 'Female' : 'Male',
    provider: index % 3 === 0 ? null : `provider-${index % 17}`,
    address: `${index % 900} Harbour Road`,
    address2: index % 5 === 0 ? `Apt ${index % 40}` : '',
    city: 'Springfield',
    state: 'MA',
    zipcode: String(10_000 + (index % 80_000)),
    emergency_contact:
      index % 3 === 0
        ? null
        : { first_name: last, last_name: first, phone_number: '5550199', relationship: 'Sibling' },
    patient_tags: Array.from({ length: index % 4 }, (_, at) => ({ name: `Tag ${at}`, color: '#00ff00' })),
    custom_fields: index % 3 === 1 ? { plan: `Plan ${index % 9}`, mrn: String(index) } : {},
    created_at: stamp,
    updated_at: stamp,
  }
}

/** Spread like random ids, so that the index is written all over, as in life. */
function uuid(index: number): string {
  const hex = (Math.imul(index + 1, 0x9e3779b1) >>> 0).toString(16).padStart(8, '0')
  const tail = (Math.imul(index + 7, 0x85ebca6b) >>> 0).toString(16).padStart(8, '0')
  return `${hex}-${tail.slice(0, 4)}-4${tail.slice(4, 7)}-8${hex.slice(0, 3)}-${tail}${hex.slice(4)}`
}
